#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "base/units.h"
#include "policy/audit/paths.h"
#include "policy/audit/sensitive.h"
#include "policy/audit/trace_parts.h"
#include "policy/checks.h"
#include "policy/policy_read.h"
#include "policy/policy_write.h"

#define CALLS_BY_NAME 8 /* so many may a smaller baseline lack: beyond, the next one says it better */
#define SIBLINGS 3      /* of so many folders the parent is named instead */

struct learn {
    const struct pin_trace *trace;
    const struct pin_policy *base;
    struct pin_learned *learned;
    struct pin_arena arena;
    const char **write; /* folders that were written to, beyond those that every policy knows */
    size_t write_count;
    bool tmp, shm, workspace_written, workspace_used;
};

static void set(json_t *object, const char *key, json_t *value) {
    (void)json_object_set_new(object, key, value);
}

static void append(json_t *list, json_t *value) {
    (void)json_array_append_new(list, value);
}

void pin_learned_withhold(struct pin_learned *learned, const char *what, const char *why) {
    json_t *item;
    size_t i;
    json_array_foreach(learned->withheld, i,
                       item) if (strcmp(json_string_value(json_object_get(item, "what")), what) == 0) return;
    append(learned->withheld, json_pack("{s:s, s:s}", "what", what, "why", why));
}

void pin_learned_want(struct pin_learned *learned, const char *what, const char *edit, const char *note) {
    json_t *item =
        json_pack("{s:s, s:o}", "what", what, "edit", edit != NULL ? json_loads(edit, 0, NULL) : json_null());
    if (note != NULL)
        set(item, "note", json_string(note));
    append(learned->wanted, item);
}

/* --- system calls --- */

static bool passes(const struct pin_filter *filter, const struct pin_recorded_call *call) {
    int number = pin_syscall_number(pin_arch_native(), call->name);
    return number < 0 ||
           pin_reach_passes(pin_filter_judge(filter, pin_arch_native(), (uint32_t)number, call->args).action);
}

static bool is_answered_anyway(const struct pin_recorded_call *call) {
    return pin_syscall_in(&pin_syscall_enosys, pin_syscall_find(call->name));
}

static bool holds_text(const json_t *list, const char *text) {
    const json_t *item;
    size_t i;
    json_array_foreach(list, i, item) if (strcmp(json_string_value(item), text) == 0) return true;
    return false;
}

/* What the trace's own filter denied can't be granted, whatever a recording says. */
static bool is_grantable(const struct learn *learn, const struct pin_recorded_call *call) {
    const struct pin_syscall *row = pin_syscall_find(call->name);
    bool walled = strcmp(learn->base->syscalls.baseline, "oci") != 0;
    return !call->denied && row->since == NULL && !(walled && row->never != NULL);
}

/* The calls that the baseline's own filter lacks, by name, in the order of the alphabet. */
static json_t *lacking(struct learn *learn, const char *baseline) {
    char text[96];
    struct pin_findings found = {0};
    struct pin_filter filter = {0};
    json_t *list = json_array();
    (void)snprintf(text, sizeof(text), "{\"pinfold\":1,\"syscalls\":{\"baseline\":\"%s\"}}", baseline);
    struct pin_policy *alone = pin_policy_parse("baseline", text, strlen(text), &found);
    if (alone != NULL && pin_policy_filter(alone, pin_arch_native(), &learn->arena, &filter, &found))
        for (size_t row = 0; row < pin_syscalls_count; row++)
            for (size_t i = 0; i < learn->trace->recording->call_count; i++) {
                const struct pin_recorded_call *call = &learn->trace->recording->calls[i];
                if (strcmp(call->name, pin_syscalls[row].name) == 0 && is_grantable(learn, call) &&
                    !passes(&filter, call) && !holds_text(list, call->name))
                    append(list, json_string(call->name));
            }
    pin_policy_free(alone);
    return list;
}

/* The smallest baseline that has all, or all but a few. */
static const char *choose_baseline(struct learn *learn, json_t **allow) {
    static const char *const baselines[] = {"strict", "tool", "build"};
    json_t *lists[PIN_COUNT(baselines)];
    size_t best = 0;
    if (strcmp(learn->base->syscalls.baseline, "oci") == 0) { /* its policies may ask for what no other may */
        *allow = lacking(learn, "oci");
        return "oci";
    }
    for (size_t i = 0; i < PIN_COUNT(baselines); i++)
        lists[i] = lacking(learn, baselines[i]);
    while (best + 1 < PIN_COUNT(baselines) && json_array_size(lists[best]) > 0 &&
           (json_array_size(lists[best]) > CALLS_BY_NAME || json_array_size(lists[best + 1]) == 0))
        best++;
    for (size_t i = 0; i < PIN_COUNT(baselines); i++)
        if (i != best)
            json_decref(lists[i]);
    *allow = lists[best];
    return baselines[best];
}

static bool denies(const struct pin_syscall_entry *entry, const struct pin_recorded_call *call) {
    const struct pin_syscall_set *group = pin_syscall_group(entry->name);
    if (call->denied)
        return false;
    if (group != NULL)
        return pin_syscall_in(group, pin_syscall_find(call->name));
    struct pin_filter_rule rule = {.arg_count = entry->arg_count};
    memcpy(rule.args, entry->args, sizeof(entry->args));
    return strcmp(entry->name, call->name) == 0 && pin_filter_rule_matches(&rule, call->args);
}

/* What the base denies stays denied, unless the command used it: that is said. */
static json_t *keep_denials(struct learn *learn) {
    json_t *list = json_array();
    for (size_t i = 0; i < learn->base->syscalls.deny_count; i++) {
        const struct pin_syscall_entry *entry = &learn->base->syscalls.deny[i];
        const char *text = pin_policy_item_text(&learn->arena, PIN_FIELD_SYSCALLS_DENY, entry);
        bool used = false;
        for (size_t j = 0; j < learn->trace->recording->call_count && !used; j++)
            used = denies(entry, &learn->trace->recording->calls[j]);
        if (used)
            pin_learned_withhold(
                learn->learned, pin_arena_printf(&learn->arena, "syscalls.deny %s", text),
                "the command makes a call that it names: the learned policy lacks this line");
        else
            append(list, json_loads(text, JSON_DECODE_ANY, NULL));
    }
    return list;
}

static void note_refused_calls(struct learn *learn) {
    for (size_t i = 0; i < learn->trace->recording->call_count; i++) {
        const struct pin_recorded_call *call = &learn->trace->recording->calls[i];
        const struct pin_syscall *row = pin_syscall_find(call->name);
        if (is_grantable(learn, call) || is_answered_anyway(call))
            continue;
        const char *why = row->never != NULL
                              ? pin_arena_printf(&learn->arena, "no policy allows it: it %s", row->never)
                              : "no policy allows it with these arguments";
        pin_learned_withhold(learn->learned, pin_arena_printf(&learn->arena, "syscall %s", call->name), why);
    }
}

static json_t *learn_calls(struct learn *learn) {
    json_t *allow, *syscalls = json_object();
    const char *baseline = choose_baseline(learn, &allow);
    set(syscalls, "baseline", json_string(baseline));
    set(syscalls, "allow", allow);
    set(syscalls, "deny", keep_denials(learn));
    note_refused_calls(learn);
    return syscalls;
}

/* --- files --- */

static const char *folder_of(struct learn *learn, const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == path ? "/" : pin_arena_strndup(&learn->arena, path, (size_t)(slash - path));
}

static void add_folder(struct learn *learn, const char *folder) {
    size_t kept = 0;
    for (size_t i = 0; i < learn->write_count; i++)
        if (pin_path_beneath(folder, learn->write[i]))
            return;
    for (size_t i = 0; i < learn->write_count; i++)
        if (!pin_path_beneath(learn->write[i], folder))
            learn->write[kept++] = learn->write[i];
    learn->write_count = kept;
    *(const char **)pin_arena_grow(&learn->arena, &learn->write, &learn->write_count, sizeof(*learn->write)) =
        folder;
}

static const struct pin_recorded_path *find_path(const struct learn *learn, const char *path) {
    for (size_t i = 0; i < learn->trace->recording->path_count; i++)
        if (strcmp(learn->trace->recording->paths[i].path, path) == 0)
            return &learn->trace->recording->paths[i];
    return NULL;
}

static bool is_new(const struct learn *learn, const char *path) {
    const struct pin_recorded_path *found = find_path(learn, path);
    return found != NULL && (found->uses & PIN_USE_NEW) != 0;
}

/* Memory of the run's own in a place where the image has nothing, and so hides none of its files: the first
 * folder that the command made, or the one in which it made a file. */
static void learn_new(struct learn *learn, const struct pin_recorded_path *path) {
    const char *folder = path->path;
    while (strcmp(folder_of(learn, folder), "/") != 0 && is_new(learn, folder_of(learn, folder)))
        folder = folder_of(learn, folder);
    if (folder == path->path && (path->uses & PIN_USE_FOLDER) == 0)
        folder = folder_of(learn, folder);
    const char *holds = pin_sensitive_path(folder), *fault = pin_check_write_path(folder, false);
    if (strcmp(folder, "/") == 0)
        fault = "it lies in the root itself";
    if (holds != NULL || fault != NULL)
        pin_learned_withhold(learn->learned, pin_arena_printf(&learn->arena, "write %s", path->path),
                             holds != NULL ? pin_arena_printf(&learn->arena, "on a host it holds %s", holds)
                                           : fault);
    else
        add_folder(learn, folder);
}

static const struct pin_string *covering(const struct pin_policy *base, const char *path) {
    for (size_t i = 0; i < base->filesystem.write.count; i++)
        if (pin_path_beneath(path, base->filesystem.write.items[i].text))
            return &base->filesystem.write.items[i];
    return NULL;
}

static void learn_write(struct learn *learn, const struct pin_recorded_path *path) {
    struct pin_path_fate fate = pin_path_judge(learn->base, path->path);
    const char *what = pin_arena_printf(&learn->arena, "write %s", path->path);
    const struct pin_string *given = covering(learn->base, path->path);
    if (pin_path_beneath(path->path, "/tmp"))
        learn->tmp = true;
    else if (pin_path_beneath(path->path, "/dev/shm"))
        learn->shm = true;
    else if (fate.layer == PIN_PATH_MOUNT && pin_path_writable(&fate))
        add_folder(learn, fate.mount->target);
    else if (pin_path_beneath(path->path, PIN_WORKSPACE_TARGET) && learn->trace->workspace != PIN_ACCESS_NONE)
        learn->workspace_written = true;
    else if (pin_path_beneath(path->path, "/dev"))
        return; /* its nodes, which every sandbox has */
    else if (pin_path_beneath(path->path, "/proc") || pin_path_beneath(path->path, "/sys"))
        pin_learned_withhold(learn->learned, what, "it is the kernel's");
    else if (given != NULL && strcmp(given->text, "/") != 0)
        add_folder(learn, given->text);
    else if (path->uses & PIN_USE_NEW)
        learn_new(learn, path);
    else
        pin_learned_withhold(
            learn->learned, what,
            "it lies among the image's own files; {\"filesystem\":{\"root\":\"overlay\"}} and a "
            "line of filesystem.write would grant it");
}

/* Folders of which the image alone says what there is. */
static bool is_of_images(const char *path) {
    static const char *const folders[] = {"/usr",   "/bin",    "/sbin", "/lib", "/lib32",
                                          "/lib64", "/libx32", "/etc",  "/opt"};
    for (size_t i = 0; i < PIN_COUNT(folders); i++)
        if (pin_path_beneath(path, folders[i]))
            return true;
    return false;
}

/* What was looked for in vain and lies on the host, or holds what nobody should see. */
static void learn_read(struct learn *learn, const struct pin_recorded_path *path) {
    const char *holds = pin_sensitive_path(path->path);
    const char *what = pin_arena_printf(&learn->arena, "read %s", path->path);
    bool is_root = pin_path_judge(learn->base, path->path).layer == PIN_PATH_ROOT;
    bool missing = (path->uses & PIN_USE_MISSING) != 0;
    if (!is_root || (missing && (learn->trace->host_has == NULL || !learn->trace->host_has(path->path))))
        return;
    if (holds != NULL) {
        pin_learned_withhold(learn->learned, what,
                             pin_arena_printf(&learn->arena, "on a host it holds %s", holds));
    } else if (missing && !is_of_images(path->path) && pin_check_mount_source(path->path, false) == NULL &&
               pin_check_mount_target(path->path, false) == NULL) {
        struct pin_mount_rule mount = {path->path, path->path, PIN_ACCESS_READ, {0}};
        pin_learned_want(learn->learned, what,
                         pin_arena_printf(&learn->arena, "{\"filesystem\":{\"mounts\":{\"add\":[%s]}}}",
                                          pin_policy_item_text(&learn->arena, PIN_FIELD_MOUNTS, &mount)),
                         NULL);
    }
}

/* Three folders side by side are their parent, where that isn't the root or sensitive itself. */
static void collapse(struct learn *learn) {
    for (size_t i = 0; i < learn->write_count; i++) {
        const char *parent = folder_of(learn, learn->write[i]);
        size_t siblings = 0;
        for (size_t j = 0; j < learn->write_count; j++)
            siblings += strcmp(folder_of(learn, learn->write[j]), parent) == 0;
        if (siblings < SIBLINGS || strcmp(parent, "/") == 0 || pin_sensitive_path(parent) != NULL ||
            pin_check_write_path(parent, false) != NULL)
            continue;
        add_folder(learn, parent);
        i = (size_t)-1; /* the list is another one now */
    }
}

static json_t *learn_mounts(struct learn *learn) {
    json_t *list = json_array();
    for (size_t i = 0; i < learn->base->filesystem.mount_count; i++) {
        struct pin_mount_rule mount = learn->base->filesystem.mounts[i];
        unsigned uses = 0;
        for (size_t j = 0; j < learn->trace->recording->path_count; j++)
            if (pin_path_beneath(learn->trace->recording->paths[j].path, mount.target))
                uses |= learn->trace->recording->paths[j].uses;
        if (uses == 0)
            continue;
        if ((uses & PIN_USE_WRITE) == 0)
            mount.access = PIN_ACCESS_READ;
        append(list, json_loads(pin_policy_item_text(&learn->arena, PIN_FIELD_MOUNTS, &mount), 0, NULL));
    }
    return list;
}

static void learn_path(struct learn *learn, const struct pin_recorded_path *path) {
    if (!pin_is_plain_path(path->path))
        return; /* "(deleted)", or a part of it isn't UTF-8 */
    if (pin_path_beneath(path->path, PIN_WORKSPACE_TARGET))
        learn->workspace_used = true;
    if (path->uses & PIN_USE_WRITE)
        learn_write(learn, path);
    if (path->uses & (PIN_USE_READ | PIN_USE_EXEC | PIN_USE_CONNECT))
        learn_read(learn, path);
}

static enum pin_access workspace_of(const struct learn *learn) {
    enum pin_access traced = learn->trace->workspace;
    return traced == PIN_ACCESS_NONE || learn->workspace_written ? traced : PIN_ACCESS_READ;
}

static json_t *learn_files(struct learn *learn) {
    const struct pin_recording *recording = learn->trace->recording;
    char size[PIN_UNITS_TEXT];
    json_t *files = json_object(), *write = json_array(), *workspace;
    for (size_t i = 0; i < recording->path_count; i++)
        learn_path(learn, &recording->paths[i]);
    collapse(learn);
    if (learn->tmp)
        append(write, json_string("/tmp"));
    if (learn->shm)
        append(write, json_string("/dev/shm"));
    for (size_t i = 0; i < learn->write_count; i++)
        append(write, json_string(learn->write[i]));
    workspace = json_pack("{s:s}", "access", pin_access_name(workspace_of(learn)));
    set(files, "root", json_string(pin_root_mode_name(PIN_ROOT_READ_ONLY)));
    set(files, "workspace", workspace);
    set(files, "write", write);
    set(files, "tmp",
        json_string(pin_print_size(size, pin_trace_room(recording->peaks.tmp_bytes, 2, PIN_MIB * 16))));
    set(files, "mounts", learn_mounts(learn));
    return files;
}

/* --- resources --- */

uint64_t pin_trace_room(uint64_t peak, unsigned times, uint64_t step) {
    uint64_t room = peak * times;
    return room < step ? step : (room + step - 1) / step * step;
}

static json_t *learn_resources(struct learn *learn) {
    static const char unmeasured[] =
        "the host gave no cgroup that counts it: the limit stays as the policy that is extended has it";
    const struct pin_recording *recording = learn->trace->recording;
    const struct pin_policy *base = learn->base;
    char text[PIN_UNITS_TEXT];
    json_t *resources = json_object();
    if (recording->peaks.memory_bytes > 0)
        set(resources, "memory",
            json_string(
                pin_print_size(text, pin_trace_room(recording->peaks.memory_bytes, 2, 64 * PIN_MIB))));
    else
        pin_learned_withhold(learn->learned, "limit memory", unmeasured);
    if (recording->peaks.pids > 0)
        set(resources, "pids", json_integer((json_int_t)pin_trace_room(recording->peaks.pids, 2, 8)));
    else
        pin_learned_withhold(learn->learned, "limit pids", unmeasured);
    if (recording->peaks.files > base->resources.files / 2)
        set(resources, "files", json_integer((json_int_t)pin_trace_room(recording->peaks.files, 2, 1024)));
    set(resources, "wall_time",
        json_string(pin_print_time(text, pin_trace_room(recording->peaks.wall_ns, 3, 10 * PIN_NS_PER_S))));
    set(resources, "stdout",
        json_string(pin_print_size(text, pin_trace_room(recording->peaks.stdout_bytes, 2, 64 * PIN_KIB))));
    set(resources, "stderr",
        json_string(pin_print_size(text, pin_trace_room(recording->peaks.stderr_bytes, 2, 64 * PIN_KIB))));
    return resources;
}

/* --- the whole --- */

static json_t *learn_secrets(const struct pin_trace *trace) {
    json_t *list = json_array();
    for (size_t i = 0; i < trace->secret_count; i++)
        append(list, json_stringn(trace->secrets[i], strcspn(trace->secrets[i], ":")));
    return list;
}

static void make_policy(struct learn *learn) {
    json_t *policy = json_object();
    learn->learned->policy = policy;
    set(policy, "pinfold", json_integer(1));
    set(policy, "name", json_string("learned"));
    set(policy, "description",
        json_string(
            pin_arena_printf(&learn->arena, "Learned from one run of: %.200s", learn->trace->command)));
    set(policy, "extends", json_pack("[s]", learn->trace->extends));
    set(policy, "filesystem", learn_files(learn));
    set(policy, "resources", learn_resources(learn));
    set(policy, "network", pin_trace_learn_network(learn->trace, learn->learned, &learn->arena));
    set(policy, "syscalls", learn_calls(learn));
    set(policy, "secrets", learn_secrets(learn->trace));
}

/* The policy as its reader sees it, held against every call that was made: it must let all of them through.
 */
static bool check(struct learn *learn, struct pin_findings *found) {
    PIN_FREE char *text = json_dumps(learn->learned->policy, 0);
    struct pin_filter filter = {0};
    struct pin_policy *policy =
        text != NULL ? pin_policy_parse("learned policy", text, strlen(text), found) : NULL;
    bool good = policy != NULL && pin_policy_filter(policy, pin_arch_native(), &learn->arena, &filter, found);
    for (size_t i = 0; good && i < learn->trace->recording->call_count; i++) {
        const struct pin_recorded_call *call = &learn->trace->recording->calls[i];
        if (is_grantable(learn, call) && !passes(&filter, call))
            pin_learned_withhold(
                learn->learned, pin_arena_printf(&learn->arena, "syscall %s", call->name),
                "it was made with arguments that only a line of its own grants: see 'pinfold policy why'");
    }
    pin_policy_free(policy);
    return good;
}

bool pin_trace_learn(const struct pin_trace *trace, struct pin_learned *learned, struct pin_findings *found) {
    struct learn learn = {.trace = trace, .base = trace->policy->policy, .learned = learned};
    *learned = (struct pin_learned){.withheld = json_array(), .wanted = json_array()};
    make_policy(&learn);
    bool good = check(&learn, found);
    pin_arena_free(&learn.arena);
    return good;
}

void pin_learned_free(struct pin_learned *learned) {
    json_decref(learned->policy);
    json_decref(learned->withheld);
    json_decref(learned->wanted);
}
