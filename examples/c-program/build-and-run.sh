#!/bin/sh
# Compiles primes.c inside the sandbox, into /tmp, and runs it there.
set -e
cc -O2 -o /tmp/primes /workspace/primes.c
exec /tmp/primes "${1:-1000000}"
