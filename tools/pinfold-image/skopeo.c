#include "tools/pinfold-image/skopeo.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "images/store/oci.h"
#include "tools/pinfold-image/program.h"

#define ARGUMENTS_MAX 12
#define LOOK_NS (120 * PIN_NS_PER_S) /* for a manifest */

static bool not_there(struct pin_error *err) {
    pin_error_clear(err);
    (void)pin_fail(err, PIN_ERROR_UNSUPPORTED,
                   "skopeo isn't installed, and registries are reached through it");
    return pin_hint(err, "apt install skopeo; or use 'pinfold image import' with a file");
}

/* Its last line says what is the matter: level=fatal msg="…". */
static bool failed(const struct program_output *output, const char *reference, struct pin_error *err) {
    char line[512], plain[240]; /* without the quotes that skopeo escapes once more */
    size_t used = 0;
    const char *said = strstr(program_last_words(output, line, sizeof(line)), "msg=");
    said = said == NULL ? line : said + strlen("msg=");
    for (; *said != '\0' && used + 1 < sizeof(plain); said++)
        if (*said != '\\' && *said != '"')
            plain[used++] = *said;
    plain[used] = '\0';
    if (strstr(plain, "context deadline exceeded") != NULL) {
        (void)pin_fail(err, PIN_ERROR_EXHAUSTED, "the registry took too long over '%.80s'", reference);
        return pin_hint(err, "--timeout says how long a pull may take");
    }
    return pin_fail(err, PIN_ERROR_SYSTEM, "skopeo can't get '%.80s': %s", reference, plain);
}

static bool run(const struct program *program, const char *reference, char **out, size_t *size,
                struct pin_error *err) {
    PROGRAM_OUTPUT struct program_output output = {0};
    if (!program_run(program, &output, err))
        return err->kind == PIN_ERROR_NOT_FOUND ? not_there(err) : false;
    if (output.code != 0)
        return failed(&output, reference, err);
    if (out != NULL) {
        *out = pin_steal_ptr(&output.out);
        *size = output.out_size;
    }
    return true;
}

struct timeout {
    char option[48];
};

/* Without a time, a registry that says nothing would be waited for without end; 0 is none to skopeo. */
static size_t common(const struct skopeo *skopeo, const char *insecure, uint64_t wait_ns,
                     struct timeout *timeout, const char **argv, size_t count) {
    (void)snprintf(timeout->option, sizeof(timeout->option), "--command-timeout=%" PRIu64 "ms",
                   wait_ns / PIN_NS_PER_MS + 1);
    argv[count++] = timeout->option;
    if (skopeo->authfile != NULL) {
        argv[count++] = "--authfile";
        argv[count++] = skopeo->authfile;
    }
    if (skopeo->insecure)
        argv[count++] = insecure;
    return count;
}

char *skopeo_inspect_raw(const struct skopeo *skopeo, const char *reference, size_t *size,
                         struct pin_error *err) {
    struct timeout timeout;
    uint64_t wait_ns = skopeo->timeout_ns < LOOK_NS ? skopeo->timeout_ns : LOOK_NS;
    const char *argv[ARGUMENTS_MAX] = {"skopeo", "inspect", "--raw"};
    size_t count = common(skopeo, "--tls-verify=false", wait_ns, &timeout, argv, 3);
    argv[count++] = "--";
    argv[count++] = reference;
    char *data = NULL;
    const struct program program = {.argv = argv, .output_max = PIN_OCI_DOCUMENT_MAX + 1};
    if (!run(&program, reference, &data, size, err))
        return NULL;
    if (data == NULL || *size > PIN_OCI_DOCUMENT_MAX) {
        free(data);
        (void)pin_fail(err, PIN_ERROR_INVALID, "the registry's manifest of '%.80s' is empty or too large",
                       reference);
        return NULL;
    }
    return data;
}

bool skopeo_copy(const struct skopeo *skopeo, const char *reference, const char *directory, uint64_t blob_max,
                 struct pin_error *err) {
    char to[PATH_MAX + 8];
    struct timeout timeout;
    const char *argv[ARGUMENTS_MAX] = {"skopeo", "copy"};
    size_t count = common(skopeo, "--src-tls-verify=false", skopeo->timeout_ns, &timeout, argv, 2);
    (void)snprintf(to, sizeof(to), "dir:%s", directory);
    argv[count++] = "--";
    argv[count++] = reference;
    argv[count++] = to;
    const struct program program = {.argv = argv, .show = skopeo->show_progress, .file_max = blob_max};
    return run(&program, reference, NULL, NULL, err);
}
