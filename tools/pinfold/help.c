#include <string.h>

#include "tools/pinfold/options.h"

/* "--memory N", "--tty", "--io epoll|uring" */
static void print_form(const struct pin_option *option, FILE *to) {
    if (option->letter != 0)
        (void)fprintf(to, "-%c, ", option->letter);
    (void)fprintf(to, "--%s", option->name);
    if (option->type == PIN_OPTION_FLAG)
        return;
    (void)fputc(' ', to);
    if (option->value != NULL) {
        (void)fputs(option->value, to);
        return;
    }
    for (int i = 0; option->choices[i] != NULL; i++)
        (void)fprintf(to, "%s%s", i > 0 ? "|" : "", option->choices[i]);
}

void pin_help_print(const struct pin_verb *verb, const char *program, FILE *to) {
    (void)fprintf(to, "usage: %s %s%s %s\n\n%s\n", program, verb->name,
                  verb->option_count > 0 ? " [options]" : "", verb->synopsis, verb->summary);
    if (verb->description != NULL)
        (void)fprintf(to, "\n%s\n", verb->description);
    if (verb->option_count > 0)
        (void)fputs("\noptions:\n", to);
    for (size_t i = 0; i < verb->option_count; i++) {
        const struct pin_option *option = &verb->options[i];
        (void)fputs("  ", to);
        print_form(option, to);
        (void)fprintf(to, "\n      %s%s\n", option->help,
                      option->type == PIN_OPTION_TEXTS ? " (repeatable)" : "");
    }
    if (verb->example != NULL)
        (void)fprintf(to, "\nexample:\n%s\n", verb->example);
}

/* In man(7) a dash is a minus only when escaped, and a line must not begin with a dot. */
static void print_roff(const char *text, FILE *to) {
    bool line_start = true;
    for (; *text != '\0'; text++) {
        if (*text == '-' || *text == '\\')
            (void)fputc('\\', to);
        else if (line_start && (*text == '.' || *text == '\''))
            (void)fputs("\\&", to);
        (void)fputc(*text, to);
        line_start = *text == '\n';
    }
}

void pin_help_man(const struct pin_verb *verb, const char *program, FILE *to) {
    char title[64] = "";
    for (size_t i = 0; verb->name[i] != '\0' && i < sizeof(title) - 1; i++)
        title[i] = verb->name[i] == ' ' ? '-' : verb->name[i];
    (void)fprintf(to, ".TH %s-%s 1\n.SH NAME\n%s\\-%s \\- ", program, title, program, title);
    print_roff(verb->summary, to);
    (void)fprintf(to, "\n.SH SYNOPSIS\n.B %s %s\n", program, verb->name);
    (void)fprintf(to, "%s", verb->option_count > 0 ? "[options] " : "");
    print_roff(verb->synopsis, to);
    (void)fputs("\n", to);
    if (verb->example != NULL) {
        (void)fputs(".SH EXAMPLE\n.nf\n", to);
        print_roff(verb->example, to);
        (void)fputs("\n.fi\n", to);
    }
    if (verb->description != NULL) {
        (void)fputs(".SH DESCRIPTION\n", to);
        print_roff(verb->description, to);
        (void)fputs("\n", to);
    }
    if (verb->option_count > 0)
        (void)fputs(".SH OPTIONS\n", to);
    for (size_t i = 0; i < verb->option_count; i++) {
        const struct pin_option *option = &verb->options[i];
        (void)fprintf(to, ".TP\n.B \\-\\-");
        print_roff(option->name, to);
        if (option->type != PIN_OPTION_FLAG && option->value != NULL) {
            (void)fputs(" ", to);
            print_roff(option->value, to);
        }
        for (int c = 0; option->choices != NULL && option->value == NULL && option->choices[c] != NULL; c++)
            (void)fprintf(to, "%s%s", c > 0 ? "|" : " ", option->choices[c]);
        (void)fputs("\n", to);
        print_roff(option->help, to);
        (void)fprintf(to, "%s.\n", option->type == PIN_OPTION_TEXTS ? " (repeatable)" : "");
    }
    (void)fputs(".SH EXIT STATUS\nThe command's own; 128+N when signal N ended it; 124 time limit; 137 "
                "memory limit;\n"
                "125 pinfold itself refused or failed; 126 not executable; 127 not found.\n",
                to);
}

void pin_help_completion(const struct pin_verb *const *verbs, size_t count, const char *program, FILE *to) {
    (void)fprintf(to, "# bash completion for %s, printed by '%s completion'\n_%s() {\n    local verbs='",
                  program, program, program);
    for (size_t i = 0; i < count; i++)
        (void)fprintf(to, "%s%s", i > 0 ? " " : "", verbs[i]->name);
    (void)fputs("'\n    local word=${COMP_WORDS[COMP_CWORD]} options=''\n    case ${COMP_WORDS[1]} in\n", to);
    for (size_t i = 0; i < count; i++) {
        if (strchr(verbs[i]->name, ' ') != NULL)
            continue;
        (void)fprintf(to, "        %s) options='--help", verbs[i]->name);
        for (size_t o = 0; o < verbs[i]->option_count; o++)
            (void)fprintf(to, " --%s", verbs[i]->options[o].name);
        (void)fputs("' ;;\n", to);
    }
    (void)fprintf(
        to,
        "    esac\n    if ((COMP_CWORD == 1)); then COMPREPLY=($(compgen -W \"$verbs\" -- \"$word\"))\n"
        "    elif [[ $word == -* ]]; then COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
        "    else COMPREPLY=($(compgen -f -- \"$word\")); fi\n}\ncomplete -F _%s %s\n",
        program, program);
}
