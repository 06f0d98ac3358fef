/* Opens sealed values for pinfold's own programs, which don't carry a cryptographic library. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "runtime/tool/config.h"
#include "tools/pinfold-config/seal.h"
#include "tools/pinfold-config/verbs.h"
#include "tools/pinfold/report.h"

#define LIST_MOST ((size_t)64 * 1024 * 1024)

static bool write_one(json_t *item, struct pin_error *err) {
    struct pin_seal_place place;
    const char *sealed;
    struct pin_locked value = {0};
    if (json_unpack(item, "{s:s, s:s, s:s, s:s}", "organisation", &place.organisation, "configuration",
                    &place.configuration, "name", &place.name, "sealed", &sealed) != 0)
        return pin_fail(err, PIN_ERROR_SYNTAX, "the list of sealed values isn't one");
    bool good = pin_unseal(&place, sealed, &value, err) &&
                pin_write_all(STDOUT_FILENO, place.name, strlen(place.name), err) &&
                pin_write_all(STDOUT_FILENO, "=", 1, err) &&
                pin_write_all(STDOUT_FILENO, value.bytes, value.size + 1, err); /* with the zero behind it */
    pin_locked_free(&value);
    return good;
}

int pin_config_unseal(void) {
    struct pin_error err = {0};
    size_t size, index;
    json_t *item;
    PIN_FREE char *text = pin_read_all(STDIN_FILENO, LIST_MOST, &size, &err);
    json_t *list = text == NULL ? NULL : json_loadb(text, size, 0, NULL);
    if (text != NULL && !json_is_array(list))
        (void)pin_fail(&err, PIN_ERROR_SYNTAX, "the list of sealed values isn't one");
    json_array_foreach(list, index, item) {
        if (pin_is_set(&err) || !write_one(item, &err))
            break;
    }
    json_decref(list);
    return pin_is_set(&err) ? pin_report(&err, false) : 0;
}
