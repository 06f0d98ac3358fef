/* synthetic.h: the address that stands for a name inside one sandbox, and back.
 *
 * A name keeps its two addresses (198.18.0.0/15 and a private IPv6 prefix) as long as the sandbox lives, so
 * that whatever a program caches stays true. The table is bounded; it owns the names. No system calls.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIN_SYNTHETIC_MAX 16384
#define PIN_SYNTHETIC_WILD_MAX                                                                               \
    8192 /* for names below wildcards: they can't use up those that rules spell out */

struct pin_synthetic;

/* NULL when memory runs out. */
struct pin_synthetic *pin_synthetic_new(void);
void pin_synthetic_free(struct pin_synthetic *table);

/* The number of a canonical name; -1 if it has none yet. */
int pin_synthetic_find(const struct pin_synthetic *table, const char *name);
/* Gives it one; -1 when the table is full. */
int pin_synthetic_add(struct pin_synthetic *table, const char *name);

void pin_synthetic_v4(int number, uint8_t address[4]);
void pin_synthetic_v6(int number, uint8_t address[16]);

/* Is it one of the ranges at all? (16 bytes, IPv4 mapped) */
bool pin_synthetic_is(const uint8_t address[16]);
/* The name that an address stands for; NULL if it stands for none. */
const char *pin_synthetic_name(const struct pin_synthetic *table, const uint8_t address[16]);
