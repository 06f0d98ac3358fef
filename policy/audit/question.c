#include <string.h>

#include "base/names.h"
#include "base/units.h"
#include "policy/audit/arg_names.h"
#include "policy/audit/why.h"
#include "policy/checks.h"
#include "policy/egress_rule.h"
#include "policy/fields.h"

static const char *const kind_names[] = {
    [PIN_ASK_CONNECT] = "connect", [PIN_ASK_WRITE] = "write",   [PIN_ASK_READ] = "read",
    [PIN_ASK_SYSCALL] = "syscall", [PIN_ASK_SECRET] = "secret", [PIN_ASK_LIMIT] = "limit",
    [PIN_ASK_PUBLISH] = "publish",
};
_Static_assert(PIN_COUNT(kind_names) == PIN_ASK_COUNT, "every kind has a name");

const char *pin_question_kind_name(enum pin_question_kind kind) {
    return kind_names[kind];
}

static const struct {
    const char *name;
    enum pin_field field;
} limits[] = {
    {"memory",    PIN_FIELD_MEMORY        },
    {"swap",      PIN_FIELD_SWAP          },
    {"cpus",      PIN_FIELD_CPUS          },
    {"pids",      PIN_FIELD_PIDS          },
    {"files",     PIN_FIELD_FILES         },
    {"core",      PIN_FIELD_CORE          },
    {"wall_time", PIN_FIELD_WALL_TIME     },
    {"cpu_time",  PIN_FIELD_CPU_TIME      },
    {"grace",     PIN_FIELD_GRACE         },
    {"stdout",    PIN_FIELD_STDOUT        },
    {"stderr",    PIN_FIELD_STDERR        },
    {"frame",     PIN_FIELD_FRAME         },
    {"tmp",       PIN_FIELD_FILESYSTEM_TMP},
    {"workspace", PIN_FIELD_WORKSPACE_SIZE},
    {"ids",       PIN_FIELD_IDS           },
};

struct parse {
    struct pin_question *question;
    struct pin_arena *arena;
    const char *const *words; /* after the kind */
    size_t count;
    struct pin_error *err;
};

static bool few_words(struct parse *parse, const char *form) {
    (void)pin_fail(parse->err, PIN_ERROR_USAGE, "'%s' is no whole question",
                   kind_names[parse->question->kind]);
    return pin_hint(parse->err, "write %s", form);
}

static bool parse_connect(struct parse *parse) {
    static const char form[] = "connect HOST:PORT[/udp] [ADDRESS]";
    struct pin_question *question = parse->question;
    struct pin_egress_rule *target = pin_arena_alloc(parse->arena, sizeof(*target));
    if (parse->count < 1 || parse->count > 2)
        return few_words(parse, form);
    if (!pin_egress_parse(parse->words[0], parse->arena, target, parse->err))
        return pin_wrap(parse->err, "read '%.80s'", parse->words[0]);
    if ((target->host != NULL ? target->host[0] == '*' : target->prefix != 128) || target->port_count != 1 ||
        target->ports[0].first != target->ports[0].last)
        return few_words(parse, "connect with one host or address and one port");
    question->target = target;
    question->name = target->host;
    if (parse->count == 2) {
        question->has_address = true;
        if (target->host == NULL || !pin_address_parse(question->address, parse->words[1]))
            return few_words(parse, form);
    }
    return true;
}

static bool parse_path(struct parse *parse) {
    if (parse->count != 1)
        return few_words(parse, "write PATH or read PATH");
    parse->question->name = parse->words[0];
    if (pin_is_plain_path(parse->words[0]))
        return true;
    (void)pin_fail(parse->err, PIN_ERROR_USAGE, "'%.120s' is no plain absolute path", parse->words[0]);
    return pin_hint(parse->err, "start with '/', and leave out '.', '..', '//' and the '/' at the end");
}

static bool parse_syscall(struct parse *parse) {
    struct pin_question *question = parse->question;
    if (parse->count < 1 || parse->count > 1 + PIN_FILTER_ARGS_MAX)
        return few_words(parse, "syscall NAME [ARG…], six arguments at most");
    question->name = parse->words[0];
    if (pin_syscall_find(question->name) == NULL) {
        const char *near = pin_syscall_suggest(question->name);
        (void)pin_fail(parse->err, PIN_ERROR_USAGE, "there is no system call '%.64s'", question->name);
        return near != NULL ? pin_hint(parse->err, "did you mean '%s'?", near) : false;
    }
    for (size_t i = 1; i < parse->count; i++)
        if (!pin_arg_parse(question->name, (unsigned)i - 1, parse->words[i], &question->args[i - 1])) {
            (void)pin_fail(parse->err, PIN_ERROR_USAGE, "'%.64s' is no number, and no name for argument %zu",
                           parse->words[i], i - 1);
            return pin_hint(parse->err, "write 16, 0x10, or a name such as AF_INET or CLONE_NEWUSER");
        }
    question->arg_count = parse->count - 1;
    return true;
}

static bool parse_secret(struct parse *parse) {
    if (parse->count != 1)
        return few_words(parse, "secret NAME");
    parse->question->name = parse->words[0];
    const char *fault = pin_check_secret(parse->words[0], false);
    return fault == NULL ||
           pin_fail(parse->err, PIN_ERROR_USAGE, "'%.64s' is no secret's name: %s", parse->words[0], fault);
}

static bool parse_publish(struct parse *parse) {
    if (parse->count != 1)
        return few_words(parse, "publish PORT=PLACE");
    parse->question->name = parse->words[0];
    const char *fault = pin_check_publish(parse->words[0], false);
    return fault == NULL || pin_fail(parse->err, PIN_ERROR_USAGE, "'%.64s': %s", parse->words[0], fault);
}

static bool parse_cpus(const char *text, uint64_t *value) {
    uint32_t millicpus;
    if (!pin_parse_cpus(text, &millicpus))
        return false;
    *value = millicpus;
    return true;
}

static bool parse_value(struct parse *parse, const char *text) {
    struct pin_question *question = parse->question;
    bool good;
    question->has_value = true;
    if (strcmp(text, "unlimited") == 0) {
        question->value = PIN_UNLIMITED;
        return true;
    }
    switch ((int)pin_field_row(question->field)->type) {
    case PIN_TYPE_SIZE: good = pin_parse_size(text, &question->value); break;
    case PIN_TYPE_TIME: good = pin_parse_time(text, &question->value); break;
    case PIN_TYPE_CPUS: good = parse_cpus(text, &question->value); break;
    default: good = pin_parse_u64(text, &question->value); break;
    }
    return good || pin_fail(parse->err, PIN_ERROR_USAGE, "'%.64s' is no value of the limit '%s'", text,
                            question->name);
}

static bool parse_limit(struct parse *parse) {
    const char *names[PIN_COUNT(limits)];
    if (parse->count < 1 || parse->count > 2)
        return few_words(parse, "limit NAME [VALUE]");
    for (size_t i = 0; i < PIN_COUNT(limits); i++) {
        names[i] = limits[i].name;
        if (strcmp(limits[i].name, parse->words[0]) != 0)
            continue;
        parse->question->name = limits[i].name;
        parse->question->field = limits[i].field;
        return parse->count < 2 || parse_value(parse, parse->words[1]);
    }
    const char *near = pin_name_suggest(names, PIN_COUNT(names), parse->words[0]);
    (void)pin_fail(parse->err, PIN_ERROR_USAGE, "there is no limit '%.64s'", parse->words[0]);
    return near != NULL ? pin_hint(parse->err, "did you mean '%s'?", near) : false;
}

static bool (*const parsers[])(struct parse *) = {
    [PIN_ASK_CONNECT] = parse_connect, [PIN_ASK_WRITE] = parse_path,    [PIN_ASK_READ] = parse_path,
    [PIN_ASK_SYSCALL] = parse_syscall, [PIN_ASK_SECRET] = parse_secret, [PIN_ASK_LIMIT] = parse_limit,
    [PIN_ASK_PUBLISH] = parse_publish,
};

bool pin_question_parse(struct pin_question *question, struct pin_arena *arena, const char *const *words,
                        size_t count, struct pin_error *err) {
    int kind = count > 0 ? pin_name_find(kind_names, PIN_ASK_COUNT, words[0]) : -1;
    if (kind < 0) {
        const char *near = count > 0 ? pin_name_suggest(kind_names, PIN_ASK_COUNT, words[0]) : NULL;
        (void)pin_fail(err, PIN_ERROR_USAGE, "'%.64s' is no question", count > 0 ? words[0] : "");
        if (near != NULL)
            return pin_hint(err, "did you mean '%s'?", near);
        return pin_hint(err, "ask connect, write, read, syscall, secret, limit or publish");
    }
    const char *text = kind_names[kind];
    const char **copies = pin_arena_array(arena, count, sizeof(*copies));
    for (size_t i = 1; i < count; i++) {
        copies[i] = pin_arena_strdup(arena, words[i]);
        text = pin_arena_printf(arena, "%s %s", text, copies[i]);
    }
    *question = (struct pin_question){.kind = (enum pin_question_kind)kind, .text = text};
    struct parse parse = {question, arena, copies + 1, count - 1, err};
    return parsers[kind](&parse);
}

/* A path is the rest of the line, spaces and all. */
static bool takes_rest(const char *word) {
    return strcmp(word, "write") == 0 || strcmp(word, "read") == 0;
}

bool pin_question_parse_line(struct pin_question *question, struct pin_arena *arena, const char *line,
                             struct pin_error *err) {
    const char **words = NULL;
    size_t count = 0;
    char *copy = pin_arena_strdup(arena, line), *at = copy;
    while (*(at += strspn(at, " ")) != '\0') {
        const char **word = pin_arena_grow(arena, &words, &count, sizeof(*words));
        *word = at;
        if (count == 2 && takes_rest(words[0]))
            break;
        at += strcspn(at, " ");
        if (*at != '\0')
            *at++ = '\0';
    }
    return pin_question_parse(question, arena, words, count, err);
}
