/* bpf_text.h: a classic BPF program of seccomp(2), disassembled. Pure; takes any bytes. */
#pragma once

#include <linux/filter.h>

#include <stddef.h>

#include "policy/buffer.h"

/* One line an instruction: number, its bytes, the operation, and for loads and returns what they mean. */
void pin_bpf_text(struct pin_buffer *to, const struct sock_filter *code, size_t length);
