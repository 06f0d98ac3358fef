#include "policy/host_grant.h"

#include <string.h>

#include <libpsl.h>

#include "base/text.h"

/* "com", "co.uk", "github.io". A last label that the list doesn't know counts as one: it may have been
 * delegated since the list was made. */
static bool is_public_suffix(const char *name) {
    return psl_is_public_suffix(psl_builtin(), name) != 0;
}

bool pin_host_grant(const char *text, char to[PIN_HOST_MAX + 2], struct pin_error *err) {
    char canonical[PIN_HOST_MAX + 2], shown[96];
    if (!pin_host_pattern(text, canonical, err))
        return false;
    if (strncmp(canonical, "*.", 2) == 0 && is_public_suffix(canonical + 2)) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "'%s' is a wildcard over a public suffix: it names everybody",
                       pin_escape(shown, sizeof(shown), text, strlen(text)));
        return pin_hint(err, "name the hosts, or the wildcard under a name that one owner holds");
    }
    memcpy(to, canonical, sizeof(canonical));
    return true;
}
