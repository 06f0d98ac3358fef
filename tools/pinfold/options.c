#include "tools/pinfold/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "base/units.h"
#include "tools/pinfold/report.h"

static void *member(const struct pin_invocation *invocation, const struct pin_option *option) {
    return (char *)invocation->values + option->offset;
}

static const struct pin_option *find_option(const struct pin_verb *verb, const char *name, size_t length) {
    for (size_t i = 0; i < verb->option_count; i++)
        if (strlen(verb->options[i].name) == length && memcmp(verb->options[i].name, name, length) == 0)
            return &verb->options[i];
    return NULL;
}

static const struct pin_option *find_letter(const struct pin_verb *verb, char letter) {
    for (size_t i = 0; i < verb->option_count; i++)
        if (verb->options[i].letter == letter)
            return &verb->options[i];
    return NULL;
}

static bool unknown_option(const struct pin_verb *verb, const char *given, struct pin_error *err) {
    const char *names[64];
    size_t count = 0;
    for (size_t i = 0; i < verb->option_count && count < PIN_COUNT(names); i++)
        names[count++] = verb->options[i].name;
    const char *near = pin_name_suggest(names, count, given + strspn(given, "-"));
    (void)pin_fail(err, PIN_ERROR_USAGE, "'%s' has no option '%s'", verb->name, given);
    if (near != NULL)
        return pin_hint(err, "did you mean --%s?", near);
    return pin_hint(err, "see 'pinfold %s --help'", verb->name);
}

static bool bad_value(const struct pin_option *option, const char *value, const char *expected,
                      struct pin_error *err) {
    (void)pin_fail(err, PIN_ERROR_USAGE, "--%s can't be '%s'", option->name, value);
    return pin_hint(err, "it takes %s", expected);
}

static bool set_choice(const struct pin_option *option, int *slot, const char *value, struct pin_error *err) {
    for (int i = 0; option->choices[i] != NULL; i++)
        if (strcmp(option->choices[i], value) == 0) {
            *slot = i;
            return true;
        }
    char expected[128] = "";
    size_t used = 0;
    for (int i = 0; option->choices[i] != NULL && used < sizeof(expected); i++)
        used += (size_t)snprintf(expected + used, sizeof(expected) - used, "%s%s", i > 0 ? ", " : "",
                                 option->choices[i]);
    return bad_value(option, value, expected, err);
}

static void append(struct pin_texts *texts, const char *value) {
    const char **more = reallocarray(texts->items, texts->count + 1, sizeof(*more));
    if (more == NULL)
        abort();
    texts->items = more;
    texts->items[texts->count++] = value;
}

static bool set_cpus(const char *value, uint64_t *number) {
    uint32_t millicpus;
    if (!pin_parse_cpus(value, &millicpus))
        return false;
    *number = millicpus;
    return true;
}

struct number_form {
    bool (*parse)(const char *text, uint64_t *value);
    const char *expected;
};

static const struct number_form number_forms[] = {
    [PIN_OPTION_SIZE] = {pin_parse_size, "a size such as 512MiB"                  },
    [PIN_OPTION_TIME] = {pin_parse_time, "a time such as 30s, 500ms or 2m"        },
    [PIN_OPTION_CPUS] = {set_cpus,       "a number of processors such as 1 or 0.5"},
    [PIN_OPTION_COUNT] = {pin_parse_u64,  "a whole number"                         },
};

static bool set_value(const struct pin_option *option, void *slot, const char *value, struct pin_error *err) {
    switch (option->type) {
    case PIN_OPTION_FLAG: *(bool *)slot = true; return true;
    case PIN_OPTION_TEXT: *(const char **)slot = value; return true;
    case PIN_OPTION_TEXTS: append(slot, value); return true;
    case PIN_OPTION_CHOICE: return set_choice(option, slot, value, err);
    case PIN_OPTION_SIZE:
    case PIN_OPTION_TIME:
    case PIN_OPTION_CPUS:
    case PIN_OPTION_COUNT: {
        struct pin_number *number = slot;
        const struct number_form *form = &number_forms[option->type];
        if (!form->parse(value, &number->value))
            return bad_value(option, value, form->expected, err);
        number->given = true;
        return true;
    }
    }
    abort();
}

/* One option at argv[*at]; moves past it and its value. */
static bool take_option(const struct pin_verb *verb, int argc, char **argv, int *at, uint64_t *seen,
                        struct pin_invocation *invocation, struct pin_error *err) {
    const char *given = argv[*at];
    const char *equals = given[1] == '-' ? strchr(given, '=') : NULL;
    const struct pin_option *option;
    if (given[1] == '-')
        option =
            find_option(verb, given + 2, equals != NULL ? (size_t)(equals - given - 2) : strlen(given + 2));
    else
        option = given[2] == '\0' ? find_letter(verb, given[1]) : NULL;
    if (option == NULL)
        return unknown_option(verb, given, err);
    size_t index = (size_t)(option - verb->options);
    bool once = option->type != PIN_OPTION_FLAG && option->type != PIN_OPTION_TEXTS;
    if (once && (*seen & UINT64_C(1) << index) != 0) { /* nothing that was asked for is dropped in silence */
        (void)pin_fail(err, PIN_ERROR_USAGE, "--%s is given twice", option->name);
        return pin_hint(err, "leave one of them out");
    }
    *seen |= UINT64_C(1) << index;
    (*at)++;
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (option->type == PIN_OPTION_FLAG && value != NULL)
        return pin_fail(err, PIN_ERROR_USAGE, "--%s takes no value", option->name);
    if (option->type != PIN_OPTION_FLAG && value == NULL) {
        if (*at >= argc)
            return pin_fail(err, PIN_ERROR_USAGE, "--%s needs a value", option->name);
        value = argv[(*at)++];
    }
    return set_value(option, member(invocation, option), value, err);
}

static bool asks_for_help(const char *argument) {
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

/* Parses argv (without the verb's name), and moves the arguments to its begin. `values` must be zeroed,
 * verb->values_size large. `--help` and `-h` are known everywhere: *help is set then and nothing else is
 * checked. What it makes, free_lists() releases.
 */
static bool parse(const struct pin_verb *verb, int argc, char **argv, struct pin_invocation *invocation,
                  bool *help, struct pin_error *err) {
    int at = 0, count = 0;
    uint64_t seen = 0; /* set of options, by their place in the table */
    *help = false;
    for (size_t i = 0; i < verb->option_count; i++)
        if (verb->options[i].type == PIN_OPTION_CHOICE)
            *(int *)member(invocation, &verb->options[i]) = -1;
    while (at < argc && (verb->options_end == 0 || count < (int)verb->options_end)) {
        if (argv[at][0] != '-' || argv[at][1] == '\0') {
            argv[count++] = argv[at++];
            continue;
        }
        if (strcmp(argv[at], "--") == 0) {
            at++;
            break;
        }
        if (asks_for_help(argv[at])) {
            *help = true;
            return true;
        }
        if (!take_option(verb, argc, argv, &at, &seen, invocation, err))
            return false;
    }
    while (at < argc)
        argv[count++] = argv[at++];
    if (count > 0)
        argv[count] = NULL;
    invocation->arguments = count > 0 ? argv : argv + argc;
    invocation->argument_count = (size_t)count;
    if (invocation->argument_count < verb->least_arguments ||
        invocation->argument_count > verb->most_arguments) {
        bool few = invocation->argument_count < verb->least_arguments;
        (void)pin_fail(err, PIN_ERROR_USAGE, "'%s' got %s arguments", verb->name,
                       few ? "too few" : "too many");
        return pin_hint(err, "usage: pinfold %s [options] %s", verb->name, verb->synopsis);
    }
    return true;
}

static void free_lists(struct pin_invocation *invocation) {
    const struct pin_verb *verb = invocation->verb;
    for (size_t i = 0; i < verb->option_count; i++)
        if (verb->options[i].type == PIN_OPTION_TEXTS)
            free(((struct pin_texts *)member(invocation, &verb->options[i]))->items);
    free(invocation->values);
}

/* A wrong command line is reported as JSON where the same line asks for JSON. */
static bool wants_json(int argc, char **argv) {
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0)
            return true;
    return false;
}

int pin_verb_main(const struct pin_verb *verb, int argc, char **argv) {
    struct pin_error err = {0};
    struct pin_invocation invocation = {
        .verb = verb, .values = calloc(1, verb->values_size + 1), .words = argv};
    bool help, json = wants_json(argc, argv); /* parsing moves the words */
    int code;
    if (invocation.values == NULL)
        abort();
    if (!parse(verb, argc, argv, &invocation, &help, &err)) {
        code = pin_report(&err, json);
    } else if (help) {
        pin_help_print(verb, "pinfold", stdout);
        code = 0;
    } else {
        code = verb->run(&invocation);
    }
    free_lists(&invocation);
    return code;
}
