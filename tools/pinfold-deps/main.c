/* pinfold-deps: `pinfold deps VERB`: the layers that requirements of tools have been installed into. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/tool/deps_store.h"
#include "tools/pinfold/options.h"
#include "tools/pinfold/program.h"
#include "tools/pinfold/report.h"

#define UNUSED_S (30 * 24 * 3600) /* what nobody has used for so long is collected */

struct deps_values {
    bool json, all;
    struct pin_number older;
};

#define ROW(name, type, member, value, help)                                                                 \
    { name, 0, type, offsetof(struct deps_values, member), value, help, NULL }
/* clang-format off */
static const struct pin_option common_options[] = {
    ROW("json", PIN_OPTION_FLAG, json, NULL, "print JSON"),
};
static const struct pin_option gc_options[] = {
    ROW("json", PIN_OPTION_FLAG, json, NULL, "print JSON"),
    ROW("older-than", PIN_OPTION_TIME, older, "T", "what nobody has used for this time (720h)"),
    ROW("all", PIN_OPTION_FLAG, all, NULL, "whatever nobody uses now"),
};
/* clang-format on */

static void print_object(json_t *object) {
    (void)json_dumpf(object, stdout, JSON_COMPACT);
    (void)fputc('\n', stdout);
    json_decref(object);
}

/* A store that was never made is an empty one. */
static bool open_store(struct pin_deps_store *store, bool *none, struct pin_error *err) {
    *none = false;
    if (pin_deps_store_open(store, false, err))
        return true;
    *none = err->kind == PIN_ERROR_NOT_FOUND;
    if (*none)
        pin_error_clear(err);
    return *none;
}

static void print_row(const struct pin_deps_row *row, json_t *facts) {
    char line[200], shown[400];
    size_t used = 0, index;
    json_t *item;
    line[0] = '\0';
    json_array_foreach(json_object_get(facts, "requirements"), index, item) {
        int length = snprintf(line + used, sizeof(line) - used, "%s%s", index > 0 ? ", " : "",
                              json_string_value(item));
        used += length > 0 && used + (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1 - used;
    }
    const char *installer = json_string_value(json_object_get(facts, "installer"));
    (void)printf("%.12s  %-3s  %8.1f MiB  %-6s  %s\n", row->key, installer != NULL ? installer : "?",
                 (double)json_integer_value(json_object_get(facts, "bytes")) / (1 << 20),
                 row->in_use ? "in use" : "", pin_escape(shown, sizeof(shown), line, strlen(line)));
}

static void see_row(void *self, const struct pin_deps_row *row) {
    json_t *facts = row->facts != NULL ? json_loads(row->facts, 0, NULL) : NULL;
    if (facts == NULL)
        facts = json_object();
    if (self == NULL) {
        print_row(row, facts);
        json_decref(facts);
        return;
    }
    (void)json_object_set_new(facts, "key", json_string(row->key));
    (void)json_object_set_new(facts, "used", json_integer(row->used_s));
    (void)json_object_set_new(facts, "in_use", json_boolean(row->in_use));
    (void)json_array_append_new(self, facts);
}

static int run_ls(const struct pin_invocation *invocation) {
    const struct deps_values *values = invocation->values;
    struct pin_deps_store store = PIN_DEPS_STORE_NONE;
    struct pin_error err = {0};
    bool none = false;
    json_t *list = values->json ? json_array() : NULL;
    bool good = open_store(&store, &none, &err) && (none || pin_deps_list(&store, see_row, list, &err));
    pin_deps_store_close(&store);
    if (good && list != NULL)
        print_object(json_pack("{s:O}", "layers", list));
    json_decref(list);
    return good ? 0 : pin_report(&err, values->json);
}

/* A key, or the start of one that no other has. */
struct search {
    const char *start;
    char key[PIN_DEPS_KEY_TEXT];
    unsigned hits;
};

static void see_match(void *self, const struct pin_deps_row *row) {
    struct search *search = self;
    if (strncmp(row->key, search->start, strlen(search->start)) != 0)
        return;
    search->hits++;
    memcpy(search->key, row->key, sizeof(search->key));
}

static bool remove_one(const struct pin_deps_store *store, const char *start, struct pin_error *err) {
    struct search search = {.start = start};
    if (strlen(start) < 6)
        return pin_fail(err, PIN_ERROR_USAGE, "'%.20s' is too short for a key: give six characters at least",
                        start);
    if (!pin_deps_list(store, see_match, &search, err))
        return false;
    if (search.hits != 1)
        return pin_fail(
            err, search.hits == 0 ? PIN_ERROR_NOT_FOUND : PIN_ERROR_USAGE,
            search.hits == 0 ? "there is no layer '%.64s'" : "'%.64s' is the start of several keys", start);
    return pin_deps_remove(store, search.key, err);
}

static int run_rm(const struct pin_invocation *invocation) {
    const struct deps_values *values = invocation->values;
    struct pin_deps_store store = PIN_DEPS_STORE_NONE;
    struct pin_error err = {0};
    bool good = pin_deps_store_open(&store, false, &err);
    for (size_t i = 0; good && i < invocation->argument_count; i++)
        good = remove_one(&store, invocation->arguments[i], &err);
    pin_deps_store_close(&store);
    if (good && values->json)
        print_object(json_pack("{s:I}", "removed", (json_int_t)invocation->argument_count));
    return good ? 0 : pin_report(&err, values->json);
}

static int run_gc(const struct pin_invocation *invocation) {
    const struct deps_values *values = invocation->values;
    struct pin_deps_store store = PIN_DEPS_STORE_NONE;
    struct pin_deps_removed removed = {0};
    struct pin_error err = {0};
    bool none = false;
    int64_t age = values->all           ? -1
                  : values->older.given ? (int64_t)(values->older.value / PIN_NS_PER_S)
                                        : UNUSED_S;
    bool good = open_store(&store, &none, &err) &&
                (none || pin_deps_gc(&store, (int64_t)time(NULL) - age, &removed, &err));
    pin_deps_store_close(&store);
    if (!good)
        return pin_report(&err, values->json);
    if (values->json)
        print_object(json_pack("{s:I, s:I, s:I}", "layers", (json_int_t)removed.layers, "unfinished",
                               (json_int_t)removed.unfinished, "bytes", (json_int_t)removed.bytes));
    else
        (void)printf("removed %llu layers and %llu unfinished ones, %.1f MiB\n",
                     (unsigned long long)removed.layers, (unsigned long long)removed.unfinished,
                     (double)removed.bytes / (1 << 20));
    return 0;
}

#define VERB(verb, words, form, least, most, about, text, shown)                                             \
    static const struct pin_verb verb_##verb = {.name = "deps " #verb,                                       \
                                                .synopsis = (form),                                          \
                                                .summary = (about),                                          \
                                                .description = (text),                                       \
                                                .example = "  pinfold deps " shown,                          \
                                                .options = (words),                                          \
                                                .option_count = PIN_COUNT(words),                            \
                                                .values_size = sizeof(struct deps_values),                   \
                                                .least_arguments = (least),                                  \
                                                .most_arguments = (most),                                    \
                                                .run = run_##verb}

VERB(ls, common_options, "", 0, 0, "list installed dependencies", NULL, "ls --json");
VERB(rm, common_options, "KEY…", 1, SIZE_MAX, "remove installed dependencies",
     "A key may be shortened to six characters or more. What a call uses is not removed.", "rm 5681f23ad7ba");
VERB(gc, gc_options, "", 0, 0, "remove dependencies that nobody uses",
     "Removes layers that no call has used for a while, and what killed installations have left. What a call "
     "uses "
     "is never removed.",
     "gc --older-than 168h");

static const struct pin_verb *const verbs[] = {&verb_ls, &verb_rm, &verb_gc};

int main(int argc, char **argv) {
    static const struct pin_program program = {
        .family = "deps",
        .about = "Dependencies of tools, installed once and shared.",
        .exits = "0 good; 125 refused or failed.",
        .verbs = verbs,
        .count = PIN_COUNT(verbs),
    };
    return pin_program_main(&program, argc, argv);
}
