#include "tools/pinfold-tool/handed.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/kept/request.h"
#include "runtime/secrets/secrets.h"
#include "tools/pinfold-tool/configure.h"

bool pin_handed_check(const struct pin_warm *warm, struct pin_error *err) {
    const struct pin_bundle_ext *ext = &warm->front->bundle->ext;
    struct sysinfo host;
    for (size_t i = 0; i < ext->secret_count; i++) {
        struct pin_secret_spec spec;
        if (!pin_secret_spec_parse(ext->secrets[i], &spec, err))
            return false;
        if (spec.form != PIN_SECRET_ENV)
            return pin_fail(err, PIN_ERROR_UNSUPPORTED, "it is handed a secret as a file");
        if (!pin_warm_check_variable(spec.target, err))
            return false;
    }
    /* what may be swapped is judged for each run with secrets: here there is nothing to judge */
    return sysinfo(&host) == 0 && host.totalswap == 0
               ? true
               : pin_fail(err, PIN_ERROR_UNSUPPORTED, "it is handed secrets, and the host swaps");
}

static bool find(const struct pin_warm *warm, struct pin_secrets *all, struct pin_error *err) {
    const struct pin_front *front = warm->front;
    const struct pin_bundle_ext *ext = &front->bundle->ext;
    struct pin_secrets sealed = {0};
    bool found = pin_secrets_find(all, (const char *const *)ext->secrets, ext->secret_count,
                                  front->secret_variables, front->secret_variable_count, err) &&
                 pin_call_open_sealed(warm->stored, warm->env, &sealed, err) &&
                 pin_secrets_join(all, &sealed, err);
    pin_secrets_free(&sealed);
    return found;
}

static bool put(const struct pin_secrets *all, int pipe, struct pin_error *err) {
    size_t sum = 0;
    for (size_t i = 0; i < all->count; i++)
        sum += strlen(pin_secret_variable(&all->list[i])) + 1;
    if (sum > PIN_KEPT_SEALED_MOST)
        return pin_fail(err, PIN_ERROR_BUSY, "the call's secrets have more than %zu bytes",
                        PIN_KEPT_SEALED_MOST);
    for (size_t i = 0; i < all->count; i++) {
        const char *variable = pin_secret_variable(&all->list[i]);
        size_t size = strlen(variable) + 1;
        if (write(pipe, variable, size) != (ssize_t)size) /* it has room for all, unless it was made small */
            return pin_fail(err, PIN_ERROR_BUSY, "a pipe has no room for the call's secrets");
    }
    return true;
}

int pin_handed_open(const struct pin_warm *warm, size_t *count, struct pin_error *err) {
    struct pin_secrets all = {0};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        (void)pin_fail_errno(err, "make a pipe");
        return -1;
    }
    PIN_CLOSE int from = ends[0];
    PIN_CLOSE int to = ends[1];
    bool ready = find(warm, &all, err) && put(&all, to, err);
    *count = all.count;
    pin_secrets_free(&all);
    return ready ? pin_steal_fd(&from) : -1;
}

void pin_handed_forget(const struct pin_warm *warm) {
    for (size_t i = 0; i < warm->front->secret_variable_count; i++) {
        const char *equals = strchr(warm->front->secret_variables[i], '=');
        char *value = equals == NULL ? NULL : getenv(equals + 1);
        if (value == NULL)
            continue;
        explicit_bzero(value, strlen(value));
        (void)unsetenv(equals + 1);
    }
}
