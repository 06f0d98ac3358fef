#include "tools/pinfold/run_receipt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/receipt/enforced.h"
#include "tools/pinfold/set_up.h"

static void set(json_t *object, const char *key, json_t *value) {
    (void)json_object_set_new(object, key, value);
}

static bool open_pipes(int input[2], int said[2], struct pin_error *err) {
    if (pipe2(input, O_CLOEXEC) != 0)
        return pin_fail_errno(err, "make a pipe");
    if (pipe2(said, O_CLOEXEC) == 0)
        return true;
    (void)pin_fail_errno(err, "make a pipe");
    (void)close(input[0]);
    (void)close(input[1]);
    return false;
}

/* Its one line without its name becomes our error. */
static bool fail_as_it_said(char *line, struct pin_error *err) {
    static const char name[] = "pinfold: ";
    line[strcspn(line, "\n")] = '\0';
    const char *cause = strncmp(line, name, strlen(name)) == 0 ? line + strlen(name) : line;
    if (*cause != '\0')
        return pin_fail(err, PIN_ERROR_SYSTEM, "sign the receipt: %s", cause);
    (void)pin_fail(err, PIN_ERROR_SYSTEM, "'pinfold-audit receipt' can't sign the receipt");
    return pin_hint(err, "it must be installed, and its keys a directory of one's own");
}

/* Runs pinfold-audit with the text as its input. */
static bool run_program(char *const *argv, const char *text, struct pin_error *err) {
    int input[2], said[2], status = 0;
    char line[256] = "";
    size_t size = 0;
    if (!open_pipes(input, said, err))
        return false;
    pid_t child = fork();
    if (child == 0) {
        if (dup2(input[0], STDIN_FILENO) >= 0 && dup2(said[1], STDOUT_FILENO) >= 0 &&
            dup2(said[1], STDERR_FILENO) >= 0)
            pin_set_up_execute(argv[0], (const char *const *)argv);
        _exit(PIN_EXIT_NOT_FOUND);
    }
    (void)close(input[0]);
    (void)close(said[1]);
    struct pin_error broken = {0}; /* its status says more */
    if (child > 0)
        (void)pin_write_all(input[1], text, strlen(text), &broken);
    (void)close(input[1]);
    for (ssize_t got; child > 0 && size < sizeof(line) - 1; size += (size_t)got) {
        got = read(said[0], line + size, sizeof(line) - 1 - size);
        if (got < 0 && errno == EINTR)
            got = 0;
        else if (got <= 0)
            break;
    }
    (void)close(said[0]);
    if (child < 0)
        return pin_fail_errno(err, "run 'pinfold-audit'");
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return (WIFEXITED(status) && WEXITSTATUS(status) == 0) || fail_as_it_said(line, err);
}

bool pin_run_receipt_prepare(const struct pin_run_receipt *receipt, struct pin_error *err) {
    if (receipt->file == NULL)
        return true;
    PIN_FREE char *file = strdup(receipt->file);
    char *const argv[] = {(char[]){"pinfold-audit"},
                          (char[]){"receipt"},
                          (char[]){"sign"},
                          (char[]){"--check"},
                          (char[]){"--"},
                          file,
                          NULL};
    if (file == NULL)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory for a receipt");
    return run_program(argv, "", err);
}

bool pin_run_receipt_read(struct pin_run_receipt *receipt, const struct pin_sandbox *sandbox,
                          struct pin_error *err) {
    if (receipt->file == NULL)
        return true;
    if (!pin_enforced_await(sandbox->control, err))
        return !pin_is_set(err);
    receipt->enforced = pin_enforced_read(sandbox->init, sandbox->cgroup, err);
    return receipt->enforced != NULL;
}

static json_t *result_json(const struct pin_result *result) {
    json_t *missing = json_array();
    for (size_t i = 0; i < result->missing_count; i++)
        (void)json_array_append_new(missing, json_string(result->missing[i]));
    return json_pack("{s:s, s:i, s:i, s:I, s:I, s:I, s:o}", "status", pin_status_name(result->status),
                     "exit_code", result->exit_code, "signal", result->signal, "wall_ms",
                     (json_int_t)(result->usage.wall_ns / PIN_NS_PER_MS), "cpu_ms",
                     (json_int_t)(result->usage.cpu_ns / PIN_NS_PER_MS), "memory_peak_bytes",
                     (json_int_t)result->usage.memory_peak_bytes, "missing", missing);
}

static json_t *host_json(void) {
    struct utsname names = {0};
    (void)uname(&names);
    return json_pack("{s:s, s:s, s:s}", "name", names.nodename, "kernel", names.release, "machine",
                     names.machine);
}

static json_t *audit_json(const struct pin_run_audit *audit) {
    if (!pin_run_audit_is_on(audit) || audit->end.hash[0] == '\0')
        return json_null();
    return json_pack("{s:I, s:s}", "seq", (json_int_t)audit->end.seq, "hash", audit->end.hash);
}

/* No kernel tells which rules hold for a process: this is what was set up, or the run would have been
 * refused. */
static json_t *landlock_json(const struct pin_bundle_ext *ext, const struct pin_result *result) {
    json_t *paths = json_array();
    char path[1024];
    bool missing = false;
    for (size_t i = 0; i < result->missing_count; i++)
        missing = missing || strcmp(result->missing[i], "landlock") == 0;
    for (size_t i = 0; ext->landlock.enabled && i < ext->landlock.write_count; i++)
        (void)json_array_append_new(paths, json_string(pin_escape(path, sizeof(path), ext->landlock.write[i],
                                                                  strlen(ext->landlock.write[i]))));
    return json_pack("{s:b, s:b, s:o}", "asked", (int)ext->landlock.enabled, "missing", (int)missing, "write",
                     paths);
}

static json_t *receipt_json(struct pin_run_receipt *receipt, const struct pin_bundle *bundle,
                            const struct pin_result *result, bool has_ended,
                            const struct pin_run_audit *audit) {
    const struct pin_bundle_ext *ext = &bundle->ext;
    char digest[PIN_DIGEST_TEXT], name[256] = "", image[512] = "";
    if (ext->policy_name != NULL)
        (void)pin_escape(name, sizeof(name), ext->policy_name, strlen(ext->policy_name));
    if (ext->image != NULL)
        (void)pin_escape(image, sizeof(image), ext->image, strlen(ext->image));
    json_t *whole = json_pack(
        "{s:i, s:I, s:s, s:s, s:{s:s, s:s}, s:s, s:s?}", "pinfold_receipt", 1, "time", (json_int_t)time(NULL),
        "sandbox", result->sandbox, "fingerprint", result->fingerprint, "policy", "name", name, "digest",
        pin_digest_print(digest, ext->policy_digest), "image", image, "image_digest", receipt->image_digest);
    set(whole, "host", host_json());
    set(whole, "landlock", landlock_json(ext, result));
    set(whole, "enforced", receipt->enforced != NULL ? json_incref(receipt->enforced) : json_null());
    set(whole, "result", has_ended ? result_json(result) : json_null());
    set(whole, "audit", audit_json(audit));
    return whole;
}

bool pin_run_receipt_write(struct pin_run_receipt *receipt, const struct pin_bundle *bundle,
                           const struct pin_result *result, bool has_ended, const struct pin_run_audit *audit,
                           struct pin_error *err) {
    if (receipt->file == NULL)
        return true;
    json_t *whole = receipt_json(receipt, bundle, result, has_ended, audit);
    PIN_FREE char *text = json_dumps(whole, JSON_COMPACT);
    char *file = strdup(receipt->file);
    json_decref(whole);
    char *const argv[] = {
        (char[]){"pinfold-audit"}, (char[]){"receipt"}, (char[]){"sign"}, (char[]){"--"}, file, NULL};
    bool done = text != NULL && file != NULL ? run_program(argv, text, err)
                                             : pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory for a receipt");
    free(file);
    return done;
}

void pin_run_receipt_free(struct pin_run_receipt *receipt) {
    json_decref(receipt->enforced);
    receipt->enforced = NULL;
}
