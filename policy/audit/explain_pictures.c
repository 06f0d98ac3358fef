#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "policy/audit/explain_html.h"
#include "policy/audit/why_parts.h"
#include "policy/policy_write.h"

static void add(struct pin_buffer *to, const char *text) {
    pin_buffer_add(to, text);
}

/* --- the wall, layer by layer --- */

struct layer {
    const char *name, *class;
    char text[160];
};

static const char *class_of(unsigned openings, unsigned many) {
    return openings == 0 ? "shut" : openings < many ? "part" : "open";
}

/* More than one host. */
static bool is_broad(const struct pin_egress_rule *rule) {
    return rule->host == NULL ? rule->prefix < 128 : rule->host[0] == '*';
}

static void layer_network(const struct pin_policy *policy, struct layer *layer) {
    size_t broad = 0, count = policy->network.egress_count;
    for (size_t i = 0; i < count; i++)
        broad += is_broad(&policy->network.egress[i]);
    layer->name = "Network";
    layer->class = class_of(count > 0 ? 1 + (unsigned)broad : 0, 2);
    if (count == 0)
        (void)snprintf(layer->text, sizeof(layer->text), "nothing leaves");
    else
        (void)snprintf(layer->text, sizeof(layer->text), "%zu rule%s, %zu of them for more than one host",
                       count, count == 1 ? "" : "s", broad);
}

static void layer_files(const struct pin_policy *policy, struct layer *layer) {
    size_t writable = 0, count = policy->filesystem.mount_count;
    for (size_t i = 0; i < count; i++)
        writable += policy->filesystem.mounts[i].access == PIN_ACCESS_WRITE;
    bool overlay = policy->filesystem.root == PIN_ROOT_OVERLAY;
    bool workspace = policy->filesystem.workspace == PIN_ACCESS_WRITE;
    layer->name = "Files";
    layer->class = class_of((unsigned)(count + writable) + workspace, 3);
    (void)snprintf(layer->text, sizeof(layer->text), "root %s, workspace %s, %zu mount%s",
                   overlay ? "in an overlay" : "read-only", pin_access_name(policy->filesystem.workspace),
                   count, count == 1 ? "" : "s");
}

static void layer_identity(const struct pin_policy *policy, struct layer *layer) {
    unsigned count = (unsigned)__builtin_popcountll(policy->capabilities);
    layer->name = "Privileges";
    layer->class = policy->privileged ? "open" : class_of(count + (policy->identity.user == 0), 8);
    (void)snprintf(layer->text, sizeof(layer->text), "user %u, %u capabilit%s, never root on the host",
                   policy->identity.user, count, count == 1 ? "y" : "ies");
}

static void layer_calls(const struct pin_reach *reach, struct layer *layer) {
    unsigned open = 0, walls = 0;
    for (size_t i = 0; i < pin_syscalls_count; i++) {
        open += reach->calls[i] != PIN_REACH_NONE;
        walls += reach->calls[i] != PIN_REACH_NONE && pin_syscalls[i].never != NULL;
    }
    layer->name = "System calls";
    layer->class = walls > 0 ? "open" : "part";
    (void)snprintf(layer->text, sizeof(layer->text), "%u calls, %u of which reach through the wall", open,
                   walls);
}

static void layer_resources(const struct pin_policy *policy, struct layer *layer) {
    const bool limits[] = {policy->resources.memory_bytes == PIN_UNLIMITED, policy->resources.millicpus == 0,
                           policy->resources.pids == PIN_UNLIMITED,
                           policy->resources.wall_time_ns == PIN_UNLIMITED};
    unsigned missing = 0;
    for (size_t i = 0; i < PIN_COUNT(limits); i++)
        missing += limits[i];
    layer->name = "Resources";
    layer->class = class_of(missing, 3);
    if (missing == 0)
        (void)snprintf(layer->text, sizeof(layer->text),
                       "memory, processors, processes and time have limits");
    else
        (void)snprintf(layer->text, sizeof(layer->text),
                       "%u of memory, processors, processes and time unlimited", missing);
}

#define LAYERS 5
#define WIDTH 860
#define STEP 54

static void draw_layer(struct pin_buffer *to, const struct layer *layer, int index) {
    int x = 10 + index * 22, y = 44 + index * STEP, height = (LAYERS - index) * STEP + 78 - index * 6;
    pin_buffer_printf(to,
                      "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"10\" "
                      "stroke-width=\"2\"/><text class=\"name\" x=\"%d\" y=\"%d\">%s</text>"
                      "<text x=\"%d\" y=\"%d\">%s: ",
                      layer->class, x, y, WIDTH - 2 * x, height, x + 16, y + 30, layer->name, x + 132, y + 30,
                      strcmp(layer->class, "shut") == 0   ? "shut"
                      : strcmp(layer->class, "part") == 0 ? "some ways through"
                                                          : "many ways through");
    pin_html_text(to, layer->text);
    add(to, "</text>");
}

void pin_explain_wall(struct pin_buffer *to, const struct pin_reach *reach) {
    struct layer layers[LAYERS] = {0};
    layer_resources(reach->policy, &layers[0]);
    layer_network(reach->policy, &layers[1]);
    layer_files(reach->policy, &layers[2]);
    layer_identity(reach->policy, &layers[3]);
    layer_calls(reach, &layers[4]);
    pin_buffer_printf(to,
                      "<figure><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"wall-t wall-d\">"
                      "<title id=\"wall-t\">The wall by its layers</title><desc id=\"wall-d\">",
                      WIDTH, 44 + LAYERS * STEP + 92);
    for (int i = 0; i < LAYERS; i++) {
        pin_buffer_printf(to, "%s: ", layers[i].name);
        pin_html_text(to, layers[i].text);
        add(to, ". ");
    }
    add(to, "</desc><text x=\"12\" y=\"28\" class=\"small\">the host and its kernel</text>");
    for (int i = 0; i < LAYERS; i++)
        draw_layer(to, &layers[i], i);
    pin_buffer_printf(to,
                      "<rect class=\"plain\" x=\"140\" y=\"%d\" width=\"%d\" height=\"34\" rx=\"8\"/>"
                      "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">the contained process</text></svg>",
                      44 + LAYERS * STEP, WIDTH - 280, WIDTH / 2, 44 + LAYERS * STEP + 22);
    add(to, "<figcaption>From outside to inside. Each layer holds by itself: a way through one of them is "
            "not a way through the others.</figcaption></figure>");
}

/* --- where connections go --- */

#define ROWS_MAX 24
#define ROW_HEIGHT 32

static void draw_rule(struct pin_buffer *to, const struct pin_egress_rule *rule, size_t row, int height) {
    PIN_ARENA struct pin_arena arena = {0};
    int y = 12 + (int)row * ROW_HEIGHT;
    bool wide = is_broad(rule);
    pin_buffer_printf(
        to,
        "<path class=\"%s\" d=\"M340 %d C 400 %d, 400 %d, 450 %d\"/><rect class=\"%s\" x=\"450\" "
        "y=\"%d\" width=\"400\" height=\"26\" rx=\"6\"/><text x=\"462\" y=\"%d\">",
        wide ? "way wide" : "way", height / 2, height / 2, y + 13, y + 13, wide ? "open" : "part", y, y + 18);
    const char *text = pin_why_egress_text(&arena, rule);
    size_t length = strlen(text);
    pin_html_text(to, length <= 52 ? text : pin_arena_printf(&arena, "%.24s…%s", text, text + length - 26));
    add(to, "</text>");
}

static void draw_boxes(struct pin_buffer *to, int height, bool shut) {
    pin_buffer_printf(to,
                      "<rect class=\"plain\" x=\"10\" y=\"%d\" width=\"130\" height=\"48\" rx=\"8\"/>"
                      "<text x=\"75\" y=\"%d\" text-anchor=\"middle\" class=\"name\">sandbox</text>",
                      height / 2 - 24, height / 2 + 5);
    pin_buffer_printf(to,
                      "<path class=\"way%s\" d=\"M140 %d H 210\"/><rect class=\"%s\" x=\"210\" y=\"%d\" "
                      "width=\"130\" height=\"48\" rx=\"8\" stroke-width=\"2\"/><text x=\"275\" y=\"%d\" "
                      "text-anchor=\"middle\" class=\"name\">%s</text>",
                      shut ? " none" : "", height / 2, shut ? "shut" : "part", height / 2 - 24,
                      height / 2 + 5, shut ? "no way out" : "broker");
}

static void list_rules(struct pin_buffer *to, const struct pin_policy *policy) {
    PIN_ARENA struct pin_arena arena = {0};
    char place[PIN_PLACE_TEXT];
    pin_buffer_printf(
        to,
        "<details><summary class=\"plain\">All %zu rules</summary><div class=\"scroll\"><table><thead><tr>"
        "<th scope=\"col\">Rule</th><th scope=\"col\">Destination</th><th scope=\"col\">Place"
        "</th></tr></thead><tbody>",
        policy->network.egress_count + policy->network.deny_count);
    for (size_t i = 0; i < policy->network.egress_count + policy->network.deny_count; i++) {
        bool deny = i >= policy->network.egress_count;
        const struct pin_egress_rule *rule =
            deny ? &policy->network.deny[i - policy->network.egress_count] : &policy->network.egress[i];
        pin_buffer_printf(to, "<tr><td><span class=\"tag %s\">%s</span></td><td class=\"mono\">",
                          deny ? "no" : "yes", deny ? "deny" : "allow");
        pin_html_text(to, pin_why_egress_text(&arena, rule));
        add(to, "</td><td class=\"place mono\">");
        pin_html_text(to, pin_place_print(place, &rule->place));
        add(to, "</td></tr>");
    }
    add(to, "</tbody></table></div></details>");
}

void pin_explain_egress_map(struct pin_buffer *to, const struct pin_policy *policy) {
    size_t count = policy->network.egress_count, shown = count < ROWS_MAX ? count : ROWS_MAX;
    size_t rows = shown + (count > shown);
    int height = rows * ROW_HEIGHT + 24 > 120 ? (int)rows * ROW_HEIGHT + 24 : 120;
    pin_buffer_printf(to,
                      "<figure><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"map-t map-d\">"
                      "<title id=\"map-t\">Where connections can go</title><desc id=\"map-d\">%zu rules let "
                      "connections leave by the broker; the list below has them all.</desc>",
                      WIDTH, height, count);
    draw_boxes(to, height, count == 0);
    for (size_t i = 0; i < shown; i++)
        draw_rule(to, &policy->network.egress[i], i, height);
    if (count > shown)
        pin_buffer_printf(to,
                          "<text x=\"462\" y=\"%d\" class=\"small\">and %zu more, in the list below</text>",
                          12 + (int)shown * ROW_HEIGHT + 18, count - shown);
    if (count == 0)
        pin_buffer_printf(to, "<text x=\"462\" y=\"%d\">no host, no name, no address</text>", height / 2 + 5);
    add(to, "</svg><figcaption>Every connection is made by the broker, which judges name, address and port. "
            "Thick "
            "lines stand for more than one host.</figcaption></figure>");
    if (count + policy->network.deny_count > 0)
        list_rules(to, policy);
}

/* --- system calls --- */

static void add_call(struct pin_buffer *to, const struct pin_reach *reach, size_t row) {
    static const char *const classes[] = {"no", "some", "yes"};
    PIN_ARENA struct pin_arena arena = {0};
    const struct pin_syscall *call = &pin_syscalls[row];
    char place[PIN_PLACE_TEXT];
    size_t count;
    const struct pin_filter_rule *rules = pin_reach_rules(reach, call->name, &count);
    struct pin_reach_source source = pin_reach_source(reach, &arena, call);
    enum pin_reach_kind kind = reach->calls[row];
    pin_buffer_printf(to,
                      "<tr><th scope=\"row\" class=\"mono\">%s</th><td class=\"number\">%d</td><td><span "
                      "class=\"tag %s\">%s</span></td><td>",
                      call->name, call->number[reach->arch], classes[kind],
                      kind == PIN_REACH_SOME ? "some" : pin_reach_kind_name(kind));
    for (size_t i = 0; i < count && kind == PIN_REACH_SOME; i++) {
        if (!pin_reach_passes(rules[i].action))
            continue;
        add(to, i > 0 ? "; " : "");
        pin_html_text(to, pin_reach_describe(&arena, &rules[i]));
    }
    if (kind == PIN_REACH_NONE && call->never != NULL)
        pin_html_text(to, pin_arena_printf(&arena, "it %s", call->never));
    add(to, "</td><td class=\"place mono\">");
    pin_html_text(to, pin_place_print(place, &source.place));
    add(to, "</td></tr>");
}

static void add_group(struct pin_buffer *to, const struct pin_reach *reach,
                      const struct pin_syscall_set *group) {
    size_t known = 0, all = 0, some = 0;
    for (size_t i = 0; i < group->count; i++) {
        known += pin_syscalls[group->rows[i]].number[reach->arch] >= 0;
        all += reach->calls[group->rows[i]] == PIN_REACH_ALL;
        some += reach->calls[group->rows[i]] == PIN_REACH_SOME;
    }
    if (known == 0)
        return;
    pin_buffer_printf(
        to,
        "<details><summary><span class=\"mono\">%s</span><span>%s</span><span><span class=\"bar\" "
        "aria-hidden=\"true\"><i class=\"open\" style=\"width:%zu%%\"></i><i class=\"part\" "
        "style=\"width:%zu%%\"></i></span><span class=\"dim\">%zu of %zu%s</span></span></summary>",
        group->name, group->summary, all * 100 / known, some * 100 / known, all + some, known,
        some > 0 ? ", some in part" : "");
    pin_buffer_printf(
        to,
        "<div class=\"scroll\"><table><caption>Calls of %s</caption><thead><tr><th scope=\"col\">"
        "Call</th><th scope=\"col\">Number</th><th scope=\"col\">Allowed</th><th scope=\"col\">"
        "Arguments</th><th scope=\"col\">Place</th></tr></thead><tbody>",
        group->name);
    for (size_t i = 0; i < group->count; i++)
        if (pin_syscalls[group->rows[i]].number[reach->arch] >= 0)
            add_call(to, reach, group->rows[i]);
    add(to, "</tbody></table></div></details>");
}

void pin_explain_call_table(struct pin_buffer *to, const struct pin_reach *reach) {
    for (size_t i = 0; i < pin_syscall_groups_count; i++)
        add_group(to, reach, &pin_syscall_groups[i]);
}
