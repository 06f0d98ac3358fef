#include "tools/pinfold-tool/family.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "tools/pinfold-tool/runners.h"

/* Takes the list over. */
static bool digits_of(json_t *list, char to[PIN_FAMILY_DIGITS + 1]) {
    uint8_t digest[PIN_SHA256_SIZE];
    char text[PIN_DIGEST_TEXT];
    PIN_FREE char *json = list == NULL ? NULL : json_dumps(list, JSON_COMPACT);
    json_decref(list);
    if (json == NULL)
        return false;
    pin_sha256(json, strlen(json), digest);
    (void)snprintf(to, PIN_FAMILY_DIGITS + 1, "%s", strchr(pin_digest_print(text, digest), ':') + 1);
    return true;
}

static json_t *content_of(const struct pin_tool_config *stored) {
    json_t *list = json_pack("[s, s]", stored->digest, pin_runners_digest());
    for (size_t i = 0; list != NULL && i < stored->env_count; i++)
        (void)json_array_append_new(
            list, json_pack("[s, s?, s?]", stored->env[i].name, stored->env[i].value, stored->env[i].sealed));
    return list;
}

bool pin_family_of(const struct pin_tool_config *stored, const char *language, struct pin_family *family) {
    return digits_of(json_pack("[s, s?, s?]", language, stored->organisation, stored->name),
                     family->family) &&
           digits_of(content_of(stored), family->revision);
}
