#include "runtime/egress/synthetic.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS (2u * PIN_SYNTHETIC_MAX) /* a power of two, at most half full */
#define FIRST 16u                      /* leaves the first addresses of the range to nobody */

static const uint8_t v4_range[14] = {[10] = 0xff, [11] = 0xff, 198, 18}; /* and 198.19: /15 */
static const uint8_t v6_range[12] = {0xfd, 'p', 'i', 'n', 'f', 'o', 'l', 'd'};

struct pin_synthetic {
    int count;
    char *names[PIN_SYNTHETIC_MAX];
    uint16_t slots[SLOTS]; /* number + 1; 0: empty */
};
_Static_assert(PIN_SYNTHETIC_MAX < UINT16_MAX, "a slot holds a number");

struct pin_synthetic *pin_synthetic_new(void) {
    return calloc(1, sizeof(struct pin_synthetic));
}

void pin_synthetic_free(struct pin_synthetic *table) {
    for (int i = 0; table != NULL && i < table->count; i++)
        free(table->names[i]);
    free(table);
}

/* FNV-1a; a program that makes its names collide slows its own broker only. */
static uint32_t hash(const char *name) {
    uint32_t value = 2166136261u;
    for (; *name != '\0'; name++)
        value = (value ^ (uint8_t)*name) * 16777619u;
    return value;
}

static uint32_t slot_of(const struct pin_synthetic *table, const char *name) {
    uint32_t slot = hash(name) % SLOTS;
    while (table->slots[slot] != 0 && strcmp(table->names[table->slots[slot] - 1], name) != 0)
        slot = (slot + 1) % SLOTS;
    return slot;
}

int pin_synthetic_find(const struct pin_synthetic *table, const char *name) {
    return (int)table->slots[slot_of(table, name)] - 1;
}

int pin_synthetic_add(struct pin_synthetic *table, const char *name) {
    uint32_t slot = slot_of(table, name);
    if (table->slots[slot] != 0)
        return table->slots[slot] - 1;
    char *copy = table->count < PIN_SYNTHETIC_MAX ? strdup(name) : NULL;
    if (copy == NULL)
        return -1;
    table->names[table->count] = copy;
    table->slots[slot] = (uint16_t)(table->count + 1);
    return table->count++;
}

void pin_synthetic_v4(int number, uint8_t address[4]) {
    uint32_t host = FIRST + (uint32_t)number;
    address[0] = 198;
    address[1] = (uint8_t)(18 + (host >> 16));
    address[2] = (uint8_t)(host >> 8);
    address[3] = (uint8_t)host;
}

void pin_synthetic_v6(int number, uint8_t address[16]) {
    uint32_t host = FIRST + (uint32_t)number;
    memcpy(address, v6_range, sizeof(v6_range));
    for (unsigned i = 0; i < 4; i++)
        address[15 - i] = (uint8_t)(host >> 8 * i);
}

static bool is_v4(const uint8_t address[16]) {
    return memcmp(address, v4_range, 13) == 0 && (address[13] == 18 || address[13] == 19);
}

bool pin_synthetic_is(const uint8_t address[16]) {
    return is_v4(address) || memcmp(address, v6_range, 8) == 0;
}

const char *pin_synthetic_name(const struct pin_synthetic *table, const uint8_t address[16]) {
    if (!is_v4(address) && memcmp(address, v6_range, sizeof(v6_range)) != 0)
        return NULL;
    uint32_t host = (uint32_t)address[14] << 8 | address[15];
    host |= is_v4(address) ? (address[13] - 18u) << 16
                           : (uint32_t)address[12] << 24 | (uint32_t)address[13] << 16;
    uint32_t number = host - FIRST; /* wraps below the first: too large then */
    return number < (uint32_t)table->count ? table->names[number] : NULL;
}
