#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "policy/checks.h"
#include "policy/reader.h"
#include "policy/words.h"

static bool refuse(struct pin_reader *reader, const struct pin_json *node, const char *why,
                   const char *hint) {
    char shown[96];
    const char *text = json_string_value(node->value);
    (void)pin_escape(shown, sizeof(shown), text, strlen(text));
    pin_json_fault(reader->source, node, reader->found, hint, "'%s': %s", shown, why);
    return false;
}

static bool read_checked(struct pin_reader *reader, const struct pin_json *node, pin_string_check *check,
                         const char *hint, const char **to) {
    const char *text = pin_reader_string(reader, node);
    if (text == NULL)
        return false;
    const char *why = check(text, reader->site);
    if (why != NULL)
        return refuse(reader, node, why, hint);
    *to = pin_arena_strdup(&reader->policy->arena, text);
    return true;
}

/* The members of an object, of which the first `required` have to be there. */
static bool members_of(struct pin_reader *reader, const struct pin_json *node, const char *const *keys,
                       size_t count, size_t required, const struct pin_json **member) {
    bool known = pin_reader_members(reader, node, keys, count, member), good = known;
    for (size_t i = 0; known && i < required; i++)
        if (member[i] == NULL)
            good = pin_reader_missing(reader, node, keys[i]);
    return good;
}

/* --- images --- */

#define SUCH_IMAGE "such as 'host' or 'python-*'"

static const char *check_digest(const char *text, bool site) {
    (void)site;
    return pin_is_digest(text) ? NULL : "a digest is 'sha256:' and 64 lower-case hexadecimal digits";
}

static const char *check_key_file(const char *text, bool site) {
    (void)site;
    return pin_is_plain_path(text) ? NULL : "the file of a key is an absolute path";
}

static bool read_keys(struct pin_reader *reader, const struct pin_json *node, struct pin_strings *keys) {
    if (!json_is_array(node->value)) {
        pin_reader_expected(reader, node, "a list of files", PIN_HINT_LIST);
        return false;
    }
    bool good = true;
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        struct pin_string *key =
            pin_arena_grow(&reader->policy->arena, &keys->items, &keys->count, sizeof(*key));
        key->place = pin_json_place(reader->source, child);
        good =
            read_checked(reader, child, check_key_file, "such as '/etc/pinfold/keys/ci.pem'", &key->text) &&
            good;
    }
    return good;
}

static bool read_image_object(struct pin_reader *reader, const struct pin_json *node,
                              struct pin_image_rule *image) {
    enum { PATTERN, DIGEST, REQUIRE, KEYS, COUNT };
    static const char *const keys[COUNT] = {"pattern", "digest", "require_signature", "keys"};
    const struct pin_json *member[COUNT];
    bool known = pin_reader_members(reader, node, keys, COUNT, member), good = known;
    if (known && (member[PATTERN] == NULL) == (member[DIGEST] == NULL)) {
        pin_json_fault(reader->source, node, reader->found, "write one of the two",
                       "an image is named by either 'pattern' or 'digest'");
        good = false;
    }
    if (member[PATTERN] != NULL)
        good = read_checked(reader, member[PATTERN], pin_check_image, SUCH_IMAGE, &image->pattern) && good;
    if (member[DIGEST] != NULL)
        good = read_checked(reader, member[DIGEST], check_digest, "'pinfold image show' prints it",
                            &image->pattern) &&
               good;
    if (member[REQUIRE] != NULL && !json_is_boolean(member[REQUIRE]->value)) {
        pin_reader_expected(reader, member[REQUIRE], "true or false", PIN_HINT_FLAG);
        good = false;
    }
    image->require_signature = member[REQUIRE] != NULL && json_is_true(member[REQUIRE]->value);
    if (member[KEYS] != NULL)
        good = read_keys(reader, member[KEYS], &image->keys) && good;
    if (good && image->require_signature != (image->keys.count > 0)) {
        pin_json_fault(reader->source, node, reader->found, "write both, or neither",
                       "'require_signature' and 'keys' only make sense together");
        return false;
    }
    return good;
}

bool pin_reader_image(struct pin_reader *reader, const struct pin_json *node, const struct pin_field_row *row,
                      void *item) {
    (void)row;
    struct pin_image_rule *image = item;
    image->place = pin_json_place(reader->source, node);
    if (json_is_string(node->value))
        return read_checked(reader, node, pin_check_image, SUCH_IMAGE, &image->pattern);
    return read_image_object(reader, node, image);
}

/* --- mounts --- */

bool pin_reader_mount(struct pin_reader *reader, const struct pin_json *node, const struct pin_field_row *row,
                      void *item) {
    (void)row;
    enum { SOURCE, TARGET, ACCESS, COUNT };
    static const char *const keys[COUNT] = {"source", "target", "access"};
    static const char *const words[] = {[PIN_ACCESS_READ] = "read-only", [PIN_ACCESS_WRITE] = "read-write"};
    const struct pin_json *member[COUNT];
    struct pin_mount_rule *mount = item;
    bool good = members_of(reader, node, keys, COUNT, TARGET + 1, member);
    int access = PIN_ACCESS_READ;
    if (member[SOURCE] != NULL)
        good = read_checked(reader, member[SOURCE], pin_check_mount_source, "such as '/srv/models'",
                            &mount->source) &&
               good;
    if (member[TARGET] != NULL)
        good = read_checked(reader, member[TARGET], pin_check_mount_target, "such as '/models'",
                            &mount->target) &&
               good;
    if (member[ACCESS] != NULL)
        access = pin_reader_string(reader, member[ACCESS]) == NULL
                     ? -1
                     : pin_name_find(words, PIN_COUNT(words), json_string_value(member[ACCESS]->value));
    if (access < 0 && json_is_string(member[ACCESS]->value))
        (void)refuse(reader, member[ACCESS], "this is no access of a mount", "'read-only' or 'read-write'");
    if (!good || access < 0)
        return false;
    mount->access = (enum pin_access)access;
    mount->place = pin_json_place(reader->source, node);
    return true;
}

/* --- syscalls.allow, syscalls.deny --- */

/* 0 to 2^63-1 as a number; "0x…" up to 64 bits. */
static bool read_word64(struct pin_reader *reader, const struct pin_json *node, uint64_t *value) {
    if (json_is_integer(node->value) && json_integer_value(node->value) >= 0) {
        *value = (uint64_t)json_integer_value(node->value);
        return true;
    }
    const char *text = json_is_string(node->value) ? json_string_value(node->value) : "";
    size_t length = strlen(text);
    if (length > 2 && length <= 18 && strncmp(text, "0x", 2) == 0 &&
        strspn(text + 2, "0123456789abcdefABCDEF") == length - 2) {
        *value = strtoull(text + 2, NULL, 16);
        return true;
    }
    pin_json_fault(reader->source, node, reader->found, "such as 64, or \"0x40000000\" up to 64 bits",
                   "expected a whole number, or hexadecimal digits");
    return false;
}

static bool read_arg(struct pin_reader *reader, const struct pin_json *node, struct pin_filter_arg *arg) {
    enum { INDEX, OP, VALUE, MASK, COUNT };
    static const char *const keys[COUNT] = {"index", "op", "value", "mask"};
    const struct pin_json *member[COUNT];
    bool good = members_of(reader, node, keys, COUNT, VALUE + 1, member);
    uint64_t index = 0;
    int op = member[OP] == NULL ? -1 : pin_reader_word(reader, member[OP], pin_op_words, PIN_FILTER_OP_COUNT);
    if (member[INDEX] != NULL && !read_word64(reader, member[INDEX], &index)) {
        good = false;
    } else if (member[INDEX] != NULL && (index > 5 || !json_is_integer(member[INDEX]->value))) {
        pin_json_fault(reader->source, member[INDEX], reader->found, "0 is the first argument",
                       "the index of an argument is a number from 0 to 5");
        good = false;
    }
    if (member[VALUE] != NULL)
        good = read_word64(reader, member[VALUE], &arg->value) && good;
    if (!good || op < 0)
        return false;
    arg->index = (uint8_t)index;
    arg->op = (enum pin_filter_op)op;
    if ((arg->op == PIN_FILTER_MASKED_EQ) != (member[MASK] != NULL)) {
        pin_json_fault(reader->source, node, reader->found, "\"op\": \"masked_eq\", \"mask\": \"0xffffffff\"",
                       "'mask' stands with the comparison 'masked_eq' and with no other");
        return false;
    }
    if (member[MASK] != NULL && !read_word64(reader, member[MASK], &arg->mask))
        return false;
    if (arg->op != PIN_FILTER_MASKED_EQ || (arg->value & ~arg->mask) == 0)
        return true;
    pin_json_fault(reader->source, member[VALUE], reader->found, "name only bits of the mask",
                   "the value has bits that 'mask' takes away: nothing would be equal to it");
    return false;
}

static bool read_args(struct pin_reader *reader, const struct pin_json *node,
                      struct pin_syscall_entry *entry) {
    if (!json_is_array(node->value)) {
        pin_reader_expected(reader, node, "a list of comparisons", PIN_HINT_LIST);
        return false;
    }
    if (node->count > PIN_FILTER_ARGS_MAX) {
        pin_json_fault(reader->source, node, reader->found, "write alternatives as entries of their own",
                       "a call has at most 6 comparisons");
        return false;
    }
    bool good = true;
    for (const struct pin_json *child = node->first; child != NULL; child = child->next)
        good = read_arg(reader, child, &entry->args[entry->arg_count++]) && good;
    if (good && entry->arg_count > 0 && entry->name != NULL && entry->name[0] == '@') {
        pin_json_fault(reader->source, node, reader->found, "name the calls",
                       "the calls of a group have no argument in common");
        return false;
    }
    return good;
}

#define SUCH_CALL "such as 'openat' or '@file'"

bool pin_reader_syscall(struct pin_reader *reader, const struct pin_json *node,
                        const struct pin_field_row *row, void *item) {
    (void)row;
    enum { NAME, ARGS, COUNT };
    static const char *const keys[COUNT] = {"name", "args"};
    const struct pin_json *member[COUNT];
    struct pin_syscall_entry *entry = item;
    entry->place = pin_json_place(reader->source, node);
    if (json_is_string(node->value))
        return read_checked(reader, node, pin_check_syscall, SUCH_CALL, &entry->name);
    bool good = members_of(reader, node, keys, COUNT, NAME + 1, member);
    if (member[NAME] != NULL)
        good = read_checked(reader, member[NAME], pin_check_syscall, SUCH_CALL, &entry->name) && good;
    if (member[ARGS] != NULL)
        good = read_args(reader, member[ARGS], entry) && good;
    return good;
}
