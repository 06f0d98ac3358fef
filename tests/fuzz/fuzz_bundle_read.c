/* Any bytes are a bundle or findings; a bundle is written and read again as the same; and what a ceiling
 * makes of it is a verdict. */
#undef NDEBUG /* the laws below are asserted in every build */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy_read.h"
#include "runtime/bundle/bundle_ceiling.h"
#include "runtime/bundle/bundle_read.h"
#include "runtime/bundle/bundle_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct pin_policy *ceiling(void) {
    static struct pin_policy *policy;
    static struct pin_findings found;
    if (policy == NULL)
        policy = pin_policy_load("oci", &found); /* the widest: it lets most of a bundle through */
    assert(policy != NULL);
    return policy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct pin_findings found;
    struct pin_error err = {0};
    const struct pin_request nothing = {0};
    size_t once_size, twice_size;
    memset(&found, 0, sizeof(found));
    struct pin_bundle *bundle = pin_bundle_parse("config.json", (const char *)data, size, &found);
    assert((bundle == NULL) == pin_found_any(&found));
    if (bundle == NULL)
        return 0;
    char *once = pin_bundle_print(bundle, false, &once_size, &err);
    assert(once != NULL); /* what was read is UTF-8 */
    struct pin_bundle *again =
        bundle->oci_version == NULL ? NULL : pin_bundle_parse("again", once, once_size, &found);
    char *twice = again == NULL ? NULL : pin_bundle_print(again, false, &twice_size, &err);
    assert(twice != NULL && twice_size == once_size && memcmp(once, twice, once_size) == 0);
    bool admitted = pin_bundle_admit(bundle, ceiling(), &nothing, &found);
    assert(admitted != pin_found_any(&found));
    free(once);
    free(twice);
    pin_bundle_free(again);
    pin_bundle_free(bundle);
    return 0;
}
