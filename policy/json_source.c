#include "policy/json_source.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/names.h"
#include "base/text.h"
#include "base/utf8.h"

struct scan {
    const char *at, *end;
    const char *mark; /* up to here lines and columns are counted */
    uint32_t line, column;
    size_t values;
    struct pin_json_source *source;
    struct pin_findings *found;
};

static const char *const type_names[] = {
    [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "a list",  [JSON_STRING] = "a string",
    [JSON_INTEGER] = "an integer", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
    [JSON_FALSE] = "false",        [JSON_NULL] = "null",
};

const char *pin_json_type_name(const json_t *value) {
    return value == NULL ? "nothing" : type_names[json_typeof(value)];
}

/* Moves the mark, never back: the whole scan counts each byte once. */
static void count_to(struct scan *scan, const char *to) {
    for (; scan->mark < to; scan->mark++) {
        if (*scan->mark == '\n') {
            scan->line++;
            scan->column = 1;
        } else if (((unsigned char)*scan->mark & 0xC0) != 0x80) {
            scan->column++;
        }
    }
}

void pin_json_where(char *to, size_t room, const char *file, uint32_t line, uint32_t column,
                    const char *pointer) {
    char tail[112];
    int length = line == 0 ? snprintf(tail, sizeof(tail), " %s", pointer)
                           : snprintf(tail, sizeof(tail), ":%u:%u %s", line, column, pointer);
    size_t used = length < 0 ? 0 : (size_t)length < sizeof(tail) ? (size_t)length : sizeof(tail) - 1;
    while (used > 0 && tail[used - 1] == ' ') /* the pointer of the whole document is "" */
        tail[--used] = '\0';
    size_t name = strlen(file), space = room > used + 1 ? room - used - 1 : 0;
    if (name <= space)
        (void)snprintf(to, room, "%s%s", file, tail);
    else
        (void)snprintf(to, room, "...%s%s", file + name - (space > 3 ? space - 3 : 0), tail);
}

/* The JSON pointer of a node (RFC 6901), from its end to its start; what doesn't fit is cut in front. */
static const char *pointer_of(const struct pin_json *node, char *room, size_t size) {
    char *at = room + size - 1;
    *at = '\0';
    for (; node->parent != NULL; node = node->parent) {
        char part[80], number[24], escaped[160];
        (void)snprintf(number, sizeof(number), "%zu", node->index);
        const char *key = node->key != NULL ? node->key : number;
        (void)pin_escape(part, sizeof(part), key, strlen(key));
        size_t used = 0;
        for (const char *c = part; *c != '\0'; c++) {
            if (*c == '~' || *c == '/') {
                escaped[used++] = '~';
                escaped[used++] = *c == '~' ? '0' : '1';
            } else {
                escaped[used++] = *c;
            }
        }
        if ((size_t)(at - room) < used + 1)
            return at;
        at -= used;
        memcpy(at, escaped, used);
        *--at = '/';
    }
    return at;
}

void pin_json_where_is(char *to, size_t room, const struct pin_json_source *source,
                       const struct pin_json *node) {
    char pointer[96];
    pin_json_where(to, room, source->file, node->line, node->column,
                   pointer_of(node, pointer, sizeof(pointer)));
}

__attribute__((format(printf, 7, 0))) static void
fault_at(const struct pin_json_source *source, const struct pin_json *node, uint32_t line, uint32_t column,
         struct pin_findings *found, const char *hint, const char *format, va_list args) {
    char pointer[96], where[sizeof(found->list[0].pointer)], message[sizeof(found->list[0].message)];
    pin_json_where(where, sizeof(where), source->file, line, column,
                   pointer_of(node, pointer, sizeof(pointer)));
    (void)vsnprintf(message, sizeof(message), format, args);
    (void)pin_find(found, PIN_ERROR_INVALID, where, hint, "%s", message);
}

void pin_json_fault(const struct pin_json_source *source, const struct pin_json *node,
                    struct pin_findings *found, const char *hint, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fault_at(source, node, node->line, node->column, found, hint, format, args);
    va_end(args);
}

void pin_json_fault_key(const struct pin_json_source *source, const struct pin_json *node,
                        struct pin_findings *found, const char *hint, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fault_at(source, node, node->key_line, node->key_column, found, hint, format, args);
    va_end(args);
}

struct pin_place pin_json_place(const struct pin_json_source *source, const struct pin_json *node) {
    return (struct pin_place){source->file, node->line, node->column};
}

/* A fault of the text itself, at a byte of it. */
static bool refuse_text(struct scan *scan, const char *at, const char *hint, const char *what) {
    char where[sizeof(scan->found->list[0].pointer)];
    count_to(scan, at);
    pin_json_where(where, sizeof(where), scan->source->file, scan->line, scan->column, "");
    (void)pin_find(scan->found, PIN_ERROR_SYNTAX, where, hint, "%s", what);
    return false;
}

static bool check_bytes(struct scan *scan, const char *text, size_t size) {
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        return refuse_text(scan, text, "save the file without it", "the file starts with a byte order mark");
    const char *nul = size > 0 ? memchr(text, '\0', size) : NULL;
    if (nul != NULL)
        return refuse_text(scan, nul, NULL, "a NUL byte in the text");
    size_t valid = pin_utf8_prefix((const uint8_t *)text, size);
    if (valid < size)
        return refuse_text(scan, text + valid, "save the file as UTF-8", "the text is not UTF-8");
    return true;
}

static void seed_hashes(void) {
    unsigned seed = 0; /* 0 lets jansson open /dev/urandom, which costs more */
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == sizeof(seed))
        json_object_seed(seed); /* counts only before the first object */
}

static bool parse_text(struct pin_json_source *source, const char *text, size_t size,
                       struct pin_findings *found) {
    json_error_t fault;
    seed_hashes();
    source->tree = json_loadb(text, size, 0, &fault);
    if (source->tree != NULL)
        return true;
    char where[sizeof(found->list[0].pointer)], message[2 * JSON_ERROR_TEXT_LENGTH];
    uint32_t line = fault.line > 0 ? (uint32_t)fault.line : 1;
    uint32_t column = fault.column > 0 ? (uint32_t)fault.column : 1;
    pin_json_where(where, sizeof(where), source->file, line, column, "");
    (void)pin_escape(message, sizeof(message), fault.text, strlen(fault.text));
    (void)pin_find(found, PIN_ERROR_SYNTAX, where, NULL, "not JSON: %s", message);
    return false;
}

static void skip_space(struct scan *scan) {
    while (scan->at < scan->end && strchr(" \t\r\n", *scan->at) != NULL)
        scan->at++;
}

/* From the opening quote past the closing one; returns what is between them. */
static const char *skip_string(struct scan *scan, size_t *size) {
    const char *start = ++scan->at;
    while (scan->at < scan->end && *scan->at != '"')
        scan->at += *scan->at == '\\' && scan->end - scan->at > 1 ? 2 : 1;
    *size = (size_t)(scan->at - start);
    if (scan->at < scan->end)
        scan->at++;
    return start;
}

static const char *decode_key(struct scan *scan, const char *raw, size_t size) {
    if (memchr(raw, '\\', size) == NULL)
        return pin_arena_strndup(&scan->source->arena, raw, size);
    json_t *text = json_loadb(raw - 1, size + 2, JSON_DECODE_ANY, NULL); /* with its quotes */
    const char *key = pin_arena_strdup(&scan->source->arena, text != NULL ? json_string_value(text) : "");
    json_decref(text);
    return key;
}

static struct pin_json *scan_value(struct scan *scan, struct pin_json *parent, unsigned depth);

static struct pin_json *scan_member(struct scan *scan, struct pin_json *object, unsigned depth) {
    size_t size;
    count_to(scan, scan->at);
    uint32_t line = scan->line, column = scan->column;
    const char *raw = skip_string(scan, &size);
    const char *key = decode_key(scan, raw, size);
    skip_space(scan);
    scan->at++; /* the colon */
    struct pin_json *node = scan_value(scan, object, depth);
    if (node == NULL)
        return NULL;
    node->key = key;
    node->key_line = line;
    node->key_column = column;
    return node;
}

static bool scan_children(struct scan *scan, struct pin_json *node, unsigned depth, bool object) {
    struct pin_json **link = &node->first;
    scan->at++; /* the bracket */
    for (;;) {
        skip_space(scan);
        if (scan->at >= scan->end || *scan->at == '}' || *scan->at == ']')
            break;
        if (*scan->at == ',') {
            scan->at++;
            continue;
        }
        struct pin_json *child =
            object ? scan_member(scan, node, depth + 1) : scan_value(scan, node, depth + 1);
        if (child == NULL)
            return false;
        child->index = node->count++;
        *link = child;
        link = &child->next;
    }
    if (scan->at < scan->end)
        scan->at++;
    return true;
}

/* The text is known to be JSON, so what a value is shows in its first character. */
static struct pin_json *scan_value(struct scan *scan, struct pin_json *parent, unsigned depth) {
    skip_space(scan);
    if (depth > PIN_JSON_DEPTH_MAX) {
        (void)refuse_text(scan, scan->at, NULL, "nested deeper than 32 levels");
        return NULL;
    }
    if (++scan->values > PIN_JSON_VALUES_MAX) {
        (void)refuse_text(scan, scan->at, NULL, "more than 200000 values");
        return NULL;
    }
    struct pin_json *node = pin_arena_alloc(&scan->source->arena, sizeof(*node));
    count_to(scan, scan->at);
    node->parent = parent;
    node->line = scan->line;
    node->column = scan->column;
    size_t size;
    if (scan->at < scan->end && (*scan->at == '{' || *scan->at == '['))
        return scan_children(scan, node, depth, *scan->at == '{') ? node : NULL;
    if (scan->at < scan->end && *scan->at == '"')
        (void)skip_string(scan, &size);
    else
        while (scan->at < scan->end && strchr(",]} \t\r\n", *scan->at) == NULL)
            scan->at++;
    return node;
}

/* Every further occurrence of a key is a finding, and none of them gets a value. */
static void find_duplicates(struct pin_json_source *source, struct pin_json *object, json_t *twice,
                            struct pin_findings *found) {
    json_t *first = json_object();
    for (struct pin_json *child = object->first; child != NULL; child = child->next) {
        json_t *line = json_object_get(first, child->key);
        if (line == NULL) {
            (void)json_object_set_new(first, child->key, json_integer(child->key_line));
            continue;
        }
        char key[64];
        (void)pin_escape(key, sizeof(key), child->key, strlen(child->key));
        pin_json_fault_key(source, child, found, "keep one of them",
                           "the key '%s' stands twice; first on line %lld", key,
                           (long long)json_integer_value(line));
        (void)json_object_set_new(twice, child->key, json_true());
    }
    json_decref(first);
}

static void attach(struct pin_json_source *source, struct pin_json *node, json_t *value,
                   struct pin_findings *found) {
    node->value = value;
    if (json_is_array(value)) {
        for (struct pin_json *child = node->first; child != NULL; child = child->next)
            attach(source, child, json_array_get(value, child->index), found);
        return;
    }
    if (!json_is_object(value))
        return;
    json_t *twice = NULL;
    if (node->count != json_object_size(value)) {
        twice = json_object();
        find_duplicates(source, node, twice, found);
    }
    for (struct pin_json *child = node->first; child != NULL; child = child->next)
        if (json_object_get(twice, child->key) == NULL)
            attach(source, child, json_object_get(value, child->key), found);
    json_decref(twice);
}

bool pin_json_read(struct pin_json_source *source, const char *file, const char *text, size_t size,
                   struct pin_findings *found) {
    struct scan scan = {text, text + size, text, 1, 1, 0, source, found};
    source->file = file;
    if (!check_bytes(&scan, text, size) || !parse_text(source, text, size, found))
        return false;
    source->root = scan_value(&scan, NULL, 0);
    if (source->root == NULL)
        return false;
    attach(source, source->root, source->tree, found);
    return true;
}

void pin_json_free(struct pin_json_source *source) {
    json_decref(source->tree);
    source->tree = NULL;
    pin_arena_free(&source->arena);
}
