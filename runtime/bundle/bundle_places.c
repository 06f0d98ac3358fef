#include "runtime/bundle/bundle_places.h"

#include <string.h>

#include "base/names.h"
#include "policy/policy_write.h"

static const enum pin_field deciding[] = {
    PIN_FIELD_MEMORY, PIN_FIELD_PIDS,   PIN_FIELD_WALL_TIME,         PIN_FIELD_CPU_TIME,
    PIN_FIELD_STDOUT, PIN_FIELD_STDERR, PIN_FIELD_ON_OUTPUT_CAP,     PIN_FIELD_FRAME,
    PIN_FIELD_EGRESS, PIN_FIELD_WRITE,  PIN_FIELD_SYSCALLS_BASELINE, PIN_FIELD_SYSCALLS_ON_DENY,
};

void pin_fill_places(struct pin_bundle *bundle, const struct pin_policy *policy) {
    struct pin_bundle_ext *ext = &bundle->ext;
    char text[PIN_PLACE_TEXT];
    ext->places = pin_arena_array(&bundle->arena, PIN_COUNT(deciding), sizeof(*ext->places));
    ext->place_count = PIN_COUNT(deciding);
    for (size_t i = 0; i < PIN_COUNT(deciding); i++)
        ext->places[i] = (struct pin_pair){
            pin_field_pointer(deciding[i]),
            pin_arena_strdup(&bundle->arena, pin_place_print(text, &policy->places[deciding[i]]))};
}

const char *pin_bundle_place(const struct pin_bundle_ext *ext, enum pin_field field) {
    for (size_t i = 0; i < ext->place_count; i++)
        if (strcmp(ext->places[i].key, pin_field_pointer(field)) == 0)
            return ext->places[i].value;
    return NULL;
}
