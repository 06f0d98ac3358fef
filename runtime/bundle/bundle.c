#include "runtime/bundle/bundle.h"

#include <stdlib.h>

#include "base/names.h"

static const char *const namespace_names[] = {
    [PIN_NS_USER] = "user",       [PIN_NS_MOUNT] = "mount", [PIN_NS_PID] = "pid",
    [PIN_NS_NETWORK] = "network", [PIN_NS_IPC] = "ipc",     [PIN_NS_UTS] = "uts",
    [PIN_NS_CGROUP] = "cgroup",   [PIN_NS_TIME] = "time",
};
_Static_assert(PIN_COUNT(namespace_names) == PIN_NS_COUNT, "every namespace has a name");

const char *pin_namespace_name(enum pin_namespace ns) {
    return namespace_names[ns];
}

static const char *const stage_names[] = {
    [PIN_HOOK_PRESTART] = "prestart",
    [PIN_HOOK_CREATE_RUNTIME] = "createRuntime",
    [PIN_HOOK_CREATE_CONTAINER] = "createContainer",
    [PIN_HOOK_START_CONTAINER] = "startContainer",
    [PIN_HOOK_POSTSTART] = "poststart",
    [PIN_HOOK_POSTSTOP] = "poststop",
};
_Static_assert(PIN_COUNT(stage_names) == PIN_HOOK_STAGE_COUNT, "every stage has a name");

const char *pin_hook_stage_name(enum pin_hook_stage stage) {
    return stage_names[stage];
}

struct pin_bundle *pin_bundle_new(void) {
    struct pin_bundle *bundle = calloc(1, sizeof(*bundle));
    if (bundle == NULL)
        abort(); /* as an arena does: nothing has been built yet */
    return bundle;
}

void pin_bundle_free(struct pin_bundle *bundle) {
    if (bundle == NULL)
        return;
    pin_arena_free(&bundle->arena);
    free(bundle);
}

bool pin_bundle_has_hooks(const struct pin_bundle *bundle) {
    size_t count = 0;
    for (int stage = 0; stage < PIN_HOOK_STAGE_COUNT; stage++)
        count += bundle->hook_count[stage];
    return count > 0;
}
