#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "runtime/build/cgroup/cgroup.h"
#include "runtime/build/disk.h"
#include "runtime/host/host.h"
#include "runtime/state/state_dir.h"
#include "runtime/supervise/loop.h"
#include "tools/pinfold/front.h"
#include "tools/pinfold/report.h"
#include "tools/pinfold/verbs.h"

struct doctor_options {
    bool json;
};

static const struct pin_option options[] = {
    {"json", 0, PIN_OPTION_FLAG, offsetof(struct doctor_options, json), NULL, "print one JSON object", NULL},
};

struct check {
    const char *name;
    bool good;
    char fact[320]; /* what was seen */
    char mend[320]; /* how to get what is missing; "" when nothing is */
};

struct checks {
    struct check list[16];
    size_t count;
};

static struct check *add(struct checks *checks, const char *name, bool good, const char *mend) {
    struct check *check = &checks->list[checks->count++];
    check->name = name;
    check->good = good;
    if (!good)
        (void)snprintf(check->mend, sizeof(check->mend), "%s", mend);
    return check;
}

static void check_namespaces(struct checks *checks) {
    struct pin_error err = {0};
    size_t size;
    PIN_FREE char *text = pin_read_file_at(-1, "/proc/sys/user/max_user_namespaces", 64, &size, &err);
    uint64_t most = text != NULL ? strtoull(text, NULL, 10) : 0;
    struct check *check = add(checks, "user namespaces", most > 0, "sysctl user.max_user_namespaces=65536");
    (void)snprintf(check->fact, sizeof(check->fact), "at most %" PRIu64, most);
}

static void check_kernel(struct checks *checks) {
    struct utsname name;
    unsigned long major = 0, minor = 0;
    if (uname(&name) == 0) {
        char *rest = name.release;
        major = strtoul(name.release, &rest, 10);
        minor = *rest == '.' ? strtoul(rest + 1, NULL, 10) : 0;
    }
    struct check *check =
        add(checks, "kernel", major > 5 || (major == 5 && minor >= 15), "Linux 5.15 or newer is needed");
    (void)snprintf(check->fact, sizeof(check->fact), "%.64s", name.release);
}

static void check_landlock(struct checks *checks, const struct pin_host *host) {
    struct check *check =
        add(checks, "landlock", host->landlock_abi > 0, "boot with landlock in the list of lsm=");
    (void)snprintf(check->fact, sizeof(check->fact), "ABI %d", host->landlock_abi);
}

static void check_cgroups(struct checks *checks, struct pin_host *host) {
    struct pin_error err = {0};
    struct pin_cgroup_facts facts;
    PIN_CLOSE int state = pin_state_open(&err);
    char tag[PIN_STATE_TAG];
    bool known = state >= 0 && pin_state_tag(state, tag, &err) && pin_cgroup_facts_get(tag, &facts, &err);
    struct check *check;
    check = add(checks, "state directory", state >= 0, err.message);
    (void)snprintf(check->fact, sizeof(check->fact), "%s", state >= 0 ? "ours alone" : "can't be used");
    if (!known)
        return;
    const char *hint = NULL;
    host->lacks |= pin_cgroup_facts_lack(&facts, &hint);
    for (int i = 0; i <= PIN_PROTECT_PIDS; i++) {
        check = add(checks, pin_protection_name((enum pin_protection)i), (host->lacks & (1u << i)) == 0,
                    hint != NULL ? hint : "no hint");
        (void)snprintf(check->fact, sizeof(check->fact), "cgroup %s", pin_cgroup_kind_name(facts.kind));
    }
    pin_front_judge_swap(host, &facts);
    check = add(checks, pin_protection_name(PIN_PROTECT_SECRET_MEMORY),
                (host->lacks & 1u << PIN_PROTECT_SECRET_MEMORY) == 0,
                "turn swap off; or have cgroup v2, and no limit of locked memory (ulimit -l)");
    (void)snprintf(check->fact, sizeof(check->fact), "%s",
                   host->swaps ? "the host swaps" : "the host has no swap space");
}

static void check_ids(struct checks *checks, const struct pin_host *host) {
    struct pin_error err = {0};
    struct pin_subids ids = {0};
    struct check *check;
    if (host->privileged) {
        check = add(checks, "id ranges", true, "");
        (void)snprintf(check->fact, sizeof(check->fact), "a range of 65536 for each sandbox");
        return;
    }
    bool known = pin_host_subids("/etc/subuid", host->uid, &ids, &err);
    check = add(checks, "id ranges", known && ids.count >= 65536,
                "usermod --add-subuids and --add-subgids; install uidmap");
    (void)snprintf(check->fact, sizeof(check->fact), "%u subordinate ids; one id is enough for most policies",
                   ids.count);
}

/* Since Linux 6.16 a pattern may name a socket: the kernel connects there for each crash, inside too, and
 * asks for no limit first. */
static void check_crashes(struct checks *checks) {
    struct pin_error err = {0};
    size_t size;
    PIN_FREE char *text = pin_read_file_at(-1, "/proc/sys/kernel/core_pattern", 256, &size, &err);
    struct check *check =
        add(checks, "crashes", text == NULL || text[0] != '@',
            "crashes inside reach that socket whatever resources.core says; sysctl kernel.core_pattern=core, "
            "or a program (\"|…\"), which is not handed any at a limit of 0");
    if (text != NULL)
        text[strcspn(text, "\n")] = '\0';
    (void)snprintf(check->fact, sizeof(check->fact), "core_pattern %.128s",
                   text != NULL ? text : "can't be read");
}

static void check_loop(struct checks *checks) {
    struct pin_error err = {0};
    struct pin_loop *loop = pin_loop_new(PIN_IO_URING, &err);
    struct check *check =
        add(checks, "io_uring", loop != NULL, "nothing is lost: the same loop runs on epoll");
    (void)snprintf(check->fact, sizeof(check->fact), "%s", loop != NULL ? "used" : err.message);
    if (loop != NULL)
        pin_loop_free(loop);
}

static void check_disk(struct checks *checks) {
    const char *lacks = pin_disk_lacks();
    struct check *check = add(checks, "roots on disk", lacks == NULL, lacks != NULL ? lacks : "");
    (void)snprintf(check->fact, sizeof(check->fact), "%s",
                   lacks == NULL ? "by loop devices" : "only a policy with root_storage \"disk\" needs them");
}

/* What most policies do without. */
static bool is_extra(const char *name) {
    static const char *const extras[] = {"io_uring", "id ranges", "roots on disk", "secret-memory",
                                         "crashes"};
    return pin_name_find(extras, PIN_COUNT(extras), name) >= 0;
}

static void print_json(const struct checks *checks, const struct pin_host *host) {
    json_t *list = json_array();
    for (size_t i = 0; i < checks->count; i++) {
        const struct check *check = &checks->list[i];
        json_array_append_new(list, json_pack("{s:s, s:b, s:s, s:s}", "check", check->name, "ok", check->good,
                                              "fact", check->fact, "mend", check->mend));
    }
    json_t *whole = json_pack("{s:b, s:o}", "privileged", host->privileged, "checks", list);
    (void)json_dumpf(whole, stdout, JSON_INDENT(2));
    (void)fputc('\n', stdout);
    json_decref(whole);
}

static int run_doctor(const struct pin_invocation *invocation) {
    const struct doctor_options *values = invocation->values;
    struct checks checks = {0};
    struct pin_host host;
    pin_host_get(&host);
    check_kernel(&checks);
    check_namespaces(&checks);
    check_landlock(&checks, &host);
    check_cgroups(&checks, &host);
    check_ids(&checks, &host);
    check_crashes(&checks);
    check_loop(&checks);
    check_disk(&checks);
    bool enforceable = true;
    for (size_t i = 0; i < checks.count; i++)
        enforceable = enforceable && (checks.list[i].good || is_extra(checks.list[i].name));
    if (values->json) {
        print_json(&checks, &host);
    } else {
        for (size_t i = 0; i < checks.count; i++) {
            const struct check *check = &checks.list[i];
            (void)printf("%-4s %-16s %s\n", check->good ? "ok" : "no", check->name, check->fact);
            if (!check->good)
                (void)printf("     %-16s %s\n", "", check->mend);
        }
    }
    return enforceable ? 0 : 1;
}

const struct pin_verb pin_verb_doctor = {
    .name = "doctor",
    .synopsis = "",
    .summary = "what this host can enforce, and how to get what it can't",
    .description =
        "Exit code 0 when every protection of the default policy can be had, 1 when one is missing.",
    .example = "  pinfold doctor",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct doctor_options),
    .run = run_doctor,
};
