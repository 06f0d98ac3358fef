#include "runtime/build/cgroup/oci.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "runtime/build/cgroup/device_filter.h"
#include "runtime/build/cgroup/device_list.h"
#include "runtime/build/cgroup/files.h"
#include "runtime/build/cgroup/group.h"

enum { ATTACHED_MOST = 64 };

bool pin_cgroup_apply_oci(struct pin_cgroup *group, const struct pin_bundle_resources *resources,
                          struct pin_error *err) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_cgroup_settings settings = {.arena = &arena};
    return pin_cgroup_oci_settings(resources, pin_cgroup_v2_controllers(group), group->unified >= 0,
                                   &settings, err) &&
           pin_cgroup_apply(group, &settings, err);
}

static int call_bpf(int command, union bpf_attr *attr) {
    return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int load_program(const struct pin_device_program *program) {
    static const char license[] = "GPL";
    union bpf_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
    attr.insns = (uint64_t)(uintptr_t)program->code;
    attr.insn_cnt = (uint32_t)program->count;
    attr.license = (uint64_t)(uintptr_t)license;
    return call_bpf(BPF_PROG_LOAD, &attr); /* the descriptor is close-on-exec */
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the kernel writes the ids */
static bool list_attached(int dir, uint32_t ids[ATTACHED_MOST], uint32_t *count) {
    union bpf_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.query.target_fd = (uint32_t)dir;
    attr.query.attach_type = BPF_CGROUP_DEVICE;
    attr.query.prog_ids = (uint64_t)(uintptr_t)ids;
    attr.query.prog_cnt = ATTACHED_MOST;
    if (call_bpf(BPF_PROG_QUERY, &attr) != 0)
        return false;
    *count = attr.query.prog_cnt;
    return true;
}

/* Several programs may be attached, and all must agree: so systemd's stay in force, and an update never opens
 * a gap. */
static bool attach(int dir, int program) {
    union bpf_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.target_fd = (uint32_t)dir;
    attr.attach_bpf_fd = (uint32_t)program;
    attr.attach_type = BPF_CGROUP_DEVICE;
    attr.attach_flags = BPF_F_ALLOW_MULTI;
    return call_bpf(BPF_PROG_ATTACH, &attr) == 0;
}

static bool detach(int dir, uint32_t id) {
    union bpf_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.prog_id = id;
    PIN_CLOSE int program = call_bpf(BPF_PROG_GET_FD_BY_ID, &attr);
    if (program < 0)
        return errno == ENOENT;
    memset(&attr, 0, sizeof(attr));
    attr.target_fd = (uint32_t)dir;
    attr.attach_bpf_fd = (uint32_t)program;
    attr.attach_type = BPF_CGROUP_DEVICE;
    return call_bpf(BPF_PROG_DETACH, &attr) == 0 || errno == ENOENT;
}

static bool replace_programs(int dir, const struct pin_device_program *program) {
    uint32_t old[ATTACHED_MOST], count = 0;
    PIN_CLOSE int fresh = load_program(program);
    if (fresh < 0 || !list_attached(dir, old, &count) || !attach(dir, fresh))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!detach(dir, old[i]))
            return false;
    return true;
}

static bool filter_v2(const struct pin_cgroup *group, const struct pin_device_program *program,
                      struct pin_error *err) {
    PIN_CLOSE int dir = openat(group->dirs[group->unified].fd, ".",
                               O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* bpf(2) takes no O_PATH */
    if (dir >= 0 && replace_programs(dir, program))
        return true;
    (void)pin_fail_errno(err, "attach the device filter to the cgroup '%s'", group->path);
    return err->os_errno == EPERM ? pin_hint(err, "only root can filter devices on cgroup v2") : false;
}

static bool filter_v1(const struct pin_cgroup_dir *devices, const struct pin_device_list *list,
                      struct pin_error *err) {
    bool ok = pin_cgroup_file_write(devices->fd, "devices.deny", "a");
    for (size_t i = 0; ok && i < list->count; i++) {
        char line[PIN_DEVICE_LINE];
        ok = list->items[i].access == 0 ||
             pin_cgroup_file_write(devices->fd, "devices.allow", pin_device_list_line(&list->items[i], line));
    }
    return ok || pin_fail_errno(err, "set the device rules of the cgroup");
}

/* The rules are checked by the same code for both versions. */
bool pin_cgroup_apply_devices(struct pin_cgroup *group, const struct pin_bundle_device_rule *rules,
                              size_t count, struct pin_error *err) {
    const struct pin_cgroup_dir *devices = pin_cgroup_dir_of(group, PIN_CGROUP_DEVICES);
    struct pin_device_program program;
    if (!pin_device_filter_build(rules, count, &program, err))
        return false;
    struct pin_device_list list;
    if (devices != NULL && !devices->v2)
        return pin_device_list_build(rules, count, &list, err) && filter_v1(devices, &list, err);
    if (group->unified >= 0)
        return filter_v2(group, &program, err);
    return pin_fail(err, PIN_ERROR_UNSUPPORTED, "the sandbox is in no cgroup that can filter devices");
}
