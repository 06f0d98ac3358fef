#include <string.h>

#include "tools/pinfold/options.h"

static const char run_exits[] =
    "The command's own; 128+N when signal N ended it; 124 time limit; 137 memory or output limit;\n"
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
    (void)fprintf(to, "usage: %s%s%s%s%s%s\n\n%s\n", program, verb->name[0] != '\0' ? " " : "", verb->name,
                  verb->option_count > 0 ? " [options]" : "", verb->synopsis[0] != '\0' ? " " : "",
                  verb->synopsis, verb->summary);
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

/* Up to the name in the synopsis. */
static void print_man_head(const char *program, const char *verb, const char *summary, FILE *to) {
    char title[96];
    (void)snprintf(title, sizeof(title), "%s%s%s", program, verb[0] != '\0' ? "-" : "", verb);
    for (char *space = strchr(title, ' '); space != NULL; space = strchr(space, ' '))
        *space = '-';
    (void)fprintf(to, ".TH %s 1\n.SH NAME\n", title);
    print_roff(title, to);
    (void)fputs(" \\- ", to);
    print_roff(summary, to);
    (void)fputs("\n.SH SYNOPSIS\n.B ", to);
    print_roff(program, to);
}

static void print_man_exits(const char *exits, FILE *to) {
    (void)fputs(".SH EXIT STATUS\n", to);
    print_roff(exits != NULL ? exits : run_exits, to);
    (void)fputs("\n", to);
}

void pin_help_man_of_verbs(const char *name, const char *about, const struct pin_help_row *rows, size_t count,
                           const char *exits, FILE *to) {
    print_man_head(name, "", about, to);
    (void)fputs("\n.I VERB\n[options] …\n.SH VERBS\n", to);
    for (size_t i = 0; i < count; i++) {
        (void)fputs(".TP\n.B ", to);
        print_roff(rows[i].verb, to);
        (void)fputs("\n", to);
        print_roff(rows[i].summary, to);
        (void)fputs("\n", to);
    }
    (void)fputs(".PP\nEach has a page of its own, and ", to);
    print_roff("--help, with its options and an example.\n", to);
    print_man_exits(exits, to);
}

void pin_help_man(const struct pin_verb *verb, const char *program, const char *exits, FILE *to) {
    print_man_head(program, verb->name, verb->summary, to);
    (void)fprintf(to, " %s\n", verb->name);
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
        (void)fputs(".TP\n.B ", to);
        if (option->letter != 0)
            (void)fprintf(to, "\\-%c, ", option->letter);
        (void)fputs("\\-\\-", to);
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
    print_man_exits(exits, to);
}

#define WORD_SIZE 32

/* A variable's name has no dash in it. */
static const char *identifier(const char *program, char word[WORD_SIZE]) {
    (void)snprintf(word, WORD_SIZE, "%s", program);
    for (char *dash = strchr(word, '-'); dash != NULL; dash = strchr(dash, '-'))
        *dash = '_';
    return word;
}

/* A table of options by verb, filled by every program, and one function that looks up the line's first words
 * in it. */
void pin_help_completion_head(const char *program, FILE *to) {
    char word[WORD_SIZE];
    (void)fprintf(to, "# bash completion for %s, printed by '%s completion'\ndeclare -A _%s_options=(\n",
                  program, program, identifier(program, word));
}

void pin_help_completion_verb(const struct pin_verb *verb, FILE *to) {
    (void)fprintf(to, "    ['%s']='--help", verb->name);
    for (size_t i = 0; i < verb->option_count; i++)
        (void)fprintf(to, " --%s", verb->options[i].name);
    (void)fputs("'\n", to);
}

void pin_help_completion_tail(const char *program, FILE *to) {
    char word[WORD_SIZE];
    const char *name = identifier(program, word);
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
        name, name, name, name, program);
}
