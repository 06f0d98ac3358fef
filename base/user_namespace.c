#include "base/user_namespace.h"

#include <stdint.h>
#include <stdio.h>

bool pin_in_user_namespace(void) {
    unsigned inside, outside, count;
    FILE *map = fopen("/proc/self/uid_map", "re");
    if (map == NULL)
        return false;
    bool whole = fscanf(map, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 && outside == 0 &&
                 count == UINT32_MAX;
    (void)fclose(map);
    return !whole;
}
