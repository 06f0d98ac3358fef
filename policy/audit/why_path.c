#include <string.h>

#include "base/names.h"
#include "policy/audit/paths.h"
#include "policy/audit/why_parts.h"
#include "policy/checks.h"
#include "policy/policy_write.h"

static const char needs_workspace[] = "the run brings a workspace (--workspace DIR)";
static const char needs_permission[] = "the image's own permissions let the sandbox's user";

static struct pin_answer answer_by(const struct pin_policy *policy, enum pin_answer_verdict verdict,
                                   enum pin_field field, const char *reason) {
    return (struct pin_answer){.verdict = verdict,
                               .reason = reason,
                               .rule = pin_field_pointer(field),
                               .place = policy->places[field]};
}

static struct pin_answer answer_by_mount(const struct pin_why_context *context,
                                         enum pin_answer_verdict verdict, const struct pin_mount_rule *mount,
                                         const char *reason) {
    size_t index = (size_t)(mount - context->policy->filesystem.mounts);
    return (struct pin_answer){.verdict = verdict,
                               .reason = reason,
                               .rule = pin_arena_printf(context->arena, "/filesystem/mounts/%zu", index),
                               .place = mount->place};
}

static struct pin_answer answer_by_write(const struct pin_why_context *context,
                                         const struct pin_string *entry, const char *reason) {
    size_t index = (size_t)(entry - context->policy->filesystem.write.items);
    return (struct pin_answer){.verdict = PIN_ANSWER_ALLOW,
                               .reason = reason,
                               .rule = pin_arena_printf(context->arena, "/filesystem/write/%zu", index),
                               .place = entry->place};
}

/* A JSON string of a path: paths of policies have no control characters. */
static const char *quoted(struct pin_arena *arena, const char *text) {
    PIN_BUFFER struct pin_buffer out = {0};
    pin_buffer_json(&out, text);
    return pin_arena_strndup(arena, out.data, out.size);
}

/* --- writing --- */

static const char *folder_of(struct pin_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == path ? "/" : pin_arena_strndup(arena, path, (size_t)(slash - path));
}

/* The mount may stand there in its wider form already, below one that covers it: then it must move to the
 * end. */
static bool has_mount(const struct pin_policy *policy, const struct pin_mount_rule *mount) {
    for (size_t i = 0; i < policy->filesystem.mount_count; i++) {
        const struct pin_mount_rule *own = &policy->filesystem.mounts[i];
        if (own->access == mount->access && strcmp(own->source, mount->source) == 0 &&
            strcmp(own->target, mount->target) == 0)
            return true;
    }
    return false;
}

static void suggest_mount(const struct pin_why_context *context, const struct pin_path_fate *fate,
                          struct pin_answer *answer) {
    struct pin_arena *arena = context->arena;
    struct pin_mount_rule wider = *fate->mount;
    const char *write = "";
    wider.access = PIN_ACCESS_WRITE;
    if (!fate->landlock_writes)
        write = pin_arena_printf(arena, ",\"write\":{\"add\":[%s]}", quoted(arena, wider.target));
    const char *added = pin_policy_item_text(arena, PIN_FIELD_MOUNTS, &wider);
    bool moves = has_mount(context->policy, &wider);
    answer->edit =
        pin_arena_printf(arena, "{\"filesystem\":{\"mounts\":{\"remove\":[%s%s%s],\"add\":[%s]}%s}}",
                         pin_policy_item_text(arena, PIN_FIELD_MOUNTS, fate->mount), moves ? "," : "",
                         moves ? added : "", added, write);
    if (fate->mount->access == PIN_ACCESS_WRITE)
        answer->edit = pin_arena_printf(arena, "{\"filesystem\":{\"write\":{\"add\":[%s]}}}",
                                        quoted(arena, fate->mount->target));
    answer->caution = "what is written there changes the host's files";
}

static void suggest_write(const struct pin_why_context *context, struct pin_answer *answer) {
    struct pin_arena *arena = context->arena;
    const char *path = context->question->name, *folder = folder_of(arena, path);
    if (pin_check_write_path(path, false) != NULL) {
        answer->caution = pin_check_write_path(path, false);
    } else if (strcmp(folder, "/") == 0 || context->policy->filesystem.root == PIN_ROOT_OVERLAY) {
        answer->edit = pin_arena_printf(
            arena, "{\"filesystem\":{\"root\":\"overlay\",\"write\":{\"add\":[%s]}}}", quoted(arena, folder));
        answer->caution = "the root becomes an overlay that is thrown away after the run";
    } else {
        answer->edit =
            pin_arena_printf(arena, "{\"filesystem\":{\"write\":{\"add\":[%s]}}}", quoted(arena, folder));
        if (context->policy->filesystem.tmp_bytes == 0)
            answer->edit =
                pin_arena_printf(arena, "{\"filesystem\":{\"tmp\":\"64MiB\",\"write\":{\"add\":[%s]}}}",
                                 quoted(arena, folder));
        answer->caution = "the folder is memory of the run's own then, and empty at its start";
    }
}

static struct pin_answer refuse_write(const struct pin_why_context *context,
                                      const struct pin_path_fate *fate) {
    const struct pin_policy *policy = context->policy;
    struct pin_answer answer;
    switch (fate->layer) {
    case PIN_PATH_MOUNT:
        answer = answer_by_mount(context, PIN_ANSWER_DENY, fate->mount,
                                 fate->layer_writes ? "the mount is read-write, but filesystem.write doesn't "
                                                      "list it"
                                                    : "the mount is read-only");
        suggest_mount(context, fate, &answer);
        return answer;
    case PIN_PATH_WORKSPACE:
        answer =
            answer_by(policy, PIN_ANSWER_DENY, PIN_FIELD_WORKSPACE_ACCESS, "the workspace may be read only");
        answer.edit = "{\"filesystem\":{\"workspace\":{\"access\":\"copy-on-write\"}}}";
        answer.caution = "changes are kept or merged only where the run asks for it";
        return answer;
    case PIN_PATH_PROC:
        return answer_by(policy, PIN_ANSWER_DENY, PIN_FIELD_WRITE, "nothing in /proc may be written");
    case PIN_PATH_ROOT:
    case PIN_PATH_DEVICES:
    case PIN_PATH_SCRATCH:
    case PIN_PATH_LAYER_COUNT: break;
    }
    if (pin_path_beneath(context->question->name, PIN_WORKSPACE_TARGET)) {
        answer =
            answer_by(policy, PIN_ANSWER_DENY, PIN_FIELD_WORKSPACE_ACCESS, "the policy grants no workspace");
        answer.edit = "{\"filesystem\":{\"workspace\":{\"access\":\"copy-on-write\"}}}";
        return answer;
    }
    answer =
        answer_by(policy, PIN_ANSWER_DENY, PIN_FIELD_WRITE,
                  fate->layer_writes ? "no entry of filesystem.write covers it"
                                     : "no entry of filesystem.write covers it, and the root is read-only");
    suggest_write(context, &answer);
    return answer;
}

static struct pin_answer grant_write(const struct pin_why_context *context,
                                     const struct pin_path_fate *fate) {
    const struct pin_policy *policy = context->policy;
    struct pin_answer answer;
    switch (fate->layer) {
    case PIN_PATH_MOUNT:
        return answer_by_mount(context, PIN_ANSWER_ALLOW, fate->mount,
                               "the mount is read-write; the host's files change");
    case PIN_PATH_WORKSPACE:
        answer = answer_by(policy, PIN_ANSWER_ALLOW, PIN_FIELD_WORKSPACE_ACCESS,
                           policy->filesystem.workspace == PIN_ACCESS_COW
                               ? "the workspace is copy-on-write"
                               : "the workspace may be written; the host's files change");
        answer.given = needs_workspace;
        return answer;
    case PIN_PATH_SCRATCH: return answer_by_write(context, fate->write, "it is memory of the run's own");
    case PIN_PATH_DEVICES:
        answer = answer_by(policy, PIN_ANSWER_ALLOW, PIN_FIELD_WRITE,
                           "the sandbox's own devices may be written; nothing can be made beside them");
        answer.given = "it is one of null, zero, full, random, urandom, tty, ptmx and pts/*";
        return answer;
    case PIN_PATH_ROOT:
    case PIN_PATH_PROC:
    case PIN_PATH_LAYER_COUNT: break;
    }
    answer = answer_by_write(context, fate->write, "the root is an overlay that is thrown away");
    answer.given = needs_permission;
    return answer;
}

/* The nodes of the sandbox's /dev: see runtime/build/mounts.c. */
static bool is_device(const char *path) {
    static const char *const names[] = {"null", "zero", "full", "random", "urandom", "tty", "ptmx"};
    const char *name = path + strlen("/dev/");
    return strncmp(path, "/dev/", 5) == 0 &&
           (strncmp(name, "pts/", 4) == 0 || pin_name_find(names, PIN_COUNT(names), name) >= 0);
}

static struct pin_answer refuse_device(const struct pin_why_context *context) {
    struct pin_answer answer = answer_by(context->policy, PIN_ANSWER_DENY, PIN_FIELD_WRITE,
                                         "nothing can be made in /dev, and it is none of its devices");
    if (!pin_path_beneath(context->question->name, "/dev/shm"))
        return answer;
    answer.reason = "filesystem.write doesn't list /dev/shm";
    answer.edit = context->policy->filesystem.tmp_bytes == 0
                      ? "{\"filesystem\":{\"tmp\":\"64MiB\",\"write\":{\"add\":[\"/dev/shm\"]}}}"
                      : "{\"filesystem\":{\"write\":{\"add\":[\"/dev/shm\"]}}}";
    return answer;
}

struct pin_answer pin_why_write(const struct pin_why_context *context) {
    const char *path = context->question->name;
    struct pin_path_fate fate = pin_path_judge(context->policy, path);
    if (fate.layer == PIN_PATH_DEVICES && !is_device(path))
        return refuse_device(context);
    return pin_path_writable(&fate) ? grant_write(context, &fate) : refuse_write(context, &fate);
}

/* --- reading --- */

static struct pin_answer read_root(const struct pin_why_context *context) {
    const struct pin_policy *policy = context->policy;
    const struct pin_why_root *root = context->root;
    struct pin_arena *arena = context->arena;
    const char *path = context->question->name;
    struct pin_answer answer =
        answer_by(policy, PIN_ANSWER_ALLOW, PIN_FIELD_IMAGES, "the root comes from the image");
    if (root == NULL) {
        answer.given = "the image has it, and its permissions let the sandbox's user";
        return answer;
    }
    if (root->shows(root->context, path)) {
        answer.reason = pin_arena_printf(arena, "the image '%s' shows it", root->image);
        answer.given = needs_permission;
        return answer;
    }
    answer.verdict = PIN_ANSWER_DENY;
    answer.reason =
        pin_arena_printf(arena, "the image '%s' doesn't have it, and nothing mounts it", root->image);
    if (pin_check_mount_source(path, false) == NULL && pin_check_mount_target(path, false) == NULL)
        answer.edit = pin_arena_printf(arena,
                                       "{\"filesystem\":{\"mounts\":{\"add\":[{\"source\":%s,\"target\":%s,"
                                       "\"access\":\"read-only\"}]}}}",
                                       quoted(arena, path), quoted(arena, path));
    else
        answer.caution = pin_check_mount_target(path, false);
    return answer;
}

struct pin_answer pin_why_read(const struct pin_why_context *context) {
    const struct pin_policy *policy = context->policy;
    struct pin_path_fate fate = pin_path_judge(policy, context->question->name);
    struct pin_answer answer;
    switch (fate.layer) {
    case PIN_PATH_MOUNT:
        answer = answer_by_mount(context, PIN_ANSWER_ALLOW, fate.mount, "the policy mounts it");
        answer.given = "the host's permissions let the sandbox's user";
        return answer;
    case PIN_PATH_WORKSPACE:
        answer = answer_by(policy, PIN_ANSWER_ALLOW, PIN_FIELD_WORKSPACE_ACCESS, "it is the workspace");
        answer.given = needs_workspace;
        return answer;
    case PIN_PATH_SCRATCH: return answer_by_write(context, fate.write, "it is memory of the run's own");
    case PIN_PATH_PROC:
        return (struct pin_answer){.verdict = PIN_ANSWER_ALLOW,
                                   .reason = "every sandbox has a /proc of its own processes"};
    case PIN_PATH_DEVICES:
        return (struct pin_answer){
            .verdict = is_device(context->question->name) ? PIN_ANSWER_ALLOW : PIN_ANSWER_DENY,
            .reason =
                "every sandbox has null, zero, full, random, urandom, tty, ptmx and pts/*, and no other"};
    case PIN_PATH_ROOT:
    case PIN_PATH_LAYER_COUNT: break;
    }
    return read_root(context);
}
