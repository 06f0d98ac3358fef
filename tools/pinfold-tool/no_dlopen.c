/* SQLite could load extensions, and nobody asks it to: without this the static program would carry a loader.
 */
#include <stddef.h>

void *__wrap_dlopen(const char *name, int flags);

void *__wrap_dlopen(const char *name, int flags) {
    (void)name;
    (void)flags;
    return NULL;
}
