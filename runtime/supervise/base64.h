/* base64.h: RFC 4648, section 4, with padding. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Ends with a zero; the caller frees it. NULL when memory is out. */
char *pin_base64(const uint8_t *data, size_t size);
