#include "bundle_fixture.h"

#include <jansson.h>

#include "policy/policy_write.h"
#include "runtime/bundle/bundle_ceiling.h"

/* What a careful engine would write, and the policy below grants. */
static const char base_text[] =
    "{'ociVersion': '1.2.0',"
    " 'process': {'user': {'uid': 1000, 'gid': 1000}, 'args': ['true'], 'env': ['PATH=/bin'], 'cwd': '/',"
    "             'noNewPrivileges': true, 'rlimits': [{'type': 'RLIMIT_NOFILE', 'soft': 10, 'hard': 20}]},"
    " 'root': {'path': 'rootfs', 'readonly': true},"
    " 'mounts': [{'destination': '/proc', 'type': 'proc', 'source': 'proc'},"
    "            {'destination': '/dev', 'type': 'tmpfs', 'source': 'tmpfs', 'options': ['size=65536k']},"
    "            {'destination': '/models', 'type': 'bind', 'source': '/srv/models', 'options': ['rbind', "
    "'ro']}],"
    " 'linux': {'namespaces': [{'type': 'user'}, {'type': 'mount'}, {'type': 'pid'}, {'type': 'network'},"
    "                          {'type': 'ipc'}, {'type': 'uts'}, {'type': 'cgroup'}],"
    "           'resources': {'memory': {'limit': 1048576}},"
    "           'maskedPaths': ['/proc/kcore', '/proc/keys', '/proc/timer_list', '/proc/sched_debug'],"
    "           'readonlyPaths': ['/proc/sys', '/proc/sysrq-trigger', '/proc/irq', '/proc/bus']}}";

static const char policy_body[] = "\"name\": \"site\", \"filesystem\": {\"mounts\": [{\"source\": "
                                  "\"/srv/models\", \"target\": \"/models\", "
                                  "\"access\": \"read-only\"}]}, \"capabilities\": [\"CAP_CHOWN\"], "
                                  "\"environment\": {\"refuse\": [\"LD_*\"]}";

static json_t *load(const char *text) {
    char *json = strdup(text);
    for (char *c = json; *c != '\0'; c++)
        if (*c == '\'')
            *c = '"';
    json_error_t err;
    json_t *value = json_loads(json, JSON_DECODE_ANY, &err);
    if (value == NULL)
        fail_msg("%s: %s", text, err.text);
    free(json);
    return value;
}

/* Sets the member at "/a/b/0" ("-" appends to a list); an empty value takes it away. */
static void set(json_t *document, const char *path, const char *value) {
    char parts[128], *rest = parts;
    (void)snprintf(parts, sizeof(parts), "%s", path + 1);
    json_t *at = document;
    char *last = strsep(&rest, "/");
    for (char *next = strsep(&rest, "/"); next != NULL; last = next, next = strsep(&rest, "/")) {
        json_t *child =
            json_is_array(at) ? json_array_get(at, (size_t)atoi(last)) : json_object_get(at, last);
        if (child == NULL) {
            child = json_object();
            assert_int_equal(json_object_set_new(at, last, child), 0);
        }
        at = child;
    }
    if (value[0] == '\0')
        assert_int_equal(
            json_is_array(at) ? json_array_remove(at, (size_t)atoi(last)) : json_object_del(at, last), 0);
    else if (json_is_array(at))
        assert_int_equal(json_array_append_new(at, load(value)), 0);
    else
        assert_int_equal(json_object_set_new(at, last, load(value)), 0);
}

static struct pin_findings found;

static struct pin_bundle *bundle_with(const char *path, const char *value) {
    json_t *document = load(base_text);
    if (path != NULL)
        set(document, path, value);
    char *text = json_dumps(document, 0);
    memset(&found, 0, sizeof(found));
    struct pin_bundle *bundle = pin_bundle_parse("config.json", text, strlen(text), &found);
    print_findings(&found);
    assert_non_null(bundle);
    bundle->directory = "/srv/bundle";
    free(text);
    json_decref(document);
    return bundle;
}

struct row {
    const char *path, *value, *pointer, *message; /* pointer NULL: granted */
};

/* A macro, as clang-format would pad rows of braces to the width of the widest. */
#define ROW(...)                                                                                             \
    { __VA_ARGS__ }

static const struct row rows[] = {
    ROW(NULL, NULL, NULL, NULL),
    /* the wall */
    ROW("/linux/namespaces/0", "", "/linux/namespaces", "no user namespace"),
    ROW("/linux/namespaces/1", "", "/linux/namespaces", "shares the host's mount namespace"),
    ROW("/linux/namespaces/2", "", "/linux/namespaces", "shares the host's pid namespace"),
    ROW("/linux/namespaces/3", "", "/linux/namespaces", "shares the host's network namespace"),
    ROW("/linux/namespaces/4", "", "/linux/namespaces", "shares the host's ipc namespace"),
    ROW("/linux/namespaces/5", "", "/linux/namespaces", "shares the host's uts namespace"),
    ROW("/linux/namespaces/6", "", "/linux/namespaces", "shares the host's cgroup namespace"),
    ROW("/linux/namespaces/-", "{'type': 'time', 'path': '/proc/1/ns/time'}", "/linux/namespaces",
        "joins the time"),
    ROW("/linux/namespaces/-", "{'type': 'time'}", NULL, NULL),
    ROW("/linux/uidMappings", "[{'containerID': 0, 'hostID': 0, 'size': 1}]", "/linux/uidMappings",
        "chooses the host"),
    ROW("/linux/gidMappings", "[{'containerID': 0, 'hostID': 5000, 'size': 1}]", "/linux/uidMappings",
        "chooses the"),
    ROW("/process/noNewPrivileges", "false", "/process/noNewPrivileges", "gain privileges"),
    ROW("/process/noNewPrivileges", "", "/process/noNewPrivileges", "gain privileges"),
    ROW("/process/oomScoreAdj", "-1", "/process/oomScoreAdj", "killed in its place"),
    ROW("/process/oomScoreAdj", "500", NULL, NULL),
    ROW("/process/apparmorProfile", "'docker-default'", "/process/apparmorProfile", "not offered"),
    ROW("/process/apparmorProfile", "'unconfined'", NULL, NULL),
    ROW("/process/selinuxLabel", "'a'", "/process/selinuxLabel", "not offered"),
    ROW("/linux/mountLabel", "'a'", "/linux/mountLabel", "not offered"),
    ROW("/process/scheduler", "{'policy': 'SCHED_FIFO', 'priority': 1}", "/process/scheduler",
        "before the host's"),
    ROW("/process/scheduler", "{'policy': 'SCHED_OTHER', 'nice': -1}", "/process/scheduler",
        "before the host's"),
    ROW("/process/scheduler", "{'policy': 'SCHED_BATCH', 'nice': 5}", NULL, NULL),
    ROW("/process/ioPriority", "{'class': 'IOPRIO_CLASS_RT', 'priority': 0}", "/process/ioPriority",
        "served before"),
    ROW("/process/rlimits/-", "{'type': 'RLIMIT_RTPRIO', 'soft': 0, 'hard': 1}", "/process/rlimits",
        "RLIMIT_RTPRIO"),
    ROW("/process/rlimits/-", "{'type': 'RLIMIT_NOFILE', 'soft': 0, 'hard': 1}", "/process/rlimits",
        "stands twice"),
    ROW("/process/rlimits/-", "{'type': 'RLIMIT_NPROC', 'soft': 5, 'hard': 5}", NULL, NULL),
    ROW("/hooks/prestart", "[{'path': '/bin/a'}]", "/hooks", "wants '/bin/a' run on the host"),
    ROW("/hooks/createRuntime", "[{'path': '/bin/b'}]", "/hooks", "wants '/bin/b'"),
    ROW("/hooks/createContainer", "[{'path': '/bin/c'}]", "/hooks", "wants '/bin/c'"),
    ROW("/hooks/startContainer", "[{'path': '/bin/d'}]", "/hooks", "wants '/bin/d'"),
    ROW("/hooks/poststart", "[{'path': '/bin/e'}]", "/hooks", "wants '/bin/e'"),
    ROW("/hooks/poststop", "[{'path': '/bin/f'}]", "/hooks", "wants '/bin/f'"),
    ROW("/linux/devices", "[{'type': 'c', 'path': '/dev/kvm', 'major': 10, 'minor': 232}]", "/linux/devices",
        "/dev/kvm"),
    ROW("/linux/devices", "[{'type': 'c', 'path': '/dev/null', 'major': 1, 'minor': 1}]", "/linux/devices",
        "/dev/null"),
    ROW("/linux/devices", "[{'type': 'c', 'path': '/dev/null', 'major': 1, 'minor': 3}]", NULL, NULL),
    ROW("/linux/resources/devices", "[{'allow': true, 'access': 'rwm'}]", "/linux/resources/devices",
        "rule 0"),
    ROW("/linux/resources/devices", "[{'allow': true, 'type': 'b', 'major': 8, 'minor': 0, 'access': 'r'}]",
        "/linux/resources/devices", "rule 0"),
    ROW("/linux/resources/devices",
        "[{'allow': false, 'access': 'rwm'}, {'allow': true, 'type': 'c', 'major': 1, "
        "'minor': 3, 'access': 'rwm'}, {'allow': true, 'type': 'c', 'major': -1, 'minor': -1, 'access': "
        "'m'}]",
        NULL, NULL),
    ROW("/linux/cgroupsPath", "'/system.slice/a'", "/linux/cgroupsPath", "among the host's cgroups"),
    ROW("/linux/resources/memory/disableOOMKiller", "true", "disableOOMKiller", "hang"),
    ROW("/linux/resources/cpu", "{'realtimeRuntime': 5}", "/linux/resources/cpu", "before the host's"),
    ROW("/linux/resources/unified", "{'memory.high': '1'}", "/linux/resources/unified", "not offered"),
    ROW("/linux/sysctl", "{'kernel.core_pattern': '1'}", "/linux/sysctl", "setting of the host"),
    ROW("/linux/sysctl", "{'net.ipv4.ip_forward\\nkernel.shmmax': '1'}", "/linux/sysctl",
        "setting of the host"),
    ROW("/linux/sysctl", "{'kernel.shm_rmid_forced+kernel.core_pattern': '1'}", "/linux/sysctl",
        "setting of the host"),
    ROW("/linux/sysctl", "{'net.ipv4..x': '1'}", "/linux/sysctl", "setting of the host"),
    ROW("/linux/sysctl", "{'kernel.sem': '1;2'}", "/linux/sysctl", "no list of numbers"),
    ROW("/linux/sysctl", "{'kernel.sem': '1 2 3 4', 'net.ipv4.ping_group_range': '0 0'}", NULL, NULL),
    ROW("/linux/maskedPaths", "[]", "/linux/maskedPaths", "in sight"),
    ROW("/linux/readonlyPaths", "['/proc/sys', '/proc/irq', '/proc/bus']", "/linux/readonlyPaths",
        "sysrq-trigger"),
    ROW("/linux/rootfsPropagation", "'shared'", "/linux/rootfsPropagation", "travel"),
    ROW("/linux/rootfsPropagation", "'rslave'", "/linux/rootfsPropagation", "travel"),
    ROW("/linux/rootfsPropagation", "'rprivate'", NULL, NULL),
    ROW("/linux/personality", "{'domain': 'LINUX32'}", "/linux/personality", "another architecture"),
    ROW("/linux/seccomp",
        "{'defaultAction': 'SCMP_ACT_ALLOW', 'syscalls': [{'names': ['mkdir'], 'action': "
        "'SCMP_ACT_NOTIFY'}]}",
        "/linux/seccomp", "not handed"),
    ROW("/linux/seccomp", "{'defaultAction': 'SCMP_ACT_ALLOW'}", NULL, NULL),
    /* the policy's takes its place */
    ROW("/root/path", "'/'", "/root/path", "not inside the bundle"),
    ROW("/root/path", "'/srv/bundle/rootfs'", "/root/path", "not inside the bundle"),
    ROW("/root/path", "'../rootfs'", "/root/path", "not inside the bundle"),
    ROW("/root/path", "'a/../../b'", "/root/path", "not inside the bundle"),
    ROW("/root/path", "'.'", "/root/path", "not inside the bundle"),
    ROW("/root/path", "''", "/root", "no root directory"),
    ROW("/pinfold/layers", "['/etc']", "/pinfold/layers", "host directories"),
    /* mounts */
    ROW("/mounts/-", "{'destination': '/etc', 'type': 'bind', 'source': '/etc', 'options': ['bind', 'ro']}",
        "/filesystem/mounts/1", "/etc"),
    ROW("/mounts/-",
        "{'destination': '/models/a', 'type': 'bind', 'source': '/srv/models/a', 'options': ['ro']}", NULL,
        NULL),
    ROW("/mounts/-", "{'destination': '/models', 'source': '/srv/models', 'options': ['rbind', 'rw']}",
        "/filesystem/mounts/1", "/srv/models"),
    ROW("/mounts/-", "{'destination': '/models', 'source': '/srv/models', 'options': ['rbind', 'ro', 'rw']}",
        "/filesystem/mounts/1", "/srv/models"),
    ROW("/mounts/-", "{'destination': '/models/x', 'source': '/srv/models/../secret', 'options': ['ro']}",
        "/mounts/3", "can't be bound"),
    ROW("/mounts/-", "{'destination': '/x', 'source': 'data', 'options': ['rbind', 'ro']}",
        "/filesystem/mounts/1", "/srv/bundle/data"),
    ROW("/mounts/-", "{'destination': '/usr', 'type': 'bind', 'source': '/usr', 'options': ['rbind', 'rro']}",
        NULL, NULL),
    ROW("/mounts/-", "{'destination': '/usr', 'type': 'bind', 'source': '/usr', 'options': ['rbind']}",
        "/filesystem/mounts/1", "/usr"),
    ROW("/mounts/-", "{'destination': '/', 'type': 'tmpfs', 'source': 'tmpfs', 'options': ['size=1m']}",
        "/mounts/3", "can't mount at '/'"),
    ROW("/mounts/-", "{'destination': '/a/../b', 'type': 'tmpfs', 'source': 'x', 'options': ['size=1m']}",
        "/mounts/3", "can't mount at"),
    ROW("/mounts/-", "{'destination': '/proc/sys', 'type': 'tmpfs', 'source': 'x', 'options': ['size=1m']}",
        "/mounts/3", "cover a part"),
    ROW("/mounts/-", "{'destination': '/dev/shm', 'type': 'tmpfs', 'source': 'x', 'options': ['size=1m']}",
        NULL, NULL),
    ROW("/mounts/-", "{'destination': '/x', 'type': 'tmpfs', 'source': 'x'}", "/filesystem/tmp", "unlimited"),
    ROW("/mounts/-", "{'destination': '/x', 'type': 'tmpfs', 'source': 'x', 'options': ['size=1g']}",
        "/filesystem/tmp", "1GiB"),
    ROW("/mounts/-", "{'destination': '/x', 'type': 'tmpfs', 'source': 'x', 'options': ['size=50%']}",
        "/filesystem/tmp", "unlimited"),
    ROW("/mounts/-", "{'destination': '/x', 'type': 'tmpfs', 'source': 'x', 'options': ['size=0']}",
        "/filesystem/tmp", "unlimited"),
    ROW("/mounts/-", "{'destination': '/sys', 'type': 'sysfs', 'source': 'sysfs', 'options': ['ro']}",
        "/mounts/3", "of type 'sysfs'"),
    ROW("/mounts/-", "{'destination': '/c', 'type': 'cgroup', 'source': 'cgroup', 'options': ['ro']}",
        "/mounts/3", "of type 'cgroup'"),
    ROW("/mounts/-", "{'destination': '/p', 'type': 'proc', 'source': 'proc'}", "/mounts/3",
        "of the kernel at '/p'"),
    ROW("/mounts/-", "{'destination': '/d', 'type': 'ext4', 'source': '/dev/sda'}", "/mounts/3",
        "of type 'ext4'"),
    ROW("/mounts/-", "{'destination': '/o', 'type': 'overlay', 'source': 'o'}", "/mounts/3",
        "of type 'overlay'"),
    ROW("/mounts/-", "{'destination': '/dev/mqueue', 'type': 'mqueue', 'source': 'mqueue'}", NULL, NULL),
    ROW("/mounts/2/options/-", "'rshared'", "/mounts/2", "option 'rshared'"),
    ROW("/mounts/2/options/-", "'suid'", "/mounts/2", "option 'suid'"),
    ROW("/mounts/2/options/-", "'dev'", "/mounts/2", "option 'dev'"),
    ROW("/mounts/2/uidMappings", "[{'containerID': 0, 'hostID': 0, 'size': 1}]", "/mounts/2",
        "chooses the host ids"),
    /* what a policy has a word for */
    ROW("/linux/resources/memory/limit", "1073741824", "/resources/memory", "1GiB"),
    ROW("/linux/resources/memory/limit", "-1", "/resources/memory", "unlimited"),
    ROW("/linux/resources/memory/limit", "0", NULL, NULL),
    ROW("/linux/resources/memory/swap", "2097152", "/resources/swap", "1MiB"),
    ROW("/linux/resources/memory/swap", "1048576", NULL, NULL),
    ROW("/linux/resources/pids", "{'limit': 65}", "/resources/pids", "65"),
    ROW("/linux/resources/pids", "{'limit': -1}", "/resources/pids", "unlimited"),
    ROW("/linux/resources/cpu", "{'quota': 200000}", "/resources/cpus", "2"),
    ROW("/linux/resources/cpu", "{'quota': 100001, 'period': 100000}", "/resources/cpus", "1.001"),
    ROW("/linux/resources/cpu", "{'quota': -1}", "/resources/cpus", "unlimited"),
    ROW("/linux/resources/cpu", "{'quota': 9223372036854775807, 'period': 1}", "/resources/cpus", ""),
    ROW("/process/rlimits/0/hard", "2000", "/resources/files", "2000"),
    ROW("/process/rlimits/-", "{'type': 'RLIMIT_CORE', 'soft': 0, 'hard': 1}", "/resources/core", "1"),
    ROW("/root/readonly", "false", "/filesystem/root", "overlay"),
    ROW("/process/user/uid", "0", "/identity/user", "0"),
    ROW("/process/user/gid", "5", "/identity/group", "5"),
    ROW("/process/user/additionalGids", "[1000]", NULL, NULL),
    ROW("/process/user/additionalGids", "[27]", "/process/user/additionalGids", "the group 27"),
    ROW("/process/capabilities", "{'bounding': ['CAP_SYS_ADMIN']}", "/capabilities", "CAP_SYS_ADMIN"),
    ROW("/process/capabilities", "{'ambient': ['CAP_KILL']}", "/capabilities", "CAP_KILL"),
    ROW("/process/capabilities", "{'bounding': ['CAP_CHOWN']}", NULL, NULL),
    ROW("/process/env/-", "'LD_PRELOAD=/x.so'", "/process/env/1", "'LD_PRELOAD' ('LD_*')"),
    ROW("/process/env/-", "'novalue'", "/process/env/1", "no variable"),
    ROW("/process/args", "[]", "/process/args", "no command"),
    ROW("/process/cwd", "'x'", "/process/cwd", "not absolute"),
    ROW("/pinfold", "{'limits': {'wallTimeNs': -1}}", "/resources/wall_time", "unlimited"),
    ROW("/pinfold", "{'limits': {'stdoutBytes': 2097152}}", "/resources/stdout", "2MiB"),
    ROW("/pinfold", "{'landlock': {'write': ['/etc']}}", "/filesystem/write/0", "/etc"),
    ROW("/pinfold", "{'landlock': {'write': ['/tmp', '/dev']}}", NULL, NULL),
    ROW("/pinfold",
        "{'workspace': {'source': '/srv/models', 'target': '/models/own', 'access': 'read-only'}}", NULL,
        NULL),
    ROW("/pinfold",
        "{'workspace': {'source': '/srv/models', 'target': '/models/own', 'access': 'read-write'}}",
        "/workspace/source", "chooses '/srv/models'"),
    ROW("/pinfold", "{'workspace': {'source': '/root', 'target': '/models', 'access': 'copy-on-write'}}",
        "/workspace/source", "chooses '/root'"),
    ROW("/pinfold", "{'workspace': {'source': '/srv/models', 'target': '/workspace', 'access': 'read-only'}}",
        "/workspace/source", "chooses '/srv/models'"),
    ROW("/pinfold", "{'workspace': {'source': '/w/..', 'target': '/w', 'access': 'read-only'}}",
        "/workspace/source", ""),
    ROW("/pinfold", "{'ids': 65536}", "/identity/ids", "65536"),
    ROW("/pinfold", "{'optional': ['memory']}", "/optional", "memory"),
    ROW("/pinfold", "{'secrets': []}", NULL, NULL),
};

static void a_bundle_is_granted_or_refused_by_name(void **state) {
    (void)state;
    struct pin_policy *policy = body(policy_body);
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        const struct pin_request nothing = {0};
        struct pin_bundle *bundle = bundle_with(row->path, row->value);
        bool admitted = pin_bundle_admit(bundle, policy, &nothing, &found);
        const struct pin_error *err = row->pointer != NULL ? finding_at(&found, row->pointer) : NULL;
        bool right = row->pointer == NULL
                         ? admitted && found.count == 0
                         : !admitted && err != NULL && strstr(err->message, row->message) != NULL;
        if (!right) {
            print_findings(&found);
            fail_msg("row %zu: %s = %s: expected %s", i, row->path, row->value,
                     row->pointer != NULL ? row->message : "a grant");
        }
        for (size_t j = 0; j < found.count; j++) /* one fault, and nothing else is complained about */
            if (strcmp(found.list[j].pointer, err->pointer) != 0)
                fail_msg("row %zu: also %s: %s", i, found.list[j].pointer, found.list[j].message);
        pin_bundle_free(bundle);
    }
    pin_policy_free(policy);
}

static void what_is_left_open_gets_the_policys_value(void **state) {
    (void)state;
    struct pin_policy *policy = body(policy_body);
    struct pin_bundle *bundle = bundle_with(NULL, NULL);
    const struct pin_request nothing = {0};
    assert_true(pin_bundle_admit(bundle, policy, &nothing, &found));
    assert_int_equal(bundle->resources.memory, 1048576); /* the bundle's own, which is less */
    assert_int_equal(bundle->resources.swap, 1048576);
    assert_int_equal(bundle->resources.pids, 64);
    assert_int_equal(bundle->resources.cpu_quota, 100000);
    assert_true(bundle->seccomp.present && bundle->seccomp.default_action != PIN_FILTER_ALLOW);
    assert_true(bundle->ext.landlock.enabled);
    assert_true(bundle->namespaces[PIN_NS_TIME].present);
    assert_true(bundle->process.has_capabilities);
    assert_int_equal(bundle->process.capabilities[PIN_CAP_BOUNDING], 0);
    assert_true(has_text(bundle->masked_paths, bundle->masked_path_count, "/proc/kmsg"));
    assert_int_equal(bundle->ext.wall_time_ns, 30000000000);
    assert_string_equal(bundle->ext.policy_name, "site");
    assert_int_equal(bundle->ext.frames, PIN_FRAMES_STDOUT | PIN_FRAMES_STDOUT_LETTA);
    const struct pin_bundle_mount *models = mount_at(bundle, "/models");
    assert_true(has_text(models->options, models->option_count, "rnosuid"));
    assert_true(has_text(models->options, models->option_count, "rnodev"));
    bool core = false;
    for (size_t i = 0; i < bundle->process.rlimit_count; i++)
        core = core || strcmp(bundle->process.rlimits[i].type, "RLIMIT_CORE") == 0;
    assert_true(core);
    pin_bundle_free(bundle);
    pin_policy_free(policy);
}

static void a_request_has_its_say_below_the_ceiling(void **state) {
    (void)state;
    static const char *const args[] = {"sh", "-c", "id"};
    static const struct pin_pair env[] = {
        {"PATH", "/usr/bin"},
        {"NEW",  "1"       }
    };
    static const struct pin_pair labels[] = {
        {"tenant", "blue"}
    };
    struct pin_request request = {.args = args,
                                  .arg_count = 3,
                                  .env = env,
                                  .env_count = 2,
                                  .labels = labels,
                                  .label_count = 1,
                                  .cwd = "/tmp",
                                  .has_pids = true,
                                  .pids = 5};
    request.workspace.source = "/srv/project";
    request.workspace.access = PIN_ACCESS_READ;
    struct pin_policy *policy = body(policy_body);
    struct pin_bundle *bundle = bundle_with(NULL, NULL);
    bool admitted = pin_bundle_admit(bundle, policy, &request, &found);
    print_findings(&found);
    assert_true(admitted);
    assert_string_equal(bundle->process.args[2], "id");
    assert_string_equal(bundle->process.env[0], "PATH=/usr/bin");
    assert_string_equal(bundle->process.env[1], "NEW=1");
    assert_string_equal(bundle->process.cwd, "/tmp");
    assert_int_equal(bundle->resources.pids, 5);
    assert_string_equal(bundle->ext.labels[0].key, "tenant");
    const struct pin_bundle_mount *workspace = mount_at(bundle, "/workspace");
    assert_true(has_text(workspace->options, workspace->option_count, "rro"));
    pin_bundle_free(bundle);
    pin_policy_free(policy);
}

/* What the request grants less of is the ceiling of the bundle. */
static void a_bundle_beyond_the_request_is_refused(void **state) {
    (void)state;
    const struct pin_request request = {.has_memory = true, .memory_bytes = 1000};
    struct pin_policy *policy = body(policy_body);
    struct pin_bundle *bundle = bundle_with(NULL, NULL);
    assert_false(pin_bundle_admit(bundle, policy, &request, &found));
    assert_non_null(finding_at(&found, "/resources/memory"));
    pin_bundle_free(bundle);
    pin_policy_free(policy);
}

/* The auditor lets go of the bundle and keeps the policy. */
static void what_a_bundle_asks_for_outlives_it(void **state) {
    (void)state;
    struct pin_policy *policy = body(policy_body);
    struct pin_bundle *bundle = bundle_with(
        "/pinfold", "{'egress': [{'to': 'a.example.com', 'ports': ['443'], 'budget': 'b'}],"
                    " 'egressBudgets': [{'name': 'b', 'connections': 5}], 'secrets': ['KEY:file'],"
                    " 'publish': ['80=127.0.0.1:0']}");
    struct pin_policy *asked = pin_bundle_as_policy(bundle, policy, NULL);
    PIN_BUFFER struct pin_buffer before = {0}, after = {0};
    pin_policy_write_canonical(asked, &before);
    pin_bundle_free(bundle);
    pin_policy_free(policy);
    pin_policy_write_canonical(asked, &after);
    assert_string_equal(before.data, after.data);
    assert_non_null(strstr(after.data, "a.example.com"));
    assert_ptr_equal(asked->network.egress[0].budget, &asked->network.budgets[0]);
    pin_policy_free(asked);
}

static void everything_that_is_refused_is_named_at_once(void **state) {
    (void)state;
    static const char text[] = "{\"ociVersion\":\"1.0.0\",\"process\":{\"cwd\":\"/\",\"args\":[\"a\"]},"
                               "\"root\":{\"path\":\"/\"},\"hooks\":{\"prestart\":[{\"path\":\"/x\"}]}}";
    const struct pin_request nothing = {0};
    struct pin_policy *policy = body(policy_body);
    memset(&found, 0, sizeof(found));
    struct pin_bundle *bundle = pin_bundle_parse("config.json", text, strlen(text), &found);
    assert_non_null(bundle);
    assert_false(pin_bundle_admit(bundle, policy, &nothing, &found));
    assert_int_equal(found.count,
                     7 + 1 + 1 + 1 + 1 + 2); /* namespaces, root, writable, hook, privileges, ids */
    pin_bundle_free(bundle);
    pin_policy_free(policy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bundle_is_granted_or_refused_by_name),
        cmocka_unit_test(what_is_left_open_gets_the_policys_value),
        cmocka_unit_test(a_request_has_its_say_below_the_ceiling),
        cmocka_unit_test(a_bundle_beyond_the_request_is_refused),
        cmocka_unit_test(what_a_bundle_asks_for_outlives_it),
        cmocka_unit_test(everything_that_is_refused_is_named_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
