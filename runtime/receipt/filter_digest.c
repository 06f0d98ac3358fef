#include "runtime/receipt/filter_digest.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/filter.h>

#include "base/sha256.h"

enum { PROGRAM_MAX = 4096, FILTERS_MAX = 32 };

static bool stop(pid_t pid, struct pin_error *err) {
    int status = 0;
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0)
        return pin_fail_errno(err, "look at the sandbox's filters");
    if (ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) != 0)
        return pin_fail_errno(err, "stop the sandbox's init");
    while (waitpid(pid, &status, __WALL) < 0)
        if (errno != EINTR)
            return pin_fail_errno(err, "stop the sandbox's init");
    return WIFSTOPPED(status) ||
           pin_fail(err, PIN_ERROR_SYSTEM, "the sandbox's init ended while it was looked at");
}

/* False: there is no such filter. */
static bool add_filter(json_t *list, pid_t pid, long index) {
    struct sock_filter program[PROGRAM_MAX];
    uint8_t digest[PIN_SHA256_SIZE];
    char text[PIN_DIGEST_TEXT];
    long count = ptrace(PTRACE_SECCOMP_GET_FILTER, pid, (void *)index, NULL);
    if (count <= 0 || count > PROGRAM_MAX ||
        ptrace(PTRACE_SECCOMP_GET_FILTER, pid, (void *)index, program) != count)
        return false;
    pin_sha256(program, (size_t)count * sizeof(program[0]), digest);
    (void)json_array_append_new(list, json_pack("{s:I, s:s}", "instructions", (json_int_t)count, "digest",
                                                pin_digest_print(text, digest)));
    return true;
}

json_t *pin_filter_digests(pid_t pid, struct pin_error *err) {
    if (geteuid() != 0)
        return json_null();
    bool stopped = stop(pid, err);
    json_t *list = stopped ? json_array() : NULL;
    for (long i = 0; stopped && i < FILTERS_MAX && add_filter(list, pid, i); i++)
        ;
    (void)ptrace(PTRACE_DETACH, pid, NULL, NULL); /* fails where it was never seized */
    return list;
}
