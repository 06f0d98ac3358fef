/* deps_key.h: which installation of requirements may serve which calls.
 *
 * Pure. Two calls share a layer when their image, interpreter, index and list of requirements are the same;
 * the order of the list and the spelling of names don't count. Source: docs/dependencies.md.
 */
#pragma once

#include "runtime/tool/requirement.h"

#define PIN_DEPS_KEY_TEXT 65 /* hexadecimal, and the end */

struct pin_deps_wanted { /* borrowed */
    enum pin_installer installer;
    const char *image;       /* "host", or the image's digest */
    const char *interpreter; /* what tells one from the next in that image */
    const char *index;       /* URL of the configuration; NULL: the client's own */
    const struct pin_requirements *requirements;
};

/* False when memory is out, or a text is no UTF-8. */
bool pin_deps_key(const struct pin_deps_wanted *wanted, char key[PIN_DEPS_KEY_TEXT]);
/* The facts that are kept beside a layer, which the caller frees; NULL as above. */
char *pin_deps_facts(const struct pin_deps_wanted *wanted, const char *lock, long long bytes,
                     long long entries, long long made_s);
