#include "tools/pinfold/program.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/names.h"
#include "tools/pinfold/report.h"

#define NAMES_MAX 128

struct words {
    int count;
    char **items;
};

struct call {
    const struct pin_program *program;
    const char *family; /* of the verbs that are meant; NULL: the program has none */
};

static size_t first_word(const char *name) {
    return strcspn(name, " ");
}

static bool is_first_word(const char *word, const char *name) {
    return strlen(word) == first_word(name) && memcmp(word, name, first_word(name)) == 0;
}

/* "lint" of "policy lint"; NULL where it is of another family. */
static const char *name_in(const struct call *call, const struct pin_verb *verb) {
    if (call->family == NULL)
        return verb->name;
    return is_first_word(call->family, verb->name) ? verb->name + first_word(verb->name) + 1 : NULL;
}

/* How many words the name has, where they are the first of `words`; else 0. */
static int match(const char *name, struct words words) {
    for (int i = 0; i < words.count; i++) {
        size_t size = first_word(name);
        if (!is_first_word(words.items[i], name))
            return 0;
        if (name[size] == '\0')
            return i + 1;
        name += size + 1;
    }
    return 0;
}

static const struct pin_verb *find(const struct call *call, struct words words, int *used) {
    for (size_t i = 0; i < call->program->count; i++) {
        const char *name = name_in(call, call->program->verbs[i]);
        *used = name != NULL ? match(name, words) : 0;
        if (*used > 0)
            return call->program->verbs[i];
    }
    return NULL;
}

static bool has_first_word(const struct pin_program *program, const char *word) {
    for (size_t i = 0; i < program->count; i++)
        if (is_first_word(word, program->verbs[i]->name))
            return true;
    return false;
}

static bool has_name(const struct pin_program *program, const char *name) {
    for (size_t i = 0; i < program->count; i++)
        if (strcmp(program->verbs[i]->name, name) == 0)
            return true;
    return false;
}

static const struct pin_program_link *find_link(const struct pin_program *program, const char *word) {
    for (size_t i = 0; i < program->link_count; i++)
        if (strcmp(program->links[i].verb, word) == 0)
            return &program->links[i];
    return NULL;
}

static int refused(const struct call *call) {
    return call->program->refused != 0 ? call->program->refused : PIN_REPORT_EXIT;
}

/* " policy", or nothing */
static const char *family_of(const struct call *call, char text[64]) {
    (void)snprintf(text, 64, "%s%s", call->family != NULL ? " " : "",
                   call->family != NULL ? call->family : "");
    return text;
}

/* The verbs of the family that is meant, and with none of a family's the links. */
static size_t list_verbs(const struct call *call, struct pin_help_row rows[NAMES_MAX]) {
    const struct pin_program *program = call->program;
    size_t count = 0;
    for (size_t i = 0; i < program->count && count < NAMES_MAX; i++) {
        const char *name = name_in(call, program->verbs[i]);
        if (name != NULL)
            rows[count++] = (struct pin_help_row){name, program->verbs[i]->summary};
    }
    for (size_t i = 0; i < program->link_count && count < NAMES_MAX && call->family == NULL; i++)
        rows[count++] = (struct pin_help_row){program->links[i].verb, program->links[i].summary};
    return count;
}

static void print_verbs(const struct call *call, FILE *to) {
    struct pin_help_row rows[NAMES_MAX];
    size_t count = list_verbs(call, rows);
    int width = 0;
    for (size_t i = 0; i < count; i++)
        width = (int)strlen(rows[i].verb) > width ? (int)strlen(rows[i].verb) : width;
    for (size_t i = 0; i < count; i++)
        (void)fprintf(to, "  %-*s  %s\n", width, rows[i].verb, rows[i].summary);
}

static void print_usage(const struct call *call, FILE *to) {
    char family[64];
    (void)fprintf(to, "usage: pinfold%s VERB [options] …\n\n%s\n\nverbs:\n", family_of(call, family),
                  call->program->about);
    print_verbs(call, to);
    if (call->program->exits != NULL)
        (void)fprintf(to, "\nexit codes: %s\n", call->program->exits);
    (void)fprintf(to, "\n'pinfold%s VERB --help' has the options and an example.\n", family);
}

static int unknown(const struct call *call, const char *word) {
    struct pin_error err = {0};
    struct pin_help_row rows[NAMES_MAX];
    const char *names[NAMES_MAX];
    char family[64];
    size_t count = list_verbs(call, rows);
    for (size_t i = 0; i < count; i++)
        names[i] = rows[i].verb;
    const char *near = pin_name_suggest(names, count, word);
    (void)family_of(call, family);
    (void)pin_fail(&err, PIN_ERROR_USAGE, "'pinfold%s' has no verb '%.60s'", family, word);
    if (near != NULL)
        (void)pin_hint(&err, "did you mean '%s'?", near);
    else
        (void)pin_hint(&err, "see 'pinfold%s --help'", family);
    (void)pin_report(&err, false);
    return refused(call);
}

/* The page of all verbs, or of a family's. */
static void print_page_of_verbs(const struct call *call, FILE *to) {
    struct pin_help_row rows[NAMES_MAX];
    char family[64], name[80];
    size_t count = list_verbs(call, rows);
    (void)snprintf(name, sizeof(name), "pinfold%s", family_of(call, family));
    pin_help_man_of_verbs(name, call->program->about, rows, count, call->program->exits, to);
}

/* "pinfold.1", "pinfold-policy.1" */
static FILE *open_page(int folder, const char *verb) {
    char name[96];
    int size =
        snprintf(name, sizeof(name), "pinfold%s%s.1", verb != NULL ? "-" : "", verb != NULL ? verb : "");
    for (char *space = strchr(name, ' '); space != NULL; space = strchr(space, ' '))
        *space = '-';
    int fd =
        size < (int)sizeof(name) ? openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
    return fd < 0 ? NULL : fdopen(fd, "w");
}

static bool write_page(const struct pin_program *program, const struct pin_verb *verb, int folder) {
    FILE *to = open_page(folder, verb->name);
    if (to == NULL)
        return false;
    pin_help_man(verb, "pinfold", program->exits, to);
    return fclose(to) == 0;
}

static bool write_page_of_verbs(const struct pin_program *program, const char *family, int folder) {
    const struct call call = {program, family};
    FILE *to = open_page(folder, family);
    if (to == NULL)
        return false;
    print_page_of_verbs(&call, to);
    return fclose(to) == 0;
}

/* Where this verb has a first word that none before it has: "policy" of "policy lint". */
static bool write_page_of_family(const struct pin_program *program, size_t index, int folder) {
    const char *name = program->verbs[index]->name;
    char family[64];
    (void)snprintf(family, sizeof(family), "%.*s", (int)first_word(name), name);
    for (size_t i = 0; i < index; i++)
        if (is_first_word(family, program->verbs[i]->name))
            return true;
    return name[first_word(name)] == '\0' || write_page_of_verbs(program, family, folder);
}

static int write_pages(const struct pin_program *program, const char *directory) {
    struct pin_error err = {0};
    int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = folder >= 0;
    for (size_t i = 0; ok && i < program->count; i++)
        ok = write_page(program, program->verbs[i], folder) && write_page_of_family(program, i, folder);
    if (ok && program->links != NULL)
        ok = write_page_of_verbs(program, NULL, folder);
    if (!ok)
        (void)pin_fail_errno(&err, "write pages in '%s'", directory);
    if (folder >= 0)
        (void)close(folder);
    return ok ? 0 : pin_report(&err, false);
}

/* Their programs print the lines of their own verbs. */
static void print_linked_completions(const struct pin_program *program) {
    for (size_t i = 0; i < program->link_count; i++) {
        const char *name = program->links[i].program;
        bool again = false;
        for (size_t j = 0; j < i; j++)
            again = again || strcmp(program->links[j].program, name) == 0;
        char *argv[] = {(char *)(uintptr_t)name, (char *)(uintptr_t) "completion", NULL};
        (void)fflush(stdout);
        pid_t child = again ? -1 : fork();
        if (child == 0)
            _exit(program->run(name, argv));
        if (child > 0)
            (void)waitpid(child, NULL, 0);
    }
}

static int print_completion(const struct pin_program *program) {
    if (program->links != NULL)
        pin_help_completion_head("pinfold", stdout);
    for (size_t i = 0; i < program->count; i++)
        pin_help_completion_verb(program->verbs[i], stdout);
    if (program->links == NULL)
        return 0;
    print_linked_completions(program);
    pin_help_completion_tail("pinfold", stdout);
    return 0;
}

static int print_man(const struct call *call, struct words words) {
    const struct call anyone = {call->program, NULL};
    int used;
    const struct pin_verb *verb = find(&anyone, words, &used);
    if (verb == NULL)
        verb = find(call, words, &used);
    if (verb != NULL) {
        pin_help_man(verb, "pinfold", call->program->exits, stdout);
        return 0;
    }
    const struct pin_program_link *link = find_link(call->program, words.items[0]);
    if (link != NULL)
        return call->program->run(link->program, words.items - 2);
    bool is_family = words.count == 1 && has_first_word(call->program, words.items[0]),
         is_whole = words.count == 1 && strcmp(words.items[0], "pinfold") == 0;
    if (!is_family && !is_whole)
        return unknown(call, words.items[0]);
    const struct call meant = {call->program, is_family ? words.items[0] : NULL};
    print_page_of_verbs(&meant, stdout);
    return 0;
}

/* What every program knows besides its verbs; -1: none of it. */
static int serve_help(const struct call *call, struct words words) {
    const char *word = words.items[0];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        print_usage(call, stdout);
        return 0;
    }
    if (strcmp(word, "completion") == 0)
        return print_completion(call->program);
    if (strcmp(word, "pages") == 0 && words.count == 2)
        return write_pages(call->program, words.items[1]);
    if (strcmp(word, "man") == 0 && words.count > 1)
        return print_man(call, (struct words){words.count - 1, words.items + 1});
    return -1;
}

int pin_program_main(const struct pin_program *program, int argc, char **argv) {
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of writing */
    /* "up NAME": the verb itself; "policy lint …": the first word of several */
    bool is_verb = argc > 0 && has_name(program, argv[0]),
         is_family = argc > 0 && has_first_word(program, argv[0]);
    const struct call call = {program, is_verb ? NULL : is_family ? argv[0] : program->family};
    struct words words = is_verb ? (struct words){argc, argv} : (struct words){argc - 1, argv + 1};
    if (words.count < 1) {
        print_usage(&call, stderr);
        return refused(&call);
    }
    int used;
    const struct pin_verb *verb = find(&call, words, &used);
    if (verb != NULL) {
        int code = pin_report_flush(pin_verb_main(verb, words.count - used, words.items + used));
        return code == PIN_REPORT_EXIT ? refused(&call) : code;
    }
    int code = serve_help(&call, words);
    if (code >= 0)
        return pin_report_flush(code);
    const struct pin_program_link *link = find_link(program, words.items[0]);
    if (link != NULL)
        return program->run(link->program, words.items);
    if (call.family == NULL && has_first_word(program, words.items[0])) /* "bundle", which has verbs */
        return pin_program_main(program, words.count, words.items);
    return unknown(&call, words.items[0]);
}
