/* units.h: sizes and times as people write them.
 *
 * Sizes: a whole number and KiB, MiB, GiB or TiB, or plain bytes ("B" or nothing). Times: a whole number and
 * ms, s, m or h. No fractions, signs, spaces or other suffixes; overflow is refused, never wrapped. CPUs:
 * "1", "0.5", "2.25": thousandths of a processor.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIN_KIB UINT64_C(1024)
#define PIN_MIB (UINT64_C(1024) * PIN_KIB)
#define PIN_GIB (UINT64_C(1024) * PIN_MIB)
#define PIN_NS_PER_MS UINT64_C(1000000)
#define PIN_NS_PER_S UINT64_C(1000000000)

bool pin_parse_u64(const char *text, uint64_t *value);
bool pin_parse_size(const char *text, uint64_t *bytes);
bool pin_parse_time(const char *text, uint64_t *ns);
bool pin_parse_cpus(const char *text, uint32_t *millicpus);

/* The shortest exact form ("512MiB", "1536KiB", "1000"; "30s", "1500ms"), in `to`, which it returns. */
#define PIN_UNITS_TEXT 32
char *pin_print_size(char to[PIN_UNITS_TEXT], uint64_t bytes);
char *pin_print_time(char to[PIN_UNITS_TEXT], uint64_t ns);
char *pin_print_cpus(char to[PIN_UNITS_TEXT], uint32_t millicpus);

/* How many files a tmpfs of this size may have: one for each KiB, and at least 1024. Empty ones use up no
 * bytes of it, and about a KiB of the kernel's memory each. */
static inline uint64_t pin_inodes_of(uint64_t bytes) {
    return bytes < PIN_MIB ? 1024 : bytes / PIN_KIB;
}
