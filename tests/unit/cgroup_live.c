#include "tests/unit/cgroup_live.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"

struct pin_cgroup_facts facts;

const struct pin_cgroup_limits no_limits = {
    .memory_bytes = PIN_UNLIMITED, .swap_bytes = PIN_UNLIMITED, .pids = PIN_UNLIMITED};

const struct pin_cgroup_limits usual = {
    .memory_bytes = 32 * PIN_MIB, .swap_bytes = 0, .pids = 20, .millicpus = 500};

int gather(void **state) {
    (void)state;
    struct pin_error err = {0};
    char group[32];
    (void)snprintf(group, sizeof(group), "pinfold-test-%d", (int)getpid());
    if (!pin_cgroup_facts_get(group, &facts, &err))
        return -1;
    pin_cgroup_prepare(&facts, getenv("PINFOLD_SCOPE_PROGRAM"));
    print_message("cgroups: %s, %s, lacking %#x%s%s\n", pin_cgroup_kind_name(facts.kind),
                  facts.privileged ? "root" : "user", pin_cgroup_facts_lack(&facts, NULL),
                  facts.why[0] != '\0' ? ": " : "", facts.why);
    return 0;
}

void need(uint32_t protections) {
    if ((pin_cgroup_facts_lack(&facts, NULL) & protections) == 0)
        return;
    if (getenv("PINFOLD_CGROUP_MUST") != NULL)
        fail_msg("this host should have cgroups: %s", facts.why);
    print_message("skipped: this host lacks cgroup controllers: %s\n", facts.why);
    skip();
}

struct pin_cgroup *make(uint32_t slot, const struct pin_cgroup_limits *limits) {
    struct pin_error err = {0};
    uint32_t missing = 0;
    struct pin_cgroup *group = pin_cgroup_create(&facts, slot, limits, 0, &missing, &err);
    if (group == NULL)
        fail_msg("%s (%s)", err.message, err.hint);
    assert_int_equal(missing, 0);
    return group;
}

void end(struct pin_cgroup *group) {
    struct pin_error err = {0};
    if (!pin_cgroup_kill(group, &err) || !pin_cgroup_wait_empty(group, PATIENCE_NS, &err) ||
        !pin_cgroup_remove(group, PATIENCE_NS, &err))
        fail_msg("%s", err.message);
    pin_cgroup_free(group);
}

pid_t start(struct pin_cgroup *group, void (*body)(void)) {
    int gate[2];
    assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        (void)close(gate[1]);
        pin_ignore(read(gate[0], &byte, 1));
        body();
        _exit(0);
    }
    struct pin_error err = {0};
    if (!pin_cgroup_attach(group, child, &err))
        fail_msg("%s", err.message);
    (void)close(gate[0]);
    (void)close(gate[1]);
    return child;
}

int wait_for(pid_t child) {
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

void sleep_forever(void) {
    for (;;)
        (void)pause();
}

void spin_a_while(void) {
    struct timespec now;
    do
        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    while (now.tv_sec == 0 && now.tv_nsec < 60000000);
}

const char *path_of(enum pin_cgroup_controller controller, uint32_t slot, const char *file, char path[2048]) {
    const struct pin_cgroup_hierarchy *hierarchy = pin_cgroup_facts_of(&facts, controller);
    if (hierarchy == NULL)
        return NULL;
    (void)snprintf(path, 2048, "%s/%s/%u/%s", hierarchy->base, facts.group, slot, file);
    return path;
}

bool exists(uint32_t slot) {
    char path[2048];
    for (size_t i = 0; i < facts.count; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s/%u", facts.hierarchies[i].base, facts.group, slot);
        if (facts.hierarchies[i].base[0] != '\0' && access(path, F_OK) == 0)
            return true;
    }
    return false;
}
