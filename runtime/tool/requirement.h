/* requirement.h: what a tool needs of pip and npm, one line each, in a strict grammar.
 *
 * Pure. A requirement names a package, and never an option of the installer, a URL, a path or a file: what
 * the grammar doesn't know is refused, so that the canonical text can be handed to an installer as it is. Two
 * spellings of one requirement have one canonical text.
 *   pip   NAME[EXTRA,…] OP VERSION, … ; MARKER --hash=ALGORITHM:HEX …     (PEP 508 without direct references)
 *   npm   [@SCOPE/]NAME[@RANGE] [--integrity=ALGORITHM-BASE64]            (a registry's version, range or
 * tag) Source: docs/dependencies.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"

#define PIN_REQUIREMENT_MAX 1024 /* bytes of one */
#define PIN_REQUIREMENTS_MAX 256 /* in one list */

enum pin_installer { PIN_INSTALLER_PIP, PIN_INSTALLER_NPM, PIN_INSTALLER_COUNT };
const char *pin_installer_name(enum pin_installer installer); /* "pip", "npm" */

struct pin_requirement { /* in the arena */
    const char *name;    /* of the package: pip's in its normal form */
    const char *text;    /* canonical */
};

struct pin_requirements { /* zeroed: none */
    struct pin_requirement *items;
    size_t count;
};

bool pin_requirement_parse(enum pin_installer installer, const char *text, struct pin_arena *arena,
                           struct pin_requirement *requirement, struct pin_error *err);

/* Both lists as one, sorted, each text once. A package that `over` names is as `over` says. The result is in
 * `arena`, its strings are the lists'. */
void pin_requirements_merge(const struct pin_requirements *under, const struct pin_requirements *over,
                            struct pin_arena *arena, struct pin_requirements *merged);
