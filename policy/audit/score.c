#include "policy/audit/score.h"

#include <math.h>
#include <string.h>

#include "base/names.h"
#include "policy/audit/arg_names.h"
#include "policy/egress_judge.h"
#include "policy/egress_rule.h"
#include "policy/publish.h"

struct tally {
    const struct pin_reach *reach;
    const struct pin_policy *policy;
    const struct pin_weights *weights;
    struct pin_score *score;
};

static double weight(const struct tally *tally, enum pin_weight_grant grant) {
    return tally->weights->grants[grant].weight;
}

/* `sum` of `all`: 1 is everything. */
static void set_part(const struct tally *tally, enum pin_score_part part, double sum, double all,
                     const char *detail) {
    struct pin_score_line *line = &tally->score->parts[part];
    double share = all > 0 ? sum / all : 0;
    line->most = tally->weights->parts[part];
    line->points = line->most * (share > 1 ? 1 : share);
    line->detail = detail;
}

/* --- calls --- */

#define SHOWN 5

/* The heaviest names so far, the heaviest first. */
struct heaviest {
    const char *names[SHOWN];
    double weights[SHOWN];
};

static void offer(struct heaviest *heaviest, const char *name, double points) {
    for (size_t i = 0; i < SHOWN; i++) {
        if (points <= heaviest->weights[i])
            continue;
        memmove(&heaviest->names[i + 1], &heaviest->names[i], (SHOWN - 1 - i) * sizeof(heaviest->names[0]));
        memmove(&heaviest->weights[i + 1], &heaviest->weights[i],
                (SHOWN - 1 - i) * sizeof(heaviest->weights[0]));
        heaviest->names[i] = name;
        heaviest->weights[i] = points;
        return;
    }
}

static const char *list_names(const struct tally *tally, const struct heaviest *heaviest) {
    const char *text = "";
    for (size_t i = 0; i < SHOWN && heaviest->names[i] != NULL; i++)
        text = pin_arena_printf(&tally->score->arena, "%s%s%s", text, i > 0 ? ", " : "", heaviest->names[i]);
    return text;
}

static void tally_calls(const struct tally *tally) {
    struct heaviest heaviest = {0};
    double sum = 0, all = 0;
    size_t count = 0, partly = 0;
    for (size_t i = 0; i < pin_syscalls_count; i++) {
        double full = tally->weights->calls[i].weight, own = full;
        if (pin_syscalls[i].number[tally->reach->arch] < 0)
            continue;
        all += full;
        if (tally->reach->calls[i] == PIN_REACH_NONE)
            continue;
        if (tally->reach->calls[i] == PIN_REACH_SOME) {
            own *= tally->weights->partial;
            partly++;
        }
        sum += own;
        count++;
        offer(&heaviest, pin_syscalls[i].name, own);
    }
    set_part(tally, PIN_SCORE_CALLS, sum, all,
             pin_arena_printf(&tally->score->arena,
                              "%zu calls, %zu of them with some arguments; most weigh %s", count, partly,
                              list_names(tally, &heaviest)));
}

/* --- socket families --- */

static bool reaches_family(const struct pin_reach *reach, int family) {
    static const int types[] = {1, 2, 3, 5}; /* stream, datagram, raw, sequenced packets */
    static const uint64_t protocols[] = {0, 6, 17};
    int number = pin_syscall_number(reach->arch, "socket");
    for (size_t i = 0; i < PIN_COUNT(types); i++)
        for (size_t j = 0; j < PIN_COUNT(protocols); j++) {
            const uint64_t args[PIN_FILTER_ARGS_MAX] = {(uint64_t)family, (uint64_t)types[i], protocols[j]};
            if (!reach->filter.present ||
                pin_reach_passes(
                    pin_filter_judge(&reach->filter, reach->arch, (uint32_t)number, args).action))
                return true;
        }
    return false;
}

static void tally_families(const struct tally *tally) {
    double sum = 0, all = 0;
    int family;
    const char *names = "";
    for (size_t i = 0; pin_arg_family(i, &family) != NULL; i++) {
        all += tally->weights->families[i].weight;
        if (!reaches_family(tally->reach, family))
            continue;
        sum += tally->weights->families[i].weight;
        names = pin_arena_printf(&tally->score->arena, "%s%s%s", names, *names != '\0' ? ", " : "",
                                 pin_arg_family(i, &family));
    }
    set_part(tally, PIN_SCORE_FAMILIES, sum, all, *names != '\0' ? names : "no sockets");
}

/* --- files, descriptors, capabilities, identity --- */

static double workspace_weight(const struct tally *tally) {
    switch (tally->policy->filesystem.workspace) {
    case PIN_ACCESS_READ: return weight(tally, PIN_WEIGHT_WORKSPACE_READ);
    case PIN_ACCESS_COW: return weight(tally, PIN_WEIGHT_WORKSPACE_COW);
    case PIN_ACCESS_WRITE: return weight(tally, PIN_WEIGHT_WORKSPACE_WRITE);
    case PIN_ACCESS_NONE:
    case PIN_ACCESS_COUNT: break;
    }
    return 0;
}

static void tally_files(const struct tally *tally) {
    const struct pin_policy *policy = tally->policy;
    double sum = workspace_weight(tally);
    if (policy->filesystem.root == PIN_ROOT_OVERLAY)
        sum += weight(tally, PIN_WEIGHT_ROOT_OVERLAY);
    for (size_t i = 0; i < policy->filesystem.write.count; i++)
        sum +=
            weight(tally, strcmp(policy->filesystem.write.items[i].text, "/") == 0 ? PIN_WEIGHT_WRITE_ROOT
                                                                                   : PIN_WEIGHT_WRITE_PATH);
    for (size_t i = 0; i < policy->filesystem.mount_count; i++)
        sum += weight(tally, policy->filesystem.mounts[i].access == PIN_ACCESS_WRITE ? PIN_WEIGHT_MOUNT_WRITE
                                                                                     : PIN_WEIGHT_MOUNT_READ);
    set_part(tally, PIN_SCORE_FILES, sum, 100,
             pin_arena_printf(&tally->score->arena, "workspace %s, root %s, write paths: %zu, mounts: %zu",
                              pin_access_name(policy->filesystem.workspace),
                              pin_root_mode_name(policy->filesystem.root), policy->filesystem.write.count,
                              policy->filesystem.mount_count));
}

static void tally_descriptors(const struct tally *tally) {
    const struct pin_policy *policy = tally->policy;
    double sum = weight(tally, PIN_WEIGHT_STDIO);
    bool frames_out = (policy->frames & (PIN_FRAMES_STDOUT | PIN_FRAMES_STDOUT_LETTA)) != 0;
    if (policy->tty)
        sum += weight(tally, PIN_WEIGHT_TTY);
    if ((policy->frames & PIN_FRAMES_FD) != 0)
        sum += weight(tally, PIN_WEIGHT_FRAMES_FD);
    if (frames_out)
        sum += weight(tally, PIN_WEIGHT_FRAMES_STDOUT);
    set_part(tally, PIN_SCORE_DESCRIPTORS, sum, 100,
             pin_arena_printf(&tally->score->arena, "standard streams%s%s", policy->tty ? ", a terminal" : "",
                              policy->frames != PIN_FRAMES_NONE ? ", frames" : ""));
}

static void tally_capabilities(const struct tally *tally) {
    const struct pin_policy *policy = tally->policy;
    struct heaviest heaviest = {0};
    double sum = 0, all = 0;
    for (unsigned i = 0; i < PIN_CAPABILITY_COUNT; i++) {
        double own = tally->weights->capabilities[i].weight;
        all += own;
        if ((policy->capabilities >> i & 1) == 0)
            continue;
        sum += own;
        offer(&heaviest, pin_capability_name(i), own);
    }
    set_part(tally, PIN_SCORE_CAPABILITIES, policy->privileged ? all : sum, all,
             policy->privileged          ? "privileged"
             : policy->capabilities == 0 ? "none"
                                         : list_names(tally, &heaviest));
}

static void tally_identity(const struct tally *tally) {
    const struct pin_policy *policy = tally->policy;
    double sum = policy->privileged ? weight(tally, PIN_WEIGHT_PRIVILEGED) : 0;
    if (policy->identity.user == 0)
        sum += weight(tally, PIN_WEIGHT_ROOT_INSIDE);
    if (policy->identity.ids > 1)
        sum += weight(tally, PIN_WEIGHT_IDS);
    set_part(tally, PIN_SCORE_IDENTITY, sum, 100,
             pin_arena_printf(&tally->score->arena, "user %u, ids: %u%s", policy->identity.user,
                              policy->identity.ids, policy->privileged ? ", privileged" : ""));
}

/* --- egress, secrets, limits --- */

static double target_weight(const struct tally *tally, const struct pin_egress_rule *rule) {
    if (rule->host == NULL)
        return weight(tally, PIN_WEIGHT_CIDR) + (128 - rule->prefix) * weight(tally, PIN_WEIGHT_CIDR_BIT);
    if (strcmp(rule->host, PIN_HOST_INTERNAL) == 0)
        return weight(tally, PIN_WEIGHT_HOST_INTERNAL);
    return weight(tally, rule->host[0] == '*' ? PIN_WEIGHT_HOST_WILDCARD : PIN_WEIGHT_HOST_NAME);
}

static double ports_weight(const struct tally *tally, const struct pin_egress_rule *rule) {
    double ports = 0;
    for (size_t i = 0; i < rule->port_count; i++)
        ports += rule->ports[i].last - rule->ports[i].first + 1;
    return ports > 1 ? log2(ports) * weight(tally, PIN_WEIGHT_PORT) : 0;
}

static double published_weight(const struct tally *tally, const char *text) {
    struct pin_publish publish;
    bool owners = pin_publish_parse(text, &publish) && publish.at == PIN_PUBLISH_UNIX;
    return weight(tally, owners ? PIN_WEIGHT_PUBLISHED_UNIX : PIN_WEIGHT_PUBLISHED);
}

static void tally_egress(const struct tally *tally) {
    const struct pin_policy *policy = tally->policy;
    const struct pin_strings *publish = &policy->network.publish;
    double sum = 0;
    for (size_t i = 0; i < policy->network.egress_count; i++)
        sum += target_weight(tally, &policy->network.egress[i]) +
               ports_weight(tally, &policy->network.egress[i]);
    for (size_t i = 0; i < publish->count; i++)
        sum += published_weight(tally, publish->items[i].text);
    set_part(tally, PIN_SCORE_EGRESS, sum, 100,
             publish->count == 0
                 ? pin_arena_printf(&tally->score->arena, "rules: %zu", policy->network.egress_count)
                 : pin_arena_printf(&tally->score->arena, "rules: %zu, published ports: %zu",
                                    policy->network.egress_count, publish->count));
}

static void tally_secrets(const struct tally *tally) {
    size_t count = tally->policy->secrets.count;
    set_part(tally, PIN_SCORE_SECRETS, (double)count * weight(tally, PIN_WEIGHT_SECRET), 100,
             pin_arena_printf(&tally->score->arena, "secrets: %zu", count));
}

static void tally_limits(const struct tally *tally) {
    const struct pin_policy *policy = tally->policy;
    const bool missing[] = {
        policy->resources.memory_bytes == PIN_UNLIMITED,
        policy->resources.swap_bytes == PIN_UNLIMITED,
        policy->resources.millicpus == 0,
        policy->resources.pids == PIN_UNLIMITED,
        policy->resources.wall_time_ns == PIN_UNLIMITED,
        policy->resources.stdout_bytes == PIN_UNLIMITED,
        policy->resources.stderr_bytes == PIN_UNLIMITED,
    };
    unsigned lacking = 0, optional = (unsigned)__builtin_popcount(policy->optional);
    for (size_t i = 0; i < PIN_COUNT(missing); i++)
        lacking += missing[i];
    set_part(tally, PIN_SCORE_LIMITS,
             lacking * weight(tally, PIN_WEIGHT_NO_LIMIT) + optional * weight(tally, PIN_WEIGHT_OPTIONAL),
             100,
             pin_arena_printf(&tally->score->arena, "limits missing: %u, protections optional: %u", lacking,
                              optional));
}

void pin_score_make(struct pin_score *score, const struct pin_reach *reach,
                    const struct pin_weights *weights) {
    static void (*const tallies[])(const struct tally *) = {
        tally_calls,    tally_families, tally_files,   tally_descriptors, tally_capabilities,
        tally_identity, tally_egress,   tally_secrets, tally_limits,
    };
    _Static_assert(PIN_COUNT(tallies) == PIN_SCORE_PART_COUNT, "every part is tallied");
    const struct tally tally = {reach, reach->policy, weights, score};
    score->total = 0;
    for (size_t i = 0; i < PIN_COUNT(tallies); i++)
        tallies[i](&tally);
    for (size_t i = 0; i < PIN_SCORE_PART_COUNT; i++)
        score->total += score->parts[i].points;
}

void pin_score_free(struct pin_score *score) {
    pin_arena_free(&score->arena);
}

void pin_score_print(struct pin_buffer *to, const struct pin_score *score) {
    pin_buffer_printf(to, "exposure %.2f of 10\n\n", score->total);
    for (size_t i = 0; i < PIN_SCORE_PART_COUNT; i++) {
        const struct pin_score_line *line = &score->parts[i];
        pin_buffer_printf(to, "  %-12s %5.2f of %.1f  %s\n", pin_score_part_name((enum pin_score_part)i),
                          line->points, line->most, line->detail);
    }
    if (score->advice_count > 0)
        pin_buffer_add(to, "\ncheapest improvements:\n");
    for (size_t i = 0; i < score->advice_count; i++)
        pin_buffer_printf(to, "  -%.2f  %s\n         %s\n", score->advice[i].gain, score->advice[i].text,
                          score->advice[i].edit);
}

static double rounded(double value) {
    return round(value * 1000) / 1000;
}

json_t *pin_score_json(const struct pin_score *score) {
    json_t *parts = json_object(), *advice = json_array();
    for (size_t i = 0; i < PIN_SCORE_PART_COUNT; i++)
        json_object_set_new(parts, pin_score_part_name((enum pin_score_part)i),
                            json_pack("{s:f, s:f, s:s}", "points", rounded(score->parts[i].points), "most",
                                      score->parts[i].most, "detail", score->parts[i].detail));
    for (size_t i = 0; i < score->advice_count; i++)
        json_array_append_new(advice,
                              json_pack("{s:s, s:o, s:f, s:i}", "text", score->advice[i].text, "edit",
                                        json_loads(score->advice[i].edit, 0, NULL), "gain",
                                        rounded(score->advice[i].gain), "cost", (int)score->advice[i].cost));
    return json_pack("{s:f, s:o, s:o}", "score", rounded(score->total), "parts", parts, "improvements",
                     advice);
}
