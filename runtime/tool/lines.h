/* lines.h: what a tool printed, as a list of lines. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

/* An array of strings without their line ends. What is no UTF-8 becomes U+FFFD, and *replaced true. */
json_t *pin_tool_lines(const uint8_t *data, size_t size, bool *replaced);
