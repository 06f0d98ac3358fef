#include <stdlib.h>
#include <string.h>

#include "policy/profile.h"

struct pin_policy *pin_profile_restore(const struct pin_profile_image *image) {
    const size_t head = sizeof(struct pin_policy);
    struct pin_policy *policy = malloc(head);
    if (policy == NULL)
        abort(); /* out of memory, as in arena.h */
    memcpy(policy, image->bytes, head);
    unsigned char *body = pin_arena_memdup(&policy->arena, image->bytes + head, image->size - head);
    for (size_t i = 0; i < image->slot_count; i++) {
        size_t slot = image->slots[i];
        unsigned char *place = slot < head ? (unsigned char *)policy + slot : body + (slot - head);
        uintptr_t offset;
        memcpy(&offset, place, sizeof(offset));
        unsigned char *target = body + (offset - head);
        memcpy(place, &target, sizeof(target));
    }
    return policy;
}
