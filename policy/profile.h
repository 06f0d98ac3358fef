/* profile.h: the built-in profiles as they were resolved when the program was built.
 *
 * A run of a built-in profile needs no JSON: what pin_policy_load() makes of the embedded text is known
 * beforehand, and lies in the program as an image without addresses (policy/bake/, which refuses to build one
 * that would not come back the same). Pure.
 */
#pragma once

#include "policy/policy.h"

struct pin_profile_image {
    const char *name;
    const unsigned char *bytes; /* a struct pin_policy, then what it points to */
    size_t size;
    const uint16_t *slots; /* where in the bytes the pointers are: each holds an offset into them */
    size_t slot_count;
};

/* Generated; in no order. */
extern const struct pin_profile_image pin_profile_images[];
extern const size_t pin_profile_image_count;

/* The same policy that pin_policy_load() gives for that name, with the same places; NULL: no profile has it.
 * The caller frees it with pin_policy_free(). */
struct pin_policy *pin_profile_load(const char *name);

/* The policy of one image. */
struct pin_policy *pin_profile_restore(const struct pin_profile_image *image);
