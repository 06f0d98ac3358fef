#include "tools/pinfold-tool/shield.h"

#include <string.h>

#include "base/names.h"
#include "policy/policy_read.h"

/* The sandbox's first process after init: runtime/kept/runner.c holds it to that. */
#define ZYGOTE 2
#define LOW_HALF UINT64_C(0xffffffff) /* an int: the kernel throws the upper half away */

struct denial {
    const char *call;
    int index; /* of the argument; -1: the call as a whole */
    uint32_t value;
};

/* clang-format off */
static const struct denial denials[] = {
    /* signals: to it, to its group, and to everybody */
    {"kill",              0,  ZYGOTE               },
    {"kill",              0,  (uint32_t)-ZYGOTE    },
    {"kill",              0,  (uint32_t)-1         },
    {"tkill",             0,  ZYGOTE               },
    {"tgkill",            0,  ZYGOTE               },
    {"rt_sigqueueinfo",   0,  ZYGOTE               },
    {"rt_tgsigqueueinfo", 0,  ZYGOTE               },
    {"pidfd_send_signal", -1, 0                    },
    {"fcntl",             1,  10 /* F_SETSIG */    }, /* its signal may be any, also KILL and STOP */
    {"fcntl",             1,  15 /* F_SETOWN_EX */ },
    /* what others of the same user may set of a process */
    {"prlimit64",         0,  1                    },
    {"prlimit64",         0,  ZYGOTE               },
    {"sched_setaffinity", 0,  1                    },
    {"sched_setaffinity", 0,  ZYGOTE               },
    {"sched_setattr",     0,  1                    },
    {"sched_setattr",     0,  ZYGOTE               },
    {"sched_setparam",    0,  1                    },
    {"sched_setparam",    0,  ZYGOTE               },
    {"sched_setscheduler", 0, 1                    },
    {"sched_setscheduler", 0, ZYGOTE               },
    {"setpriority",       0,  2 /* PRIO_USER */    },
    {"setpriority",       1,  1                    },
    {"setpriority",       1,  ZYGOTE               },
    {"ioprio_set",        0,  3 /* of a user */    },
    {"ioprio_set",        1,  1                    },
    {"ioprio_set",        1,  ZYGOTE               },
    /* its memory: it is not dumpable either */
    {"ptrace",            -1, 0                    },
    {"process_vm_readv",  -1, 0                    },
    {"process_vm_writev", -1, 0                    },
    {"process_madvise",   -1, 0                    },
    {"pidfd_getfd",       -1, 0                    },
    /* what outlives every process */
    {"shmget",            -1, 0                    },
    {"semget",            -1, 0                    },
    {"msgget",            -1, 0                    },
    {"mq_open",           -1, 0                    },
    {"add_key",           -1, 0                    },
    {"keyctl",            -1, 0                    },
};
/* clang-format on */

void pin_shield(struct pin_policy *policy) {
    size_t before = policy->syscalls.deny_count;
    struct pin_syscall_entry *all =
        pin_arena_array(&policy->arena, before + PIN_COUNT(denials), sizeof(*all));
    if (before > 0)
        memcpy(all, policy->syscalls.deny, before * sizeof(*all));
    for (size_t i = 0; i < PIN_COUNT(denials); i++) {
        const struct denial *denial = &denials[i];
        all[before + i] = (struct pin_syscall_entry){
            .name = denial->call,
            .arg_count = denial->index >= 0,
            .args = {{(uint8_t)denial->index, PIN_FILTER_MASKED_EQ, LOW_HALF, denial->value}},
        };
    }
    policy->syscalls.deny = all;
    policy->syscalls.deny_count = before + PIN_COUNT(denials);
    pin_policy_seal(policy);
}
