#include "policy/syscalls.h"

#include <string.h>

#include "base/names.h"

#define NAMES_MAX 512
#define NUMBERS_MAX 512

static size_t lower_bound(const char *name) {
    size_t low = 0, high = pin_syscalls_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(pin_syscalls[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct pin_syscall *pin_syscall_find(const char *name) {
    size_t row = lower_bound(name);
    if (row == pin_syscalls_count || strcmp(pin_syscalls[row].name, name) != 0)
        return NULL;
    return &pin_syscalls[row];
}

const struct pin_syscall *pin_syscall_find_near(const char *name, const struct pin_syscall *hint) {
    const struct pin_syscall *end = pin_syscalls + pin_syscalls_count;
    for (int i = 0; hint != NULL && i < 4 && hint < end; i++, hint++)
        if (hint->name == name)
            return hint;
    return pin_syscall_find(name);
}

const struct pin_syscall *pin_syscall_at(enum pin_arch arch, uint32_t number) {
    for (size_t i = 0; i < pin_syscalls_count; i++)
        if (pin_syscalls[i].number[arch] >= 0 && (uint32_t)pin_syscalls[i].number[arch] == number)
            return &pin_syscalls[i];
    return NULL;
}

int pin_syscall_number(enum pin_arch arch, const char *name) {
    const struct pin_syscall *call = pin_syscall_find(name);
    return call == NULL ? -1 : call->number[arch];
}

static const struct pin_syscall_set *find_set(const struct pin_syscall_set *sets, size_t count,
                                              const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(sets[i].name, name) == 0)
            return &sets[i];
    return NULL;
}

const struct pin_syscall_set *pin_syscall_group(const char *name) {
    return find_set(pin_syscall_groups, pin_syscall_groups_count, name);
}

const struct pin_syscall_set *pin_syscall_baseline(const char *name) {
    return find_set(pin_syscall_baselines, pin_syscall_baselines_count, name);
}

bool pin_syscall_in(const struct pin_syscall_set *set, const struct pin_syscall *call) {
    size_t row = (size_t)(call - pin_syscalls);
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->rows[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && set->rows[low] == row;
}

const char *pin_syscall_suggest(const char *name) {
    const char *names[NAMES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < pin_syscall_groups_count && count < NAMES_MAX; i++)
        names[count++] = pin_syscall_groups[i].name;
    for (size_t i = 0; i < pin_syscalls_count && count < NAMES_MAX; i++)
        names[count++] = pin_syscalls[i].name;
    return pin_name_suggest(names, count, name);
}
