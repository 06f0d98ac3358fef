/* The texts of /proc/self/mountinfo, /proc/self/cgroup and cgroup.controllers, split at zero bytes. Mount
 * points are chosen by whoever may mount. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/build/cgroup/facts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct pin_cgroup_hierarchy *hierarchy) {
    assert(memchr(hierarchy->base, '\0', sizeof(hierarchy->base)) != NULL);
    assert(hierarchy->mount[0] == '/' && hierarchy->shown[0] == '/');
    assert(!hierarchy->usable || (hierarchy->base[0] == '/' && !hierarchy->read_only));
    assert(hierarchy->v2 || hierarchy->controllers != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char none[] = "";
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    size_t mounts = strlen(text);
    const char *own = mounts < size ? text + mounts + 1 : none;
    size_t groups = mounts < size ? mounts + 1 + strlen(own) : size;
    const char *controllers = groups < size ? text + groups + 1 : none;
    struct pin_cgroup_facts facts;
    pin_cgroup_facts_parse(text, own, size % 2 == 0, "pinfold", &facts);
    pin_cgroup_facts_unified(&facts, controllers);
    assert(facts.count <= PIN_CGROUP_HIERARCHIES);
    for (size_t i = 0; i < facts.count; i++)
        check(&facts.hierarchies[i]);
    for (int c = 0; c < PIN_CGROUP_CONTROLLER_COUNT; c++) {
        const struct pin_cgroup_hierarchy *of = pin_cgroup_facts_of(&facts, (enum pin_cgroup_controller)c);
        assert(of == NULL || (of->controllers & 1u << c) != 0);
    }
    free(text);
    return 0;
}
