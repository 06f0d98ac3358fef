#include <string.h>

#include "tools/pinfold/options.h"

static const char run_exits[] =
    "The command's own; 128+N when signal N ended it; 124 time limit; 137 memory limit;\n"
    "125 pinfold itself refused or failed; 126 not executable; 127 not found.";

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

void pin_help_man(const struct pin_verb *verb, const char *program, const char *exits, FILE *to) {
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
    (void)fputs(".SH EXIT STATUS\n", to);
    print_roff(exits != NULL ? exits : run_exits, to);
    (void)fputs("\n", to);
}

/* A table of options by verb, filled by every program, and one function that looks up the line's first words
 * in it. */
void pin_help_completion_head(const char *program, FILE *to) {
    (void)fprintf(to, "# bash completion for %s, printed by '%s completion'\ndeclare -A _%s_options=(\n",
                  program, program, program);
}

void pin_help_completion_verb(const struct pin_verb *verb, FILE *to) {
    (void)fprintf(to, "    ['%s']='--help", verb->name);
    for (size_t i = 0; i < verb->option_count; i++)
        (void)fprintf(to, " --%s", verb->options[i].name);
    (void)fputs("'\n", to);
}

void pin_help_completion_tail(const char *program, FILE *to) {
    (void)fprintf(
        to,
        ")\n_%s() {\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} line=\"${COMP_WORDS[*]:1:COMP_CWORD-1}\" key next='' "
        "options=''\n"
        "    for key in \"${!_%s_options[@]}\"; do\n"
        "        if [[ -z $line ]]; then next+=\" ${key%%%% *}\"\n"
        "        elif [[ $key == \"$line \"* ]]; then key=${key#\"$line \"}; next+=\" ${key%%%% *}\"\n"
        "        elif [[ \"$line \" == \"$key \"* ]]; then options=${_%s_options[$key]}; fi\n"
        "    done\n"
        "    if [[ -n $next ]]; then COMPREPLY=($(compgen -W \"$next\" -- \"$word\"))\n"
        "    elif [[ $word == -* ]]; then COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
        "    else COMPREPLY=($(compgen -f -- \"$word\")); fi\n}\ncomplete -F _%s %s\n",
        program, program, program, program, program);
}
