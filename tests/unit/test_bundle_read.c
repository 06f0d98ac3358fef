#include "bundle_fixture.h"

#include <errno.h>

#include "runtime/bundle/bundle_table.h"

static struct pin_findings found;

static struct pin_bundle *parse_bundle(const char *text) {
    memset(&found, 0, sizeof(found));
    return pin_bundle_parse("config.json", text, strlen(text), &found);
}

/* {"ociVersion":"1.2.0",MEMBERS} must be read, and be written as it was. */
static void check_kept(const char *members) {
    char *text = NULL;
    assert_true(asprintf(&text, "{\"ociVersion\":\"1.2.0\",%s}", members) > 0);
    struct pin_bundle *bundle = parse_bundle(text);
    print_findings(&found);
    assert_non_null(bundle);
    char *again = printed(bundle);
    if (strcmp(text, again) != 0)
        fail_msg("read  %s\nwrote %s", text, again);
    free(again);
    free(text);
    pin_bundle_free(bundle);
}

#define PROCESS(members)                                                                                     \
    "\"process\":{\"user\":{\"uid\":0,\"gid\":0}," members "},\"root\":{\"path\":\"rootfs\"}"
#define REST(members) PROCESS("\"cwd\":\"/\"") "," members
#define LINUX(members) REST("\"linux\":{" members "}")
#define RESOURCES(members) LINUX("\"resources\":{" members "}")
#define SECCOMP(members) LINUX("\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ERRNO\"," members "}")
#define EXT(members) REST("\"pinfold\":{" members "}")

static const char *const kept[] = {
    PROCESS("\"cwd\":\"/\""),
    "\"process\":{\"terminal\":true,\"consoleSize\":{\"height\":24,\"width\":80},"
    "\"user\":{\"uid\":1,\"gid\":2,\"umask\":63,\"additionalGids\":[5,6]},\"cwd\":\"/"
    "\"},\"root\":{\"path\":\"r\"}",
    "\"process\":{\"user\":{\"uid\":0,\"gid\":0,\"umask\":0},\"cwd\":\"/"
    "\"},\"root\":{\"path\":\"r\",\"readonly\":true}",
    PROCESS("\"args\":[\"sh\",\"-c\",\"echo \\\"hi\\\"\"],\"env\":[\"A=1\",\"B=\"],\"cwd\":\"/w\""),
    PROCESS("\"cwd\":\"/\",\"capabilities\":{\"bounding\":[\"CAP_CHOWN\",\"CAP_KILL\"],\"effective\":[],"
            "\"inheritable\":[],\"permitted\":[\"CAP_CHOWN\"],\"ambient\":[]}"),
    PROCESS("\"cwd\":\"/\",\"rlimits\":[{\"type\":\"RLIMIT_NOFILE\",\"soft\":0,\"hard\":1024}]"),
    PROCESS("\"cwd\":\"/\",\"rlimits\":[{\"type\":\"RLIMIT_CORE\",\"soft\":9223372036854775808,"
            "\"hard\":18446744073709551615}]"),
    PROCESS("\"cwd\":\"/\",\"noNewPrivileges\":true,\"oomScoreAdj\":-1000"),
    PROCESS("\"cwd\":\"/\",\"oomScoreAdj\":0"), /* 0 is asked for, too */
    PROCESS("\"cwd\":\"/\",\"apparmorProfile\":\"p\",\"selinuxLabel\":\"l\""),
    PROCESS("\"cwd\":\"/\",\"ioPriority\":{\"class\":\"IOPRIO_CLASS_BE\",\"priority\":4}"),
    PROCESS("\"cwd\":\"/\",\"scheduler\":{\"policy\":\"SCHED_DEADLINE\",\"nice\":-5,\"priority\":1,"
            "\"flags\":[\"SCHED_FLAG_RECLAIM\"],\"runtime\":1,\"deadline\":2,\"period\":3}"),
    REST("\"hostname\":\"h\",\"domainname\":\"d\""),
    REST("\"mounts\":[{\"destination\":\"/"
         "a\",\"type\":\"tmpfs\",\"source\":\"tmpfs\",\"options\":[\"size=1k\"],"
         "\"uidMappings\":[{\"containerID\":0,\"hostID\":1,\"size\":2}],"
         "\"gidMappings\":[{\"containerID\":3,\"hostID\":4,\"size\":5}]},{\"destination\":\"/b\"}]"),
    REST("\"hooks\":{\"prestart\":[{\"path\":\"/a\"}],\"createRuntime\":[{\"path\":\"/b\",\"args\":[\"b\"],"
         "\"env\":[\"X=1\"],\"timeout\":5}],\"createContainer\":[{\"path\":\"/c\"}],"
         "\"startContainer\":[{\"path\":\"/d\"}],\"poststart\":[{\"path\":\"/"
         "e\"}],\"poststop\":[{\"path\":\"/f\"}]}"),
    REST("\"annotations\":{\"org.example.a\":\"\",\"b\":\"{}\"}"),
    LINUX("\"uidMappings\":[{\"containerID\":0,\"hostID\":100000,\"size\":65536}],"
          "\"gidMappings\":[{\"containerID\":0,\"hostID\":4294967295,\"size\":1}]"),
    LINUX("\"sysctl\":{\"net.ipv4.ip_forward\":\"1\"},\"cgroupsPath\":\"/a/b\""),
    LINUX("\"namespaces\":[{\"type\":\"user\"},{\"type\":\"network\",\"path\":\"/proc/1/ns/"
          "net\"},{\"type\":\"time\"}]"),
    LINUX("\"devices\":[{\"type\":\"c\",\"path\":\"/dev/fuse\",\"major\":10,\"minor\":229,\"fileMode\":438,"
          "\"uid\":0,\"gid\":0},{\"type\":\"p\",\"path\":\"/dev/p\",\"major\":0,\"minor\":0}]"),
    LINUX(
        "\"rootfsPropagation\":\"slave\",\"maskedPaths\":[\"/proc/kcore\"],\"readonlyPaths\":[\"/proc/sys\"],"
        "\"mountLabel\":\"l\",\"personality\":{\"domain\":\"LINUX32\"},"
        "\"timeOffsets\":{\"monotonic\":{\"secs\":-5,\"nanosecs\":7},\"boottime\":{\"secs\":1,\"nanosecs\":0}"
        "}"),
    RESOURCES("\"devices\":[{\"allow\":false,\"major\":0,\"minor\":0,\"access\":\"rwm\"},"
              "{\"allow\":true,\"type\":\"c\",\"major\":1,\"minor\":-1}]"),
    RESOURCES(
        "\"memory\":{\"limit\":1,\"reservation\":2,\"swap\":-1,\"swappiness\":0,\"disableOOMKiller\":true,"
        "\"useHierarchy\":true,\"checkBeforeUpdate\":false}"),
    RESOURCES("\"cpu\":{\"shares\":1024,\"quota\":-1,\"burst\":0,\"period\":100000,\"realtimeRuntime\":1,"
              "\"realtimePeriod\":2,\"cpus\":\"0-3\",\"mems\":\"0\",\"idle\":0}"),
    RESOURCES("\"pids\":{\"limit\":0}"),
    RESOURCES("\"blockIO\":{\"weight\":10,\"weightDevice\":[{\"major\":8,\"minor\":0,\"weight\":5}],"
              "\"throttleReadBpsDevice\":[{\"major\":8,\"minor\":0,\"rate\":1}],"
              "\"throttleWriteBpsDevice\":[{\"major\":8,\"minor\":0,\"rate\":2}],"
              "\"throttleReadIOPSDevice\":[{\"major\":8,\"minor\":0,\"rate\":3}],"
              "\"throttleWriteIOPSDevice\":[{\"major\":8,\"minor\":0,\"rate\":18446744073709551615}]}"),
    RESOURCES("\"hugepageLimits\":[{\"pageSize\":\"2MB\",\"limit\":9223372036854771712}]"),
    RESOURCES("\"network\":{\"classID\":1048577,\"priorities\":[{\"name\":\"eth0\",\"priority\":0}]}"),
    RESOURCES("\"rdma\":{\"mlx5_1\":{\"hcaHandles\":3,\"hcaObjects\":0},\"b\":{\"hcaObjects\":4}}"),
    RESOURCES("\"unified\":{\"memory.high\":\"1\"}"),
    LINUX("\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ALLOW\"}"),
    SECCOMP("\"defaultErrnoRet\":38,\"architectures\":[\"SCMP_ARCH_X86_64\",\"SCMP_ARCH_AARCH64\"],"
            "\"flags\":[\"SECCOMP_FILTER_FLAG_TSYNC\",\"SECCOMP_FILTER_FLAG_LOG\","
            "\"SECCOMP_FILTER_FLAG_SPEC_ALLOW\",\"SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV\"],"
            "\"listenerPath\":\"/run/s\",\"listenerMetadata\":\"m\""),
    SECCOMP("\"syscalls\":[{\"names\":[\"read\",\"write\"],\"action\":\"SCMP_ACT_ALLOW\"},"
            "{\"names\":[\"clone\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":1,\"args\":["
            "{\"index\":0,\"value\":2114060288,\"valueTwo\":1,\"op\":\"SCMP_CMP_MASKED_EQ\"},"
            "{\"index\":1,\"value\":18446744073709551615,\"op\":\"SCMP_CMP_NE\"}]}]"),
    EXT("\"policy\":{\"name\":\"tool\",\"digest\":"
        "\"sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"},\"image\":\"host\""),
    EXT("\"workspace\":{\"source\":\"/a\",\"target\":\"/workspace\",\"access\":\"copy-on-write\",\"size\":-1,"
        "\"onExit\":\"merge\"}"),
    EXT("\"landlock\":{}"),
    EXT("\"landlock\":{\"write\":[\"/tmp\"]},\"limits\":{\"wallTimeNs\":1,\"cpuTimeNs\":-1,\"graceNs\":2,"
        "\"stdoutBytes\":3,\"stderrBytes\":4,\"frameBytes\":5,\"onOutputCap\":\"kill\"}"),
    EXT("\"frames\":[\"fd\",\"stdout\",\"stdout-letta\"],\"egress\":[{\"to\":\"*.example.com\",\"ports\":["
        "\"443\","
        "\"8000-8100\"]},{\"to\":\"10.1.2.0/24\",\"ports\":[\"53\"],\"protocol\":\"udp\"}]"),
    EXT("\"secrets\":[\"KEY\"],\"labels\":{\"tenant\":\"a\"},\"rootOverlay\":{\"size\":9,\"storage\":"
        "\"disk\"},"
        "\"layers\":[\"/l\"],\"record\":[\"egress\"],\"ids\":65536,\"optional\":[\"memory\"]"),
};

static void every_field_is_read_and_written_as_it_was(void **state) {
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(kept); i++)
        check_kept(kept[i]);
}

struct refusal {
    const char *members, *pointer, *message;
    enum pin_error_kind kind;
};

/* A macro, as clang-format would pad rows of braces to the width of the widest. */
#define ROW(...)                                                                                             \
    { __VA_ARGS__ }

static const struct refusal refusals[] = {
    ROW(REST("\"hostnam\":\"x\""), "config.json:1:95 /hostnam", "not known", PIN_ERROR_INVALID),
    ROW(REST("\"hostname\":1"), "/hostname", "must be a string, not an integer", PIN_ERROR_INVALID),
    ROW(REST("\"hostname\":18446744073709551615"), "/hostname", "must be a string", PIN_ERROR_INVALID),
    ROW(REST("\"hostname\":\"a\",\"hostname\":\"b\""), "/hostname", "stands twice", PIN_ERROR_INVALID),
    ROW(REST("\"windows\":{}"), "/windows", "not offered", PIN_ERROR_UNSUPPORTED),
    ROW(REST("\"vm\":{}"), "/vm", "not offered", PIN_ERROR_UNSUPPORTED),
    ROW(REST("\"solaris\":{}"), "/solaris", "not offered", PIN_ERROR_UNSUPPORTED),
    ROW(REST("\"zos\":{}"), "/zos", "not offered", PIN_ERROR_UNSUPPORTED),
    ROW(REST("\"freebsd\":{}"), "/freebsd", "not offered", PIN_ERROR_UNSUPPORTED),
    ROW(LINUX("\"intelRdt\":{}"), "/linux/intelRdt", "not offered", PIN_ERROR_UNSUPPORTED),
    ROW(LINUX("\"netDevices\":{}"), "/linux/netDevices", "not offered", PIN_ERROR_UNSUPPORTED),
    ROW(LINUX("\"memoryPolicy\":{}"), "/linux/memoryPolicy", "not offered", PIN_ERROR_UNSUPPORTED),
    ROW(LINUX("\"personality\":{\"domain\":\"LINUX\",\"flags\":[\"X\"]}"), "/flags", "not offered",
        PIN_ERROR_UNSUPPORTED),
    ROW(PROCESS("\"cwd\":\"/\",\"commandLine\":\"x\""), "/commandLine", "not offered", PIN_ERROR_UNSUPPORTED),
    ROW(PROCESS("\"cwd\":\"/\",\"execCPUAffinity\":{}"), "/execCPUAffinity", "not offered",
        PIN_ERROR_UNSUPPORTED),
    ROW(PROCESS("\"args\":[]"), "/process", "'cwd' is missing", PIN_ERROR_INVALID),
    ROW(PROCESS("\"cwd\":\"/\",\"oomScoreAdj\":1001"), "/oomScoreAdj", "must be from -1000 to 1000",
        PIN_ERROR_INVALID),
    ROW(PROCESS("\"cwd\":\"/\",\"args\":[\"a\",1]"), "/process/args/1", "must be a string",
        PIN_ERROR_INVALID),
    ROW(PROCESS("\"cwd\":\"/\",\"args\":{}"), "/process/args", "must be a list", PIN_ERROR_INVALID),
    ROW(PROCESS("\"cwd\":\"/\",\"capabilities\":{\"bounding\":[7]}"), "/bounding/0", "must be a string",
        PIN_ERROR_INVALID),
    ROW(SECCOMP("\"syscalls\":[{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\",\"errnoRet\":1}]"),
        "/syscalls/0", "gives no errno", PIN_ERROR_INVALID),
    ROW(SECCOMP("\"syscalls\":[{\"names\":[],\"action\":\"SCMP_ACT_LOG\"}]"), "/syscalls/0",
        "has no call in it", PIN_ERROR_INVALID),
    ROW(LINUX("\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"defaultErrnoRet\":1}"), "config.json",
        "gives no errno", PIN_ERROR_INVALID),
    ROW(RESOURCES("\"memory\":{\"limit\":-2}"), "/memory/limit", "must be from -1", PIN_ERROR_INVALID),
    ROW(PROCESS("\"cwd\":\"/\",\"rlimits\":[{\"type\":\"RLIMIT_CORE\",\"soft\":1}]"), "/rlimits/0",
        "'hard' is missing", PIN_ERROR_INVALID),
    ROW(PROCESS("\"cwd\":\"/\",\"rlimits\":[{\"type\":\"RLIMIT_CORE\",\"soft\":1,\"hard\":-1}]"),
        "/rlimits/0/hard", "must be from 0", PIN_ERROR_INVALID),
    ROW(PROCESS("\"cwd\":\"/\",\"rlimits\":[{\"type\":\"RLIMIT_CORE\",\"soft\":1,\"hard\":1.5}]"),
        "/rlimits/0/hard", "must be an integer", PIN_ERROR_INVALID),
    ROW(RESOURCES("\"memory\":{\"limit\":18446744073709551615}"), "/memory/limit", "must be at most",
        PIN_ERROR_INVALID),
    ROW(RESOURCES("\"memory\":{\"kernel\":5}"), "/memory/kernel", "not offered", PIN_ERROR_UNSUPPORTED),
    ROW(RESOURCES("\"blockIO\":{\"leafWeight\":5}"), "/blockIO/leafWeight", "not offered",
        PIN_ERROR_UNSUPPORTED),
    ROW(RESOURCES("\"pids\":{}"), "/pids", "'limit' is missing", PIN_ERROR_INVALID),
    ROW(RESOURCES("\"devices\":[{\"allow\":true,\"type\":\"cc\"}]"), "/devices/0/type", "one letter",
        PIN_ERROR_INVALID),
    ROW(RESOURCES("\"rdma\":{\"a\":{\"hcaHandle\":1}}"), "/rdma/a/hcaHandle", "not known", PIN_ERROR_INVALID),
    ROW(LINUX("\"namespaces\":[{\"type\":\"net\"}]"), "/namespaces/0", "'net' is no namespace",
        PIN_ERROR_INVALID),
    ROW(LINUX("\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"pid\"}]"), "/namespaces/1", "twice",
        PIN_ERROR_INVALID),
    ROW(LINUX("\"timeOffsets\":{\"realtime\":{}}"), "/timeOffsets/realtime", "clock", PIN_ERROR_INVALID),
    ROW(LINUX("\"timeOffsets\":{\"boottime\":{\"nanosecs\":1000000000}}"), "/nanosecs", "must be from",
        PIN_ERROR_INVALID),
    ROW(SECCOMP("\"architectures\":[\"SCMP_ARCH_Z80\"]"), "/architectures/0", "no architecture",
        PIN_ERROR_INVALID),
    ROW(SECCOMP("\"flags\":[\"X\"]"), "/flags/0", "no flag", PIN_ERROR_INVALID),
    ROW(LINUX("\"seccomp\":{}"), "/seccomp", "'defaultAction' is missing", PIN_ERROR_INVALID),
    ROW(LINUX("\"seccomp\":{\"defaultAction\":\"ALLOW\"}"), "/defaultAction", "no value of",
        PIN_ERROR_INVALID),
    ROW(SECCOMP("\"syscalls\":[{\"names\":[\"a\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":6,"
                "\"value\":0,"
                "\"op\":\"SCMP_CMP_EQ\"}]}]"),
        "/args/0/index", "must be from 0 to 5", PIN_ERROR_INVALID),
    ROW(SECCOMP("\"syscalls\":[{\"names\":[\"a\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":0,"
                "\"value\":0,"
                "\"valueTwo\":1,\"op\":\"SCMP_CMP_EQ\"}]}]"),
        "/syscalls/0", "MASKED_EQ", PIN_ERROR_INVALID),
    ROW(EXT("\"polic\":{}"), "/pinfold/polic", "not known", PIN_ERROR_INVALID),
    ROW(EXT("\"policy\":{\"digest\":\"sha256:00\"}"), "/policy/digest", "no digest", PIN_ERROR_INVALID),
    ROW(EXT("\"egress\":[{\"to\":\"a b\",\"ports\":[\"1\"]}]"), "/egress/0/to", "", PIN_ERROR_INVALID),
    ROW(EXT("\"egress\":[{\"to\":\"a.example\",\"ports\":[\"0\"]}]"), "/egress/0/ports/0", "no port",
        PIN_ERROR_INVALID),
    ROW(EXT("\"workspace\":{\"source\":\"/a\",\"target\":\"/b\",\"access\":\"rw\"}"), "/workspace/access",
        "no value of", PIN_ERROR_INVALID),
    ROW(REST("\"annotations\":{\"io.pinfold.polcy\":\"x\"}"), "io.pinfold.polcy", "not known",
        PIN_ERROR_INVALID),
    ROW(REST("\"annotations\":{\"io.pinfold.policy\":\"../x\"}"), "io.pinfold.policy", "no name",
        PIN_ERROR_INVALID),
    ROW(REST("\"annotations\":{\"io.pinfold.labels\":\"[]\"}"), "/labels", "must be an object",
        PIN_ERROR_INVALID),
    ROW(REST("\"annotations\":{\"io.pinfold.labels\":\"{}}\"}"), "io.pinfold.labels:3:1", "not JSON",
        PIN_ERROR_SYNTAX),
    ROW(REST("\"annotations\":{\"io.pinfold.labels\":\"{}, \\\"image\\\": \\\"x\\\"\"}"), "io.pinfold.labels",
        "more than one", PIN_ERROR_SYNTAX),
    ROW(EXT("\"image\":\"x\"},\"annotations\":{\"io.pinfold.policy\":\"tool\""), "io.pinfold.policy", "block",
        PIN_ERROR_INVALID),
};

static void each_fault_is_named_where_it_stands(void **state) {
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(refusals); i++) {
        const struct refusal *row = &refusals[i];
        char *text = NULL;
        assert_true(asprintf(&text, "{\"ociVersion\":\"1.2.0\",%s}", row->members) > 0);
        struct pin_bundle *bundle = parse_bundle(text);
        const struct pin_error *err = finding_at(&found, row->pointer);
        if (bundle != NULL || found.count != 1 || err == NULL || err->kind != row->kind ||
            strstr(err->message, row->message) == NULL) {
            print_findings(&found);
            fail_msg("%s: expected one finding at %s: %s", text, row->pointer, row->message);
        }
        free(text);
    }
}

static void what_is_no_bundle_is_one_finding(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "{}x",
        "\xef\xbb\xbf{}",
        "{\"ociVersion\":\"2.0.0\"}",
        "{\"ociVersion\":\"1.0.0\"} {}",
        "{\"process\":{}}",
        "{18446744073709551615:1}",
        "{\"ociVersion\":18446744073709551616}",
        "\"\\u0000\"",
        "null",
        "{\"ociVersion\":null}",
    };
    for (size_t i = 0; i < PIN_COUNT(texts); i++) {
        assert_null(parse_bundle(texts[i]));
        assert_true(found.count >= 1);
    }
}

static void an_errno_that_is_not_given_is_eperm(void **state) {
    struct pin_bundle *bundle = parse_bundle("{\"ociVersion\":\"1.2.0\"," LINUX(
        "\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":["
        "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_TRACE\"},"
        "{\"names\":[\"write\"],\"action\":\"SCMP_ACT_KILL\"},"
        "{\"names\":[\"bpf\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":0}]}") "}");
    (void)state;
    assert_int_equal(bundle->seccomp.default_error, EPERM);
    assert_int_equal(bundle->seccomp.rules[0].error, EPERM);
    assert_int_equal(bundle->seccomp.rules[1].action, PIN_FILTER_KILL_THREAD);
    assert_int_equal(bundle->seccomp.rules[1].error, 0);
    assert_int_equal(bundle->seccomp.rules[2].error, 0);
    pin_bundle_free(bundle);
}

/* Left out, it would be EPERM again. */
static void an_errno_of_zero_is_written(void **state) {
    struct pin_error err = {0};
    size_t size;
    struct pin_bundle *bundle = parse_bundle("{\"ociVersion\":\"1.2.0\"," LINUX(
        "\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":["
        "{\"names\":[\"bpf\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":0}]}") "}");
    char *text = pin_bundle_print(bundle, false, &size, &err);
    (void)state;
    assert_non_null(text);
    assert_non_null(strstr(text, "\"errnoRet\":0"));
    free(text);
    pin_bundle_free(bundle);
}

static void capabilities_that_are_not_known_are_kept_apart(void **state) {
    struct pin_bundle *bundle = parse_bundle("{\"ociVersion\":\"1.2.0\"," PROCESS(
        "\"cwd\":\"/\",\"capabilities\":{\"bounding\":[\"CAP_NEXT\",\"CAP_KILL\"],"
        "\"effective\":[\"CAP_OTHER\"]}") "}");
    (void)state;
    assert_int_equal(bundle->process.capabilities[PIN_CAP_BOUNDING], UINT64_C(1) << 5);
    assert_int_equal(bundle->process.unknown_capability_count, 2);
    assert_string_equal(bundle->process.unknown_capabilities[0], "CAP_NEXT");
    assert_string_equal(bundle->process.unknown_capabilities[1], "CAP_OTHER");
    pin_bundle_free(bundle);
}

static void null_is_an_absent_field(void **state) {
    (void)state;
    struct pin_bundle *bundle =
        parse_bundle("{\"ociVersion\":\"1.0.2\",\"hostname\":null,\"mounts\":null,"
                     "\"process\":{\"cwd\":\"/\",\"oomScoreAdj\":null},\"windows\":null}");
    print_findings(&found);
    assert_non_null(bundle);
    assert_null(bundle->hostname);
    assert_false(bundle->process.has_oom_score_adj);
    pin_bundle_free(bundle);
}

static void what_asks_for_nothing_may_stand(void **state) {
    (void)state;
    struct pin_bundle *bundle = parse_bundle(
        "{\"ociVersion\":\"1.0.2\",\"linux\":{\"resources\":{\"memory\":{\"kernel\":-1,\"kernelTCP\":0},"
        "\"blockIO\":{\"leafWeight\":0}},\"personality\":{\"domain\":\"LINUX\",\"flags\":[]}}}");
    print_findings(&found);
    assert_non_null(bundle);
    pin_bundle_free(bundle);
}

/* A value of a type that no row takes, at the place of each row of each table. */
static size_t wrong_types(const struct pin_bundle_table *table, const char *before, const char *after) {
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct pin_bundle_row *row = &table->rows[i];
        char open[1024], close[256], text[2048];
        (void)snprintf(text, sizeof(text), "%s{\"%s\":0.5}%s", before, row->key, after);
        struct pin_bundle *bundle = parse_bundle(text);
        assert_null(bundle);
        const struct pin_error *err = NULL;
        for (size_t j = 0; j < found.count && err == NULL; j++)
            if (strstr(found.list[j].pointer, row->key) != NULL)
                err = &found.list[j];
        if (err == NULL)
            fail_msg("%s: a wrong type is no finding", text);
        count++;
        if (row->type != PIN_ROW_OBJECT && row->type != PIN_ROW_LIST)
            continue;
        bool list = row->type == PIN_ROW_LIST;
        (void)snprintf(open, sizeof(open), "%s{\"%s\":%s", before, row->key, list ? "[" : "");
        (void)snprintf(close, sizeof(close), "%s}%s", list ? "]" : "", after);
        count += wrong_types(row->table, open, close);
    }
    return count;
}

static void every_field_refuses_a_wrong_type(void **state) {
    (void)state;
    assert_in_range(wrong_types(&pin_bundle_fields, "", ""), 150, 400);
}

static void annotations_ask_as_the_block_does(void **state) {
    (void)state;
    struct pin_bundle *bundle = parse_bundle(
        "{\"ociVersion\":\"1.2.0\",\"annotations\":{\"io.pinfold.policy\":\"web-tools\","
        "\"io.pinfold.egress\":\"[{\\\"to\\\":\\\"api.example.com\\\",\\\"ports\\\":[\\\"443\\\"]}]\","
        "\"io.pinfold.secrets\":\"[\\\"KEY\\\"]\",\"io.pinfold.labels\":\"{\\\"tenant\\\":\\\"a\\\"}\"}}");
    print_findings(&found);
    assert_non_null(bundle);
    assert_string_equal(bundle->ext.policy_name, "web-tools");
    assert_string_equal(bundle->ext.egress[0].host, "api.example.com");
    assert_int_equal(bundle->ext.egress[0].ports[0].first, 443);
    assert_string_equal(bundle->ext.secrets[0], "KEY");
    assert_string_equal(bundle->ext.labels[0].value, "a");
    pin_bundle_free(bundle);
}

static void numbers_that_fit_no_int64_keep_their_value_and_their_place(void **state) {
    (void)state;
    struct pin_bundle *bundle = parse_bundle(
        "{\"ociVersion\":\"1.2.0\",\"process\":{\"cwd\":\"18446744073709551615\",\"rlimits\":[\n"
        "{\"type\":\"RLIMIT_CORE\",\"soft\":18446744073709551614,\"hard\":18446744073709551615}]}}");
    print_findings(&found);
    assert_non_null(bundle);
    assert_true(bundle->process.rlimits[0].soft == UINT64_MAX - 1);
    assert_true(bundle->process.rlimits[0].hard == UINT64_MAX);
    assert_string_equal(bundle->process.cwd, "18446744073709551615");
    pin_bundle_free(bundle);
    assert_null(parse_bundle(
        "{\"ociVersion\":\"1.2.0\",\n \"root\":{\"path\":\"r\", \"readonly\": 18446744073709551615}}"));
    assert_non_null(finding_at(&found, "config.json:2:34 /root/readonly"));
}

static void texts_and_lists_are_bounded(void **state) {
    (void)state;
    size_t size = 300 * 1024;
    char *text = malloc(size);
    char *at = stpcpy(text, "{\"ociVersion\":\"1.2.0\",\"hostname\":\"");
    memset(at, 'a', PIN_BUNDLE_TEXT_MAX);
    (void)strcpy(at + PIN_BUNDLE_TEXT_MAX, "\"}");
    assert_null(parse_bundle(text));
    assert_non_null(finding_at(&found, "/hostname"));
    at = stpcpy(text, "{\"ociVersion\":\"1.2.0\",\"process\":{\"cwd\":\"/\",\"env\":[\"\"");
    for (size_t i = 0; i < PIN_BUNDLE_LIST_MAX; i++)
        at = stpcpy(at, ",\"\"");
    (void)strcpy(at, "]}}");
    assert_null(parse_bundle(text));
    assert_non_null(finding_at(&found, "/process/env"));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_read_and_written_as_it_was),
        cmocka_unit_test(each_fault_is_named_where_it_stands),
        cmocka_unit_test(what_is_no_bundle_is_one_finding),
        cmocka_unit_test(an_errno_that_is_not_given_is_eperm),
        cmocka_unit_test(an_errno_of_zero_is_written),
        cmocka_unit_test(capabilities_that_are_not_known_are_kept_apart),
        cmocka_unit_test(null_is_an_absent_field),
        cmocka_unit_test(what_asks_for_nothing_may_stand),
        cmocka_unit_test(every_field_refuses_a_wrong_type),
        cmocka_unit_test(annotations_ask_as_the_block_does),
        cmocka_unit_test(numbers_that_fit_no_int64_keep_their_value_and_their_place),
        cmocka_unit_test(texts_and_lists_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
