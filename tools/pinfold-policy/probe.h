/* probe.h: what the prober and who starts it must agree on. */
#pragma once

#include <sys/syscall.h>

#define PIN_PROBE_NAME "pinfold-probe"
#define PIN_PROBE_TARGET "/pinfold-probe" /* where it is shown inside */
#define PIN_PROBE_WAITS 100               /* of 10 ms, until a call counts as waiting */

#ifdef SYS_vfork
#define PIN_PROBE_VFORK SYS_vfork
#else
#define PIN_PROBE_VFORK (-1)
#endif
