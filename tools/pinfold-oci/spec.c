#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "runtime/bundle/bundle.h"
#include "runtime/plan/mount_options.h"
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

static json_t *of_type(const char *type) {
    return json_pack("{s:s}", "type", type);
}

/* The caller's own id alone: no privilege is needed to map it. */
static json_t *own_id(unsigned id) {
    return json_pack("[{s:i, s:I, s:i}]", "containerID", 0, "hostID", (json_int_t)id, "size", 1);
}

static void leave_out(json_t *list, const char *key, const char *value) {
    for (size_t i = json_array_size(list); i-- > 0;) {
        const char *held = json_string_value(json_object_get(json_array_get(list, i), key));
        if (held != NULL && strcmp(held, value) == 0)
            (void)json_array_remove(list, i);
    }
}

/* A sysfs is for whoever owns the network; ids that aren't mapped can't be given to a file system. */
static void fit_mounts(json_t *mounts) {
    size_t index;
    json_t *mount;
    json_array_foreach(mounts, index, mount) {
        json_t *options = json_object_get(mount, "options");
        if (strcmp(json_string_value(json_object_get(mount, "destination")), "/sys") == 0) {
            json_t *bind = json_pack("{s:s, s:s, s:s, s:[s,s,s,s,s]}", "destination", "/sys", "type", "none",
                                     "source", "/sys", "options", "rbind", "nosuid", "noexec", "nodev", "ro");
            (void)json_array_set_new(mounts, index, bind);
            continue;
        }
        for (size_t i = json_array_size(options); i-- > 0;)
            if (strncmp(json_string_value(json_array_get(options, i)), "gid=", 4) == 0)
                (void)json_array_remove(options, i);
    }
}

/* As runc has it: a user namespace, the host's network, no limits. */
static void fit_to_user(json_t *config) {
    json_t *linux_part = json_object_get(config, "linux");
    json_t *namespaces = json_object_get(linux_part, "namespaces");
    leave_out(namespaces, "type", "network");
    (void)json_array_append_new(namespaces, of_type("user"));
    (void)json_object_set_new(linux_part, "uidMappings", own_id(geteuid()));
    (void)json_object_set_new(linux_part, "gidMappings", own_id(getegid()));
    (void)json_object_del(linux_part, "resources");
    fit_mounts(json_object_get(config, "mounts"));
}

static char *make_config(const struct pin_oci_options *options) {
    json_t *config = json_loads(template, 0, NULL);
    if (faccessat(AT_FDCWD, "/sys/fs/cgroup/cgroup.controllers", F_OK, 0) == 0) /* version 2 alone */
        (void)json_array_append_new(json_object_get(json_object_get(config, "linux"), "namespaces"),
                                    of_type("cgroup"));
    if (options->for_user)
        fit_to_user(config);
    char *text = json_dumps(config, JSON_INDENT(4));
    json_decref(config);
    return text;
}

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
    PIN_FREE char *text = make_config(options);
    if (text == NULL)
        (void)pin_fail(&err, PIN_ERROR_SYSTEM, "no memory for 'config.json'");
    return text != NULL && pin_write_all(file, text, strlen(text), &err) ? 0 : pin_oci_fail(options, &err);
}

static json_t *strings(const char *const *names, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(names[i]));
    return list;
}

/* Those of the mounts themselves, and those that the kernel takes for the file system of any type. */
static json_t *mount_options(void) {
    static const char *const of_file_systems[] = {"async",      "dirsync", "lazytime", "mand",
                                                  "nolazytime", "nomand",  "sync"};
    json_t *list = strings(of_file_systems, PIN_COUNT(of_file_systems));
    const char *name;
    for (size_t i = 0; (name = pin_mount_option_name(i)) != NULL; i++)
        json_array_append_new(list, json_string(name));
    return list;
}

/* Under what the containers of this command line would be: "none" is a plain runtime. */
static const char *ceiling_of(const struct pin_oci_options *options) {
    const char *policy = pin_oci_ceiling_source(options);
    return policy != NULL ? policy : "none";
}

int pin_oci_features(const struct pin_oci_options *options, char **arguments, size_t count) {
    const char *hooks[PIN_HOOK_STAGE_COUNT];
    static const char *const namespaces[] = {"cgroup", "ipc",  "mount", "network",
                                             "pid",    "time", "user",  "uts"};
    static const char *const actions[] = {"SCMP_ACT_ALLOW",        "SCMP_ACT_ERRNO",       "SCMP_ACT_KILL",
                                          "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_KILL_THREAD", "SCMP_ACT_LOG",
                                          "SCMP_ACT_NOTIFY",       "SCMP_ACT_TRACE",       "SCMP_ACT_TRAP"};
    static const char *const operators[] = {"SCMP_CMP_EQ", "SCMP_CMP_GE",        "SCMP_CMP_GT", "SCMP_CMP_LE",
                                            "SCMP_CMP_LT", "SCMP_CMP_MASKED_EQ", "SCMP_CMP_NE"};
    for (int stage = 0; stage < PIN_HOOK_STAGE_COUNT; stage++)
        hooks[stage] = pin_hook_stage_name((enum pin_hook_stage)stage);
    (void)arguments;
    (void)count;
    json_t *features = json_pack(
        "{s:s, s:s, s:o, s:o, s:{s:o, s:{s:b, s:b, s:b, s:b}, s:{s:b, s:o, s:o}, s:{s:b}, s:{s:b}, "
        "s:{s:{s:b}}}}",
        "ociVersionMin", "1.0.0", "ociVersionMax", "1.2.0", "hooks", strings(hooks, PIN_COUNT(hooks)),
        "mountOptions", mount_options(), "linux", "namespaces", strings(namespaces, PIN_COUNT(namespaces)),
        "cgroup", "v1", 1, "v2", 1, "systemd", 1, "systemdUser", 1, "seccomp", "enabled", 1, "actions",
        strings(actions, PIN_COUNT(actions)), "operators", strings(operators, PIN_COUNT(operators)),
        "apparmor", "enabled", 1, "selinux", "enabled", 1, "mountExtensions", "idmap", "enabled", 1);
    json_t *annotations =
        json_pack("{s:s, s:s}", "io.pinfold.version", PIN_VERSION, "io.pinfold.ceiling", ceiling_of(options));
    json_object_set_new(features, "annotations", annotations);
    (void)json_dumpf(features, stdout, JSON_INDENT(2));
    (void)fputc('\n', stdout);
    json_decref(features);
    return 0;
}
