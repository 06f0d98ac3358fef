/* input.h: what --stdin names: a file, or - for our own standard input. */
#pragma once

#include "base/error.h"

/* A descriptor of the caller's to close; -1 on failure. A directory is refused: nothing could be read. */
int pin_input_open(const char *name, struct pin_error *err);
