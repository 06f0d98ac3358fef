/* Any text is a policy or a list of findings; and what is written of a policy reads back as the same one. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "policy/grants.h"
#include "policy/policy_read.h"
#include "policy/policy_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Files can't be reached: only the built-in profiles are extended. */
static int without_files(void) {
    return setenv("PINFOLD_POLICY_PATH", "", 1) + setenv("HOME", "/nonexistent", 1);
}

static void read_back(const struct pin_policy *policy, const char *text, size_t size) {
    static struct pin_findings found;
    memset(&found, 0, sizeof(found));
    struct pin_policy *again = pin_policy_parse("again.json", text, size, &found);
    assert(again != NULL && !pin_found_any(&found));
    assert(memcmp(again->digest, policy->digest, PIN_SHA256_SIZE) == 0);
    pin_policy_free(again);
}

static void ignore(void *context, const char *pointer, const char *value, const struct pin_place *place) {
    assert(context == NULL && pointer[0] == '/' && value[0] != '\0' && place->file != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct pin_findings found;
    if (size == 0)
        assert(without_files() == 0);
    memset(&found, 0, sizeof(found));
    struct pin_policy *policy = pin_policy_parse("fuzz.json", (const char *)data, size, &found);
    assert((policy != NULL) == !pin_found_any(&found));
    for (size_t i = 0; i < found.count; i++)
        assert(found.list[i].kind != PIN_ERROR_NONE && found.list[i].message[0] != '\0');
    if (policy == NULL)
        return 0;
    PIN_BUFFER struct pin_buffer canonical = {0}, people = {0};
    pin_policy_write_canonical(policy, &canonical);
    pin_policy_write(policy, &people);
    read_back(policy, canonical.data, canonical.size);
    read_back(policy, people.data, people.size);
    pin_policy_each_grant(policy, ignore, NULL);
    pin_policy_free(policy);
    return 0;
}
