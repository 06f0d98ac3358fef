/* options.h: one table a verb, from which the command line is parsed and --help, man page and completion
 * printed.
 *
 * A verb's values lie in a struct of its own; an option names its member by offset. Types of the members:
 *   FLAG bool · TEXT const char * (NULL: not given) · TEXTS struct pin_texts · SIZE, TIME, CPUS, COUNT struct
 *   pin_number (bytes, nanoseconds, thousandths of a processor, a whole number) · CHOICE int, index into
 * `choices`
 *   (-1: not given; the verb sets that before parsing with pin_options_init()).
 * "--name value" and "--name=value" are the same; "--" ends the options. Names are compared whole.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum pin_option_type {
    PIN_OPTION_FLAG,
    PIN_OPTION_TEXT,
    PIN_OPTION_TEXTS,
    PIN_OPTION_SIZE,
    PIN_OPTION_TIME,
    PIN_OPTION_CPUS,
    PIN_OPTION_COUNT,
    PIN_OPTION_CHOICE,
};

struct pin_texts {
    const char **items; /* point into argv; the array lives as long as the invocation */
    size_t count;
};

struct pin_number {
    bool given;
    uint64_t value;
};

struct pin_option {
    const char *name; /* "memory", without the dashes */
    char letter;      /* 'h' for -h; 0: none */
    enum pin_option_type type;
    size_t offset;              /* of the member in the verb's values */
    const char *value;          /* "N", "DIR[:ro|:cow]"; of a CHOICE: made from choices when NULL */
    const char *help;           /* one sentence, lower case */
    const char *const *choices; /* of CHOICE, ended by NULL */
};

struct pin_verb;

struct pin_invocation {
    const struct pin_verb *verb;
    void *values;
    char **words;     /* argv: all that follows the verb, where there is no argument; ends with NULL */
    char **arguments; /* what is no option; ends with NULL; points into argv */
    size_t argument_count;
};

struct pin_verb {
    const char *name;        /* "run", "policy lint" */
    const char *synopsis;    /* what follows the options: "-- CMD ARG…", "NAME" */
    const char *summary;     /* one line */
    const char *description; /* paragraphs for the man page and --help, may be NULL */
    const char *example;     /* lines of a shell */
    const struct pin_option *options;
    size_t option_count;
    size_t values_size;
    size_t least_arguments, most_arguments;              /* SIZE_MAX: any number */
    int (*run)(const struct pin_invocation *invocation); /* the exit code */
    /* Options stand before, between and behind the arguments; where a command's words are among these, they
     * end with this many arguments: 1 for "-- CMD", 2 for "NAME -- CMD". 0: nowhere but at a "--". */
    size_t options_end;
};

/* Parses, prints help where it is asked for, reports errors, runs the verb. The whole life of a verb: its
 * exit code. */
int pin_verb_main(const struct pin_verb *verb, int argc, char **argv);

void pin_help_print(const struct pin_verb *verb, const char *program, FILE *to);
/* A page in man(7) format; `exits`: its exit codes, NULL: those of a run. */
void pin_help_man(const struct pin_verb *verb, const char *program, const char *exits, FILE *to);

/* The page of what has verbs: "pinfold", or "pinfold policy". */
struct pin_help_row {
    const char *verb, *summary;
};
void pin_help_man_of_verbs(const char *name, const char *about, const struct pin_help_row *rows, size_t count,
                           const char *exits, FILE *to);
/* A completion script for bash: head, a line for each verb, tail. */
void pin_help_completion_head(const char *program, FILE *to);
void pin_help_completion_verb(const struct pin_verb *verb, FILE *to);
void pin_help_completion_tail(const char *program, FILE *to);
