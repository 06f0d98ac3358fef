#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "tools/pinfold-oci/ceiling.h"
#include "tools/pinfold-oci/cli.h"
#include "tools/pinfold-oci/log.h"

/* What engines' own templates begin with: a shell on a terminal, with few capabilities and a read-only root.
 */
static const char template[] =
    "{\n"
    "\t\"ociVersion\": \"1.2.0\",\n"
    "\t\"process\": {\n"
    "\t\t\"terminal\": true,\n"
    "\t\t\"user\": {\n"
    "\t\t\t\"uid\": 0,\n"
    "\t\t\t\"gid\": 0\n"
    "\t\t},\n"
    "\t\t\"args\": [\n"
    "\t\t\t\"sh\"\n"
    "\t\t],\n"
    "\t\t\"env\": [\n"
    "\t\t\t\"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\",\n"
    "\t\t\t\"TERM=xterm\"\n"
    "\t\t],\n"
    "\t\t\"cwd\": \"/\",\n"
    "\t\t\"capabilities\": {\n"
    "\t\t\t\"bounding\": [\n"
    "\t\t\t\t\"CAP_AUDIT_WRITE\",\n"
    "\t\t\t\t\"CAP_KILL\",\n"
    "\t\t\t\t\"CAP_NET_BIND_SERVICE\"\n"
    "\t\t\t],\n"
    "\t\t\t\"effective\": [\n"
    "\t\t\t\t\"CAP_AUDIT_WRITE\",\n"
    "\t\t\t\t\"CAP_KILL\",\n"
    "\t\t\t\t\"CAP_NET_BIND_SERVICE\"\n"
    "\t\t\t],\n"
    "\t\t\t\"permitted\": [\n"
    "\t\t\t\t\"CAP_AUDIT_WRITE\",\n"
    "\t\t\t\t\"CAP_KILL\",\n"
    "\t\t\t\t\"CAP_NET_BIND_SERVICE\"\n"
    "\t\t\t]\n"
    "\t\t},\n"
    "\t\t\"rlimits\": [\n"
    "\t\t\t{\n"
    "\t\t\t\t\"type\": \"RLIMIT_NOFILE\",\n"
    "\t\t\t\t\"hard\": 1024,\n"
    "\t\t\t\t\"soft\": 1024\n"
    "\t\t\t}\n"
    "\t\t],\n"
    "\t\t\"noNewPrivileges\": true\n"
    "\t},\n"
    "\t\"root\": {\n"
    "\t\t\"path\": \"rootfs\",\n"
    "\t\t\"readonly\": true\n"
    "\t},\n"
    "\t\"hostname\": \"pinfold\",\n"
    "\t\"mounts\": [\n"
    "\t\t{\n"
    "\t\t\t\"destination\": \"/proc\",\n"
    "\t\t\t\"type\": \"proc\",\n"
    "\t\t\t\"source\": \"proc\"\n"
    "\t\t},\n"
    "\t\t{\n"
    "\t\t\t\"destination\": \"/dev\",\n"
    "\t\t\t\"type\": \"tmpfs\",\n"
    "\t\t\t\"source\": \"tmpfs\",\n"
    "\t\t\t\"options\": [\n"
    "\t\t\t\t\"nosuid\",\n"
    "\t\t\t\t\"strictatime\",\n"
    "\t\t\t\t\"mode=755\",\n"
    "\t\t\t\t\"size=65536k\"\n"
    "\t\t\t]\n"
    "\t\t},\n"
    "\t\t{\n"
    "\t\t\t\"destination\": \"/dev/pts\",\n"
    "\t\t\t\"type\": \"devpts\",\n"
    "\t\t\t\"source\": \"devpts\",\n"
    "\t\t\t\"options\": [\n"
    "\t\t\t\t\"nosuid\",\n"
    "\t\t\t\t\"noexec\",\n"
    "\t\t\t\t\"newinstance\",\n"
    "\t\t\t\t\"ptmxmode=0666\",\n"
    "\t\t\t\t\"mode=0620\",\n"
    "\t\t\t\t\"gid=5\"\n"
    "\t\t\t]\n"
    "\t\t},\n"
    "\t\t{\n"
    "\t\t\t\"destination\": \"/dev/shm\",\n"
    "\t\t\t\"type\": \"tmpfs\",\n"
    "\t\t\t\"source\": \"shm\",\n"
    "\t\t\t\"options\": [\n"
    "\t\t\t\t\"nosuid\",\n"
    "\t\t\t\t\"noexec\",\n"
    "\t\t\t\t\"nodev\",\n"
    "\t\t\t\t\"mode=1777\",\n"
    "\t\t\t\t\"size=65536k\"\n"
    "\t\t\t]\n"
    "\t\t},\n"
    "\t\t{\n"
    "\t\t\t\"destination\": \"/dev/mqueue\",\n"
    "\t\t\t\"type\": \"mqueue\",\n"
    "\t\t\t\"source\": \"mqueue\",\n"
    "\t\t\t\"options\": [\n"
    "\t\t\t\t\"nosuid\",\n"
    "\t\t\t\t\"noexec\",\n"
    "\t\t\t\t\"nodev\"\n"
    "\t\t\t]\n"
    "\t\t},\n"
    "\t\t{\n"
    "\t\t\t\"destination\": \"/sys\",\n"
    "\t\t\t\"type\": \"sysfs\",\n"
    "\t\t\t\"source\": \"sysfs\",\n"
    "\t\t\t\"options\": [\n"
    "\t\t\t\t\"nosuid\",\n"
    "\t\t\t\t\"noexec\",\n"
    "\t\t\t\t\"nodev\",\n"
    "\t\t\t\t\"ro\"\n"
    "\t\t\t]\n"
    "\t\t},\n"
    "\t\t{\n"
    "\t\t\t\"destination\": \"/sys/fs/cgroup\",\n"
    "\t\t\t\"type\": \"cgroup\",\n"
    "\t\t\t\"source\": \"cgroup\",\n"
    "\t\t\t\"options\": [\n"
    "\t\t\t\t\"nosuid\",\n"
    "\t\t\t\t\"noexec\",\n"
    "\t\t\t\t\"nodev\",\n"
    "\t\t\t\t\"relatime\",\n"
    "\t\t\t\t\"ro\"\n"
    "\t\t\t]\n"
    "\t\t}\n"
    "\t],\n"
    "\t\"linux\": {\n"
    "\t\t\"resources\": {\n"
    "\t\t\t\"devices\": [\n"
    "\t\t\t\t{\n"
    "\t\t\t\t\t\"allow\": false,\n"
    "\t\t\t\t\t\"access\": \"rwm\"\n"
    "\t\t\t\t}\n"
    "\t\t\t]\n"
    "\t\t},\n"
    "\t\t\"namespaces\": [\n"
    "\t\t\t{\n"
    "\t\t\t\t\"type\": \"pid\"\n"
    "\t\t\t},\n"
    "\t\t\t{\n"
    "\t\t\t\t\"type\": \"network\"\n"
    "\t\t\t},\n"
    "\t\t\t{\n"
    "\t\t\t\t\"type\": \"ipc\"\n"
    "\t\t\t},\n"
    "\t\t\t{\n"
    "\t\t\t\t\"type\": \"uts\"\n"
    "\t\t\t},\n"
    "\t\t\t{\n"
    "\t\t\t\t\"type\": \"mount\"\n"
    "\t\t\t}\n"
    "\t\t],\n"
    "\t\t\"maskedPaths\": [\n"
    "\t\t\t\"/proc/acpi\",\n"
    "\t\t\t\"/proc/asound\",\n"
    "\t\t\t\"/proc/kcore\",\n"
    "\t\t\t\"/proc/keys\",\n"
    "\t\t\t\"/proc/latency_stats\",\n"
    "\t\t\t\"/proc/timer_list\",\n"
    "\t\t\t\"/proc/timer_stats\",\n"
    "\t\t\t\"/proc/sched_debug\",\n"
    "\t\t\t\"/sys/firmware\",\n"
    "\t\t\t\"/proc/scsi\"\n"
    "\t\t],\n"
    "\t\t\"readonlyPaths\": [\n"
    "\t\t\t\"/proc/bus\",\n"
    "\t\t\t\"/proc/fs\",\n"
    "\t\t\t\"/proc/irq\",\n"
    "\t\t\t\"/proc/sys\",\n"
    "\t\t\t\"/proc/sysrq-trigger\"\n"
    "\t\t]\n"
    "\t}\n"
    "}\n";

int pin_oci_spec(const struct pin_oci_options *options, char **arguments, size_t count) {
    struct pin_error err = {0};
    (void)arguments;
    (void)count;
    PIN_CLOSE int folder =
        open(options->bundle != NULL ? options->bundle : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    PIN_CLOSE int file =
        folder < 0 ? -1 : openat(folder, "config.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0) {
        (void)pin_fail_errno(&err, "write 'config.json'");
        return pin_oci_fail(options, &err);
    }
    return pin_write_all(file, template, strlen(template), &err) ? 0 : pin_oci_fail(options, &err);
}

static json_t *strings(const char *const *names, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(names[i]));
    return list;
}

/* Under what the containers of this command line would be: "none" is a plain runtime. */
static const char *ceiling_of(const struct pin_oci_options *options) {
    const char *policy = pin_oci_ceiling_source(options);
    return policy != NULL ? policy : "none";
}

int pin_oci_features(const struct pin_oci_options *options, char **arguments, size_t count) {
    static const char *const hooks[] = {"prestart",       "createRuntime", "createContainer",
                                        "startContainer", "poststart",     "poststop"};
    static const char *const mounts[] = {
        "async",       "atime",        "bind",        "defaults",    "dev",       "diratime",  "dirsync",
        "exec",        "idmap",        "lazytime",    "mand",        "noatime",   "nodev",     "nodiratime",
        "noexec",      "nosuid",       "nosymfollow", "private",     "ratime",    "rbind",     "rdev",
        "rdiratime",   "relatime",     "rexec",       "ridmap",      "rnoatime",  "rnodev",    "rnodiratime",
        "rnoexec",     "rnosuid",      "ro",          "rprivate",    "rro",       "rrw",       "rshared",
        "rslave",      "rstrictatime", "rsuid",       "runbindable", "rw",        "shared",    "slave",
        "strictatime", "suid",         "symfollow",   "sync",        "tmpcopyup", "unbindable"};
    static const char *const namespaces[] = {"cgroup", "ipc",  "mount", "network",
                                             "pid",    "time", "user",  "uts"};
    static const char *const actions[] = {"SCMP_ACT_ALLOW",        "SCMP_ACT_ERRNO",       "SCMP_ACT_KILL",
                                          "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_KILL_THREAD", "SCMP_ACT_LOG",
                                          "SCMP_ACT_NOTIFY",       "SCMP_ACT_TRACE",       "SCMP_ACT_TRAP"};
    static const char *const operators[] = {"SCMP_CMP_EQ", "SCMP_CMP_GE",        "SCMP_CMP_GT", "SCMP_CMP_LE",
                                            "SCMP_CMP_LT", "SCMP_CMP_MASKED_EQ", "SCMP_CMP_NE"};
    (void)arguments;
    (void)count;
    json_t *features = json_pack(
        "{s:s, s:s, s:o, s:o, s:{s:o, s:{s:b, s:b, s:b, s:b}, s:{s:b, s:o, s:o}, s:{s:b}, s:{s:b}, "
        "s:{s:{s:b}}}}",
        "ociVersionMin", "1.0.0", "ociVersionMax", "1.2.0", "hooks", strings(hooks, PIN_COUNT(hooks)),
        "mountOptions", strings(mounts, PIN_COUNT(mounts)), "linux", "namespaces",
        strings(namespaces, PIN_COUNT(namespaces)), "cgroup", "v1", 1, "v2", 1, "systemd", 1, "systemdUser",
        1, "seccomp", "enabled", 1, "actions", strings(actions, PIN_COUNT(actions)), "operators",
        strings(operators, PIN_COUNT(operators)), "apparmor", "enabled", 1, "selinux", "enabled", 1,
        "mountExtensions", "idmap", "enabled", 1);
    json_t *annotations =
        json_pack("{s:s, s:s}", "io.pinfold.version", PIN_VERSION, "io.pinfold.ceiling", ceiling_of(options));
    json_object_set_new(features, "annotations", annotations);
    (void)json_dumpf(features, stdout, JSON_INDENT(2));
    (void)fputc('\n', stdout);
    json_decref(features);
    return 0;
}
