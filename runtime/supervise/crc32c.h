/* crc32c.h: the Castagnoli CRC of pinfold frames and log records (RFC 3720, appendix B.4): by the processor
 * where it can. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint32_t pin_crc32c(const uint8_t *data, size_t size);
/* Of what `sum` is of, and then these bytes. */
uint32_t pin_crc32c_more(uint32_t sum, const uint8_t *data, size_t size);
/* The same without the processor's instruction, for the tests and for processors that have none. */
uint32_t pin_crc32c_portable(const uint8_t *data, size_t size);
