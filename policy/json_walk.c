#include "policy/json_walk.h"

#include <ctype.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "base/utf8.h"

struct walk {
    const char *at, *end;
    const char *mark; /* up to here lines and columns are counted */
    uint32_t line, column;
    const char *line_start;
    size_t indent; /* of this line: */
    uint32_t indented_line;
    size_t values;
    char closers[PIN_JSON_DEPTH_MAX + 1];   /* what closes the bracket that is open at each depth */
    size_t indents[PIN_JSON_DEPTH_MAX + 1]; /* how far the line is indented in which it was opened */
    bool lacks_closers;                     /* more brackets are opened than closed: lines tell which */
    bool ended;                             /* with the text, and said so: what is open ends as it is */
    bool refused;                           /* the text isn't JSON: look for faults, put values together */
    bool over;                              /* what follows can't be judged */
    bool resumed;                           /* behind a fault, where the next line starts */
    struct pin_json_source *source;
    struct pin_findings *found;
};

enum before { /* the next item of a list or an object */
              BEFORE_NOTHING,
              BEFORE_ITEM,
              BEFORE_COMMA,
              BEFORE_FAULT, /* behind which a comma may have been skipped */
};

/* Moves the mark, never back: the whole walk counts each byte once. */
static void count_to(struct walk *walk, const char *to) {
    for (; walk->mark < to; walk->mark++) {
        if (*walk->mark == '\n') {
            walk->line++;
            walk->line_start = walk->mark + 1;
            walk->column = 1;
        } else if (((unsigned char)*walk->mark & 0xC0) != 0x80) {
            walk->column++;
        }
    }
}

/* A fault at a byte that isn't in front of the mark; `node` is the value that it is in. */
__attribute__((format(printf, 5, 6))) static void fault(struct walk *walk, const struct pin_json *node,
                                                        const char *at, const char *hint, const char *format,
                                                        ...) {
    char message[sizeof(walk->found->list[0].message)];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    count_to(walk, at);
    if (!walk->over)
        pin_json_fault_text(walk->source, node, walk->line, walk->column, walk->found, hint, message);
}

/* Each byte of every policy is asked about: a call for each would be a tenth of what a run computes. */
static inline bool is_one_of(char byte, const char *set) {
    while (*set != '\0' && *set != byte)
        set++;
    return *set != '\0';
}

static bool is_at(const struct walk *walk, const char *set) {
    return walk->at < walk->end && is_one_of(*walk->at, set);
}

static size_t left(const struct walk *walk) {
    return (size_t)(walk->end - walk->at);
}

static void skip_comment(struct walk *walk) {
    bool block = walk->at[0] == '/' && walk->at[1] == '*';
    const char *stop =
        block ? memmem(walk->at + 2, left(walk) - 2, "*/", 2) : memchr(walk->at, '\n', left(walk));
    walk->at = stop == NULL ? walk->end : stop + (block ? 2 : 0);
}

static void skip_space(struct walk *walk, const struct pin_json *node) {
    for (;;) {
        while (is_at(walk, " \t\r\n"))
            walk->at++;
        if (!is_at(walk, "#") && !(is_at(walk, "/") && left(walk) > 1 && is_one_of(walk->at[1], "/*")))
            return;
        fault(walk, node, walk->at, "take it out", "not JSON: a comment");
        skip_comment(walk);
    }
}

/* Behind what can't be understood, to where an item or a line ends. */
static void skip_rest(struct walk *walk) {
    while (walk->at < walk->end && !is_one_of(*walk->at, ",]}\n"))
        walk->at++;
    walk->resumed = is_at(walk, "\n");
}

/* From the opening quote past the closing one; false where the line or the text ends before that. */
static bool skip_string(struct walk *walk) {
    const char quote = *walk->at++;
    while (walk->at < walk->end && *walk->at != quote && *walk->at != '\n')
        walk->at += *walk->at == '\\' && left(walk) > 1 && walk->at[1] != '\n' ? 2 : 1;
    walk->resumed = is_at(walk, "\n");
    if (walk->at == walk->end || walk->resumed)
        return false;
    walk->at++;
    return true;
}

/* As above, with a fault where it isn't closed. */
static bool take_string(struct walk *walk, const struct pin_json *node) {
    const char *start = walk->at;
    if (skip_string(walk))
        return true;
    fault(walk, node, start, "close it with a double quote on the same line",
          "not JSON: a quote that isn't closed");
    walk->ended = walk->ended || walk->at == walk->end; /* it has swallowed the rest */
    return false;
}

static bool check_bytes(struct walk *walk, const struct pin_json *node, const char *text, size_t size) {
    size_t valid = pin_utf8_prefix((const uint8_t *)text, size);
    const char *nul = memchr(text, '\0', valid);
    if (nul != NULL) {
        fault(walk, node, nul, "save the file as UTF-8 text", "a NUL byte in the text");
        walk->over = true; /* UTF-16, or no text at all */
    } else if (valid < size) {
        fault(walk, node, text + valid, "save the file as UTF-8", "the text is not UTF-8");
    }
    return nul == NULL && valid == size;
}

#define HINT_QUOTES "texts stand in double quotes"

/* Words of other languages. */
static const char *hint_of_word(const char *word, size_t size) {
    static const struct {
        const char *word, *hint;
    } rows[] = {
        {"True",      "write true"    },
        {"False",     "write false"   },
        {"None",      "write null"    },
        {"nil",       "write null"    },
        {"TRUE",      "write true"    },
        {"FALSE",     "write false"   },
        {"NULL",      "write null"    },
        {"NaN",       "write a number"},
        {"yes",       "write true"    },
        {"undefined", "write null"    },
        {"no",        "write false"   },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        if (strlen(rows[i].word) == size && memcmp(rows[i].word, word, size) == 0)
            return rows[i].hint;
    return is_one_of(*word, "0123456789+-.") ? "a whole number has digits alone; texts stand in double quotes"
                                             : HINT_QUOTES;
}

/* Says why jansson refuses a text in quotes, a number or a word. */
static void blame_scalar(struct walk *walk, const struct pin_json *node, const char *text, size_t size,
                         json_error_t *said) {
    char shown[48];
    if (json_error_code(said) == json_error_null_character) {
        fault(walk, node, text, "leave it out", "not JSON: the character \\u0000 in a text");
    } else if (json_error_code(said) == json_error_numeric_overflow || *text == '"') {
        const char *near = strstr(said->text, " near '"); /* the text itself, which may be long */
        size_t length = near != NULL ? (size_t)(near - said->text) : strlen(said->text);
        fault(walk, node, text,
              *text == '"' ? "write \\\\ for a backslash, \\n for a new line, \\t for a tab"
                           : "no number here is so large",
              "not JSON: %s", pin_escape(shown, sizeof(shown), said->text, length));
    } else if (*text == '\'') {
        fault(walk, node, text, HINT_QUOTES, "not JSON: a text in single quotes");
    } else {
        fault(walk, node, text, hint_of_word(text, size), "not JSON: '%s' is no value",
              pin_escape(shown, sizeof(shown), text, size));
    }
}

static json_t *judge_scalar(struct walk *walk, const struct pin_json *node, const char *text, size_t size) {
    json_error_t said;
    if (!check_bytes(walk, node, text, size))
        return NULL;
    json_t *value = json_loadb(text, size, JSON_DECODE_ANY, &said);
    if (value == NULL)
        blame_scalar(walk, node, text, size, &said);
    return value;
}

static json_t *walk_scalar(struct walk *walk, const struct pin_json *node) {
    const char *start = walk->at;
    if (is_at(walk, "\"'")) {
        if (!take_string(walk, node))
            return NULL;
    } else {
        while (walk->at < walk->end && !is_one_of(*walk->at, " \t\r\n,[]{}\""))
            walk->at++;
    }
    if (!walk->refused)
        return NULL;
    json_t *value = judge_scalar(walk, node, start, (size_t)(walk->at - start));
    if (value == NULL)
        skip_rest(walk);
    return value;
}

/* What is between the quotes of a key. */
static char *decode_key(struct walk *walk, const struct pin_json *object, const char *start, bool *lost) {
    size_t size = (size_t)(walk->at - start);
    struct pin_arena *arena = &walk->source->arena;
    json_t *text = NULL;
    if (walk->refused) {
        text = judge_scalar(walk, object, start, size);
        *lost = text == NULL;
    } else if (memchr(start, '\\', size) != NULL) {
        text = json_loadb(start, size, JSON_DECODE_ANY, NULL);
    }
    char *key = text != NULL ? pin_arena_strdup(arena, json_string_value(text))
                             : pin_arena_strndup(arena, start + 1, size - 2);
    json_decref(text);
    return key;
}

/* Many languages let it stand so. */
static char *take_bare_key(struct walk *walk, const struct pin_json *object) {
    const char *start = walk->at;
    while (walk->at < walk->end && (isalnum((unsigned char)*walk->at) || (unsigned char)*walk->at >= 0x80 ||
                                    is_one_of(*walk->at, "_$-")))
        walk->at++;
    size_t size = (size_t)(walk->at - start);
    bool text = check_bytes(walk, object, start, size > 0 ? size : 1);
    if (text && size > 0) {
        fault(walk, object, start, "keys stand in double quotes", "not JSON: a key without quotes");
        return pin_arena_strndup(&walk->source->arena, start, size);
    }
    if (text)
        fault(walk, object, start, "write \"key\": value", "not JSON: a key is missing");
    skip_rest(walk);
    return NULL;
}

/* The key of a member, in the arena; NULL where there is none to be told. `lost`: it isn't what was meant. */
static char *walk_key(struct walk *walk, const struct pin_json *object, bool *lost) {
    const char *start = walk->at;
    if (!is_at(walk, "\"'"))
        return take_bare_key(walk, object);
    if (!take_string(walk, object))
        return NULL;
    if (*start == '"')
        return decode_key(walk, object, start, lost);
    fault(walk, object, start, "keys stand in double quotes", "not JSON: a key in single quotes");
    return pin_arena_strndup(&walk->source->arena, start + 1, (size_t)(walk->at - start) - 2);
}

static json_t *walk_value(struct walk *walk, struct pin_json *node, unsigned depth);

/* The colon and the value. */
static json_t *walk_behind_key(struct walk *walk, struct pin_json *node, unsigned depth) {
    skip_space(walk, node);
    const char *place = walk->at;
    bool colon = is_at(walk, ":");
    walk->at += colon || is_at(walk, "=");
    skip_space(walk, node);
    if (walk->at == walk->end)
        return NULL; /* whose fault is the bracket that isn't closed */
    if (is_at(walk, ",]}")) {
        fault(walk, node, walk->at, "write \"key\": value", "not JSON: a key without a value");
        return NULL;
    }
    if (!colon)
        fault(walk, node, place, "write \"key\": value", "not JSON: a key without a colon");
    return walk_value(walk, node, depth);
}

static struct pin_json *add_child(struct walk *walk, struct pin_json *parent, struct pin_json ***link) {
    struct pin_json *child = pin_arena_alloc(&walk->source->arena, sizeof(*child));
    child->parent = parent;
    child->index = parent->count++;
    **link = child;
    *link = &child->next;
    return child;
}

/* One member of an object; false where it can't be told which. */
static bool walk_member(struct walk *walk, struct pin_json *object, unsigned depth, struct pin_json ***link,
                        json_t *whole) {
    bool lost = false;
    count_to(walk, walk->at);
    uint32_t line = walk->line, column = walk->column;
    const char *key = walk_key(walk, object, &lost);
    if (key == NULL)
        return false;
    struct pin_json *child = add_child(walk, object, link);
    child->key = key;
    child->line = child->key_line = line; /* of the value, where there is one: see walk_value() */
    child->column = child->key_column = column;
    json_t *value = walk_behind_key(walk, child, depth);
    return (value == NULL || json_object_set_new_nocheck(whole, key, value) == 0) && !lost;
}

static bool walk_item(struct walk *walk, struct pin_json *list, unsigned depth, struct pin_json ***link,
                      json_t *whole) {
    json_t *value = walk_value(walk, add_child(walk, list, link), depth);
    return value != NULL && json_array_append_new(whole, value) == 0;
}

static bool is_open_above(const struct walk *walk, unsigned depth, char closer) {
    return memchr(walk->closers, closer, depth) != NULL;
}

/* The bracket that ends a list or an object: its own, or one that shows that its own is missing. */
static void take_closer(struct walk *walk, const struct pin_json *node, unsigned depth, enum before before) {
    char own = walk->closers[depth];
    if (*walk->at != own)
        fault(walk, node, walk->at, own == '}' ? "close it with }" : "close it with ]",
              "not JSON: '%c' where the '%c' of line %u is open", *walk->at, own == '}' ? '{' : '[',
              node->line);
    else if (before == BEFORE_COMMA)
        fault(walk, node, walk->at, "take the comma out", "not JSON: a comma after the last item");
    walk->resumed = false;
    if (*walk->at == own || !is_open_above(walk, depth, *walk->at))
        walk->at++;
}

/* Of the line that the mark is in; each line is looked at once. */
static size_t indent_of_line(struct walk *walk) {
    if (walk->indented_line != walk->line) {
        const char *at = walk->line_start;
        while (at < walk->end && is_one_of(*at, " \t"))
            at++;
        walk->indent = (size_t)(at - walk->line_start);
        walk->indented_line = walk->line;
    }
    return walk->indent;
}

/* A text with a colon behind it. */
static bool is_at_key(const struct walk *walk) {
    struct walk ahead = *walk;
    if (!is_at(&ahead, "\"") || !skip_string(&ahead))
        return false;
    while (is_at(&ahead, " \t\r\n"))
        ahead.at++;
    return is_at(&ahead, ":");
}

/* Whether what stands here belongs to the value around it, so that the closing bracket of this one is
 * missing: a key in a list, an object where a key should be, or, where brackets are missing, a line that is
 * indented no further than the one that opened it. */
static bool is_outside(struct walk *walk, const struct pin_json *node, unsigned depth) {
    char around = depth > 0 ? walk->closers[depth - 1] : '\0';
    if (walk->closers[depth] == ']')
        return around == '}' && is_at_key(walk);
    if (is_at(walk, "{"))
        return around == ']';
    if (!walk->lacks_closers || depth == 0 || node->first == NULL)
        return false;
    count_to(walk, walk->at);
    return walk->at == walk->line_start + indent_of_line(walk) && walk->indent <= walk->indents[depth] &&
           is_at_key(walk);
}

/* The items up to the closing bracket, or to where that is seen to be missing; false where one of them can't
 * be told. */
static bool walk_items(struct walk *walk, struct pin_json *node, unsigned depth, json_t *whole) {
    struct pin_json **link = &node->first;
    bool object = walk->closers[depth] == '}', read = true;
    enum before before = BEFORE_NOTHING;
    while (!walk->over && !walk->ended) {
        skip_space(walk, node);
        const char *start = walk->at;
        if (start == walk->end) {
            fault(walk, node, start, "close what is open: a quote, ] or }",
                  "not JSON: the text ends where the '%c' of line %u is open", object ? '{' : '[',
                  node->line);
            walk->ended = true; /* and so does all around it */
        } else if (is_at(walk, "]}")) {
            take_closer(walk, node, depth, before);
            return read;
        } else if (*start == ',') {
            if (before == BEFORE_NOTHING || before == BEFORE_COMMA)
                fault(walk, node, start, "take the comma out", "not JSON: a comma with nothing before it");
            before = BEFORE_COMMA;
            walk->at++;
        } else if (walk->refused && before != BEFORE_NOTHING && is_outside(walk, node, depth)) {
            fault(walk, node, start, object ? "close it with }" : "close it with ]",
                  "not JSON: the '%c' of line %u is still open", object ? '{' : '[', node->line);
            walk->resumed = true;
            return read;
        } else {
            if (before == BEFORE_ITEM)
                fault(walk, node, start, "put a comma between two items", "not JSON: a comma is missing");
            walk->resumed = false;
            read = (object ? walk_member : walk_item)(walk, node, depth + 1, &link, whole) && read;
            before = walk->resumed ? BEFORE_FAULT : BEFORE_ITEM;
            walk->at += walk->at == start; /* whatever it is */
        }
    }
    node->cut = walk->ended;
    return walk->ended && read;
}

/* Brackets are counted, texts skipped. */
static void skip_deep(struct walk *walk) {
    size_t open = 0;
    do {
        if (is_at(walk, "\"")) {
            (void)skip_string(walk);
            continue;
        }
        open += is_at(walk, "[{");
        open -= is_at(walk, "]}");
        walk->at++;
    } while (walk->at < walk->end && open > 0);
}

static bool is_short_of_closers(const struct walk *walk) {
    struct walk ahead = *walk;
    ptrdiff_t open = 0;
    while (ahead.at < ahead.end) {
        if (is_at(&ahead, "\"")) {
            (void)skip_string(&ahead);
            continue;
        }
        open += is_at(&ahead, "[{");
        open -= is_at(&ahead, "]}");
        ahead.at++;
    }
    return open > 0;
}

/* A value that isn't missing. */
static json_t *walk_value(struct walk *walk, struct pin_json *node, unsigned depth) {
    if (++walk->values > PIN_JSON_VALUES_MAX) {
        fault(walk, node, walk->at, "write it shorter", "more than %d values", PIN_JSON_VALUES_MAX);
        walk->over = true;
        return NULL;
    }
    count_to(walk, walk->at);
    node->line = walk->line;
    node->column = walk->column;
    bool object = is_at(walk, "{"), list = is_at(walk, "[");
    if (depth > PIN_JSON_DEPTH_MAX) {
        fault(walk, node, walk->at, "write it flatter", "nested deeper than %d levels", PIN_JSON_DEPTH_MAX);
        if (object || list)
            skip_deep(walk);
        else
            json_decref(walk_scalar(walk, node));
        return NULL;
    }
    if (!object && !list)
        return walk_scalar(walk, node);
    walk->closers[depth] = object ? '}' : ']';
    if (walk->lacks_closers)
        walk->indents[depth] = indent_of_line(walk);
    walk->at++;
    json_t *whole = !walk->refused ? NULL : object ? json_object() : json_array();
    if (!walk_items(walk, node, depth, whole)) {
        json_decref(whole);
        return NULL;
    }
    return whole;
}

/* What isn't even the start of JSON is one fault. */
static json_t *walk_root(struct walk *walk, struct pin_json *root) {
    skip_space(walk, root);
    if (is_at(walk, "{[")) {
        json_t *value = walk_value(walk, root, 0);
        skip_space(walk, root);
        if (walk->at < walk->end && check_bytes(walk, root, walk->at, left(walk)))
            fault(walk, root, walk->at, "take it out: a file holds one value",
                  "not JSON: text after the end");
        return value;
    }
    if (walk->at == walk->end)
        fault(walk, root, walk->at, "write {\"key\": value}", "not JSON: there is nothing in it");
    else if (check_bytes(walk, root, walk->at, left(walk)))
        fault(walk, root, walk->at, "write {\"key\": value}", "not JSON: neither an object nor a list");
    return NULL;
}

bool pin_json_walk(struct pin_json_source *source, const char *text, size_t size, bool refused,
                   struct pin_findings *found) {
    static const char mark[] = "\xEF\xBB\xBF";
    struct walk walk = {.at = text,
                        .end = text + size,
                        .mark = text,
                        .line = 1,
                        .line_start = text,
                        .column = 1,
                        .refused = refused,
                        .source = source,
                        .found = found};
    struct pin_json *root = pin_arena_alloc(&source->arena, sizeof(*root));
    root->line = root->column = 1;
    if (size >= 3 && memcmp(text, mark, 3) == 0) {
        fault(&walk, root, text, "save the file without it", "the file starts with a byte order mark");
        walk.at += 3;
    }
    walk.lacks_closers = refused && is_short_of_closers(&walk);
    json_t *value = walk_root(&walk, root);
    source->root = root;
    if (refused)
        source->tree = value;
    return refused ? value != NULL : !walk.over;
}
