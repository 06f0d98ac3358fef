/* code_context.h: which command of a kept sandbox is a code context, and starting and ending it;
 * docs/code.md.
 *
 * code-NAME.json in the sandbox's directory says which; code-NAME.lock is held while a cell runs, so that
 * cells of one context come one after the other. Contexts are commands like others: what the record says is
 * only ever a number that the sandbox is asked about.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "tools/pinfold-kept/session.h"

enum pin_code_language { PIN_CODE_PYTHON, PIN_CODE_JAVASCRIPT, PIN_CODE_LANGUAGE_COUNT };
extern const char *const pin_code_languages[]; /* ends with NULL */

#define PIN_CODE_ID 33 /* 16 random bytes in hex, and the end */

struct pin_code_context {
    const char *name;
    enum pin_code_language language;
    int folder, lock;              /* -1: none */
    json_int_t exec;               /* the command; 0: none */
    uint64_t idle_ms, lifetime_ms; /* of one that isn't there yet; 0: no lifetime of its own */
    bool is_new, had_one;          /* it was started for this cell; another one has ended by itself */
};

/* Waits until no other cell runs in it. `language` -1: whichever it has, or that of its name, or Python.
 * Close it in any case. */
bool pin_code_context_open(struct pin_code_context *context, const char *sandbox, const char *name,
                           int language, struct pin_error *err);
void pin_code_context_close(struct pin_code_context *context);
/* It runs, or is started. */
bool pin_code_context_ready(struct pin_code_context *context, struct pin_session *session,
                            struct pin_error *err);
/* With all its processes. */
bool pin_code_context_end(struct pin_code_context *context, struct pin_client *client, struct pin_error *err);

/* Whether it has ended, or ends just now, because its memory ran out. */
bool pin_code_context_was_out_of_memory(const struct pin_code_context *context, struct pin_client *client);

/* The "exec" of a cell, which is its standard input. */
json_t *pin_code_request_cell(const struct pin_code_context *context);
bool pin_code_draw(char id[PIN_CODE_ID], struct pin_error *err);
