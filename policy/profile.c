#include "policy/profile.h"

#include <stdlib.h>
#include <string.h>

struct pin_policy *pin_profile_load(const char *name) {
    for (size_t i = 0; i < pin_profile_image_count; i++)
        if (strcmp(pin_profile_images[i].name, name) == 0)
            return pin_profile_restore(&pin_profile_images[i]);
    return NULL;
}
