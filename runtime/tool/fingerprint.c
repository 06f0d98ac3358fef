#include "runtime/tool/fingerprint.h"

#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "runtime/bundle/bundle_write.h"

/* Canonical: every field has its name, and absent ones are null, so that no two shapes have one text. */
static char *print_shape(const struct pin_tool_shape *shape, bool whole) {
    json_t *object =
        json_pack("{s:s, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?, s:b}", "scope", whole ? "sandbox" : "pool",
                  "language", shape->language, "organisation", shape->organisation, "configuration",
                  shape->configuration, "configuration_digest", shape->configuration_digest, "pip_lock",
                  shape->pip_lock, "npm_lock", shape->npm_lock, "privileged", (int)shape->privileged);
    char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return text;
}

bool pin_tool_fingerprint(const struct pin_bundle *bundle, const struct pin_tool_shape *shape,
                          enum pin_tool_scope scope, uint8_t digest[PIN_SHA256_SIZE], struct pin_error *err) {
    struct pin_bundle copy = *bundle; /* shallow */
    uint8_t of_bundle[PIN_SHA256_SIZE];
    if (scope == PIN_TOOL_SCOPE_POOL) {
        copy.process.env_count = 0;
        copy.ext.label_count = 0;
        copy.ext.secret_count = 0;
    }
    PIN_FREE char *text = print_shape(shape, scope == PIN_TOOL_SCOPE_SANDBOX);
    if (text == NULL)
        return pin_fail(err, PIN_ERROR_INVALID, "the shape of the call is no UTF-8");
    if (!pin_bundle_fingerprint(&copy, of_bundle, err))
        return false;
    pin_sha256_pair(of_bundle, sizeof(of_bundle), text, strlen(text), digest);
    return true;
}
