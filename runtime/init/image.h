/* image.h: the program init, built apart from all else (static, musl), as bytes to be sealed in a memfd. */
#pragma once

#include <stddef.h>

extern const unsigned char pin_init_image[];
extern const size_t pin_init_image_size;
