/* Diff is wider exactly when some probe is allowed by B and not by A: layer by layer, in universes so small
 * that the probes meet every corner of them. Destinations have theirs in test_audit_diff.c. */
#include "audit_fixture.h"

#include "base/text.h"
#include "policy/audit/diff.h"
#include "policy/checks.h"
#include "policy/egress_terms.h"
#include "policy/policy_read.h"
#include "policy_random.h"

#define PAIRS 400 /* of each layer */
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

struct subject {
    const struct pin_policy *policy;
    const struct pin_reach *reach;
};

struct layer {
    const char *name;
    void (*write)(struct random *random, struct pin_buffer *to); /* a fragment of a policy */
    bool (*allows)(const struct subject *subject, size_t probe);
    size_t probes;
};

/* Each item of the list stands in it once in two. */
static void some_of(struct random *random, struct pin_buffer *to, const char *const *items, size_t count) {
    const char *comma = "";
    for (size_t i = 0; i < count; i++)
        if (random_below(random, 2) == 0) {
            pin_buffer_printf(to, "%s%s", comma, items[i]);
            comma = ", ";
        }
}

static bool asks(const struct subject *subject, const char *line) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_answer answer = ask(subject->reach, &arena, line);
    return pin_answer_allows(&answer);
}

/* --- capabilities --- */

static void write_capabilities(struct random *random, struct pin_buffer *to) {
    static const char *const names[] = {"\"CAP_CHOWN\"", "\"CAP_KILL\"", "\"CAP_SETUID\"", "\"CAP_NET_RAW\""};
    pin_buffer_add(to, "\"capabilities\": [");
    some_of(random, to, names, COUNT(names));
    pin_buffer_add(to, "]");
}

static bool has_capability(const struct subject *subject, size_t probe) {
    return (subject->policy->capabilities >> probe & 1) != 0;
}

/* --- limits --- */

static const char *const limits[] = {"memory", "swap",  "stdout",    "stderr",  "core",
                                     "pids",   "files", "wall_time", "cpu_time"};
static const char *const values[][5] = {
    {"1MiB", "64MiB", "65MiB", "3GiB", "unlimited"},
    {"8",    "9",     "64",    "65",   "1000"     },
    {"1s",   "30s",   "31s",   "2h",   "unlimited"},
};
static size_t kind_of(size_t limit) {
    return limit < 5 ? 0 : limit < 7 ? 1 : 2;
}

static void write_limits(struct random *random, struct pin_buffer *to) {
    pin_buffer_add(to, "\"resources\": {");
    for (size_t i = 0; i < COUNT(limits); i++) {
        const char *quote = kind_of(i) == 1 ? "" : "\"", *value = values[kind_of(i)][random_below(random, 5)];
        pin_buffer_printf(to, "%s\"%s\": %s%s%s", i > 0 ? ", " : "", limits[i], quote, value, quote);
    }
    pin_buffer_add(to, "}");
}

static bool within_limit(const struct subject *subject, size_t probe) {
    char line[64];
    (void)snprintf(line, sizeof(line), "limit %s %s", limits[probe / 5],
                   values[kind_of(probe / 5)][probe % 5]);
    return asks(subject, line);
}

/* --- files --- */

static void write_paths(struct random *random, struct pin_buffer *to) {
    static const char *const paths[] = {"\"/tmp\"", "\"/tmp/x\"", "\"/srv\"", "\"/opt/data\"",
                                        "\"/opt/data/a\""};
    pin_buffer_add(to, "\"filesystem\": {\"write\": [");
    some_of(random, to, paths, COUNT(paths));
    pin_buffer_add(to, "]}");
}

static bool may_write(const struct subject *subject, size_t probe) {
    static const char *const questions[] = {"write /tmp/a",      "write /tmp/x/a",      "write /srv/a",
                                            "write /opt/data/b", "write /opt/data/a/b", "write /opt/b"};
    return asks(subject, questions[probe]);
}

/* --- system calls, with arguments --- */

#define ARGS(op, value)                                                                                      \
    "{\"name\": \"memfd_create\", \"args\": [{\"index\": 1, \"op\": \"" op "\", \"value\": " value "}]}"

static void write_calls(struct random *random, struct pin_buffer *to) {
    static const char *const allowed[] = {"\"inotify_init1\"", ARGS("eq", "1"), ARGS("eq", "3"),
                                          ARGS("eq", "9"), "\"@aio\""};
    static const char *const denied[] = {"\"inotify_init1\"", "\"memfd_create\"", "\"io_setup\"", "\"read\""};
    pin_buffer_add(to, "\"syscalls\": {\"allow\": [");
    some_of(random, to, allowed, COUNT(allowed));
    pin_buffer_add(to, "], \"deny\": [");
    some_of(random, to, denied, COUNT(denied));
    pin_buffer_add(to, "]}");
}

static bool may_call(const struct subject *subject, size_t probe) {
    static const char *const calls[] = {"inotify_init1", "memfd_create", "io_setup",
                                        "io_submit",     "read",         "write"};
    const uint64_t args[PIN_FILTER_ARGS_MAX] = {0, probe % 12};
    int number = pin_syscall_number(subject->reach->arch, calls[probe / 12]);
    return pin_reach_passes(
        pin_filter_judge(&subject->reach->filter, subject->reach->arch, (uint32_t)number, args).action);
}

/* --- secrets --- */

static void write_secrets(struct random *random, struct pin_buffer *to) {
    static const char *const names[] = {"\"KEY_A\"", "\"KEY_B\"", "\"TOKEN\""};
    pin_buffer_add(to, "\"secrets\": [");
    some_of(random, to, names, COUNT(names));
    pin_buffer_add(to, "]");
}

static bool may_have_secret(const struct subject *subject, size_t probe) {
    static const char *const questions[] = {"secret KEY_A", "secret KEY_B", "secret TOKEN", "secret OTHER"};
    return asks(subject, questions[probe]);
}

/* --- images and their signatures --- */

static void write_images(struct random *random, struct pin_buffer *to) {
    static const char *const rules[] = {
        "\"host\"", "\"py*\"", "\"python-3\"",
        "{\"pattern\": \"*\", \"require_signature\": true, \"keys\": [\"/k/1\"]}",
        "{\"pattern\": \"node\", \"require_signature\": true, \"keys\": [\"/k/1\", \"/k/2\"]}"};
    pin_buffer_add(to, "\"images\": [");
    some_of(random, to, rules, COUNT(rules));
    pin_buffer_add(to, "]");
}

/* Some rule matches the image, and has a key that it is signed with, or wants none. */
static bool may_run_image(const struct subject *subject, size_t probe) {
    static const char *const images[] = {"host", "python-3", "pypy", "node", "other"};
    static const char *const signers[] = {NULL, "/k/1", "/k/2"};
    const char *image = images[probe / 3], *signer = signers[probe % 3];
    for (size_t i = 0; i < subject->policy->image_count; i++) {
        const struct pin_image_rule *rule = &subject->policy->images[i];
        bool good = !rule->require_signature;
        for (size_t j = 0; j < rule->keys.count && signer != NULL; j++)
            good |= strcmp(rule->keys.items[j].text, signer) == 0;
        if (good && pin_glob_match(rule->pattern, image))
            return true;
    }
    return false;
}

/* --- the terms of a destination: what may be said there, and out of which budget ---
 *
 * HTTP is left out: a rule for TLS that lets plain text pass lets HTTP pass, too, and the order doesn't say
 * so.
 */

static void write_terms(struct random *random, struct pin_buffer *to) {
    static const char *const accepted[] = {"\"no-name\"", "\"encrypted-hello\"", "\"plain-text\""};
    bool looks = random_below(random, 3) > 0;
    pin_buffer_add(
        to, "\"network\": {\"budgets\": [{\"name\": \"x\", \"connections\": 5}], \"egress\": [{\"host\": "
            "\"a.test\", \"ports\": [443]");
    pin_buffer_printf(to, ", \"inspect\": \"%s\"", looks ? "tls" : "none");
    if (looks) {
        pin_buffer_add(to, ", \"accept\": [");
        some_of(random, to, accepted, COUNT(accepted));
        pin_buffer_add(to, "]");
    }
    pin_buffer_printf(to, "%s}]}", random_below(random, 2) == 0 ? ", \"budget\": \"x\"" : "");
}

#define ANOTHER_NAME (1u << 31) /* in a TLS hello: nothing accepts that */

static bool may_say(const struct subject *subject, size_t probe) {
    static const uint32_t needed[] = {0, PIN_ACCEPT_NO_NAME, PIN_ACCEPT_ENCRYPTED_HELLO,
                                      PIN_ACCEPT_PLAIN_TEXT, ANOTHER_NAME};
    const struct pin_egress_rule *rule = subject->policy->network.egress;
    uint32_t said = needed[probe % COUNT(needed)];
    bool spent = probe >= COUNT(needed); /* the budget */
    if (spent && rule->budget != NULL)
        return false;
    return pin_egress_inspection(rule, 443) == PIN_INSPECT_NONE || (rule->accept & said) == said;
}

/* --- ways out of the sandbox that are on or off --- */

static void write_switches(struct random *random, struct pin_buffer *to) {
    static const char *const frames[] = {"\"fd\"", "\"stdout\"", "\"stdout-letta\""};
    static const char *const optional[] = {"\"memory\"", "\"swap\"", "\"landlock\""};
    static const char *const recorded[] = {"\"lifecycle\"", "\"egress\"", "\"syscalls\""};
    static const char *const flags[] = {"true", "false"};
    pin_buffer_printf(to, "\"tty\": %s, \"frames\": [", flags[random_below(random, 2)]);
    some_of(random, to, frames, COUNT(frames));
    pin_buffer_add(to, "], \"optional\": [");
    some_of(random, to, optional, COUNT(optional));
    pin_buffer_add(to, "], \"audit\": {\"record\": [");
    some_of(random, to, recorded, COUNT(recorded));
    pin_buffer_add(to, "]}");
}

static bool is_on(const struct subject *subject, size_t probe) {
    static const char *const words[] = {"lifecycle", "egress", "syscalls"};
    const struct pin_policy *policy = subject->policy;
    if (probe == 0)
        return policy->tty;
    if (probe <= 8)
        return (policy->frames >> (probe - 1) & 1) != 0;
    if (probe <= 40)
        return (policy->optional >> (probe - 9) & 1) != 0;
    for (size_t i = 0; i < policy->audit.record.count; i++)
        if (strcmp(policy->audit.record.items[i].text, words[probe - 41]) == 0)
            return false; /* it can't be done without a record */
    return true;
}

static const struct layer layers[] = {
    {"capabilities",           write_capabilities, has_capability,  PIN_CAPABILITY_COUNT},
    {"limits",                 write_limits,       within_limit,    5 * COUNT(limits)   },
    {"files",                  write_paths,        may_write,       6                   },
    {"system calls",           write_calls,        may_call,        6 * 12              },
    {"secrets",                write_secrets,      may_have_secret, 4                   },
    {"images",                 write_images,       may_run_image,   5 * 3               },
    {"terms of a destination", write_terms,        may_say,         10                  },
    {"switches",               write_switches,     is_on,           44                  },
};

static struct pin_policy *draw(const struct layer *layer, struct random *random) {
    PIN_BUFFER struct pin_buffer text = {0};
    layer->write(random, &text);
    pin_buffer_add(&text, "");
    return policy_of(text.data);
}

static void check_pair(const struct layer *layer, uint64_t seed, size_t *wider, size_t *not_wider) {
    struct random random = {seed * UINT64_C(0x9E3779B97F4A7C15)};
    PIN_REACH struct pin_reach from;
    PIN_REACH struct pin_reach to;
    PIN_DIFF struct pin_diff diff = {0};
    struct pin_policy *a = draw(layer, &random), *b = draw(layer, &random);
    reach_of(&from, a);
    reach_of(&to, b);
    const struct subject before = {a, &from}, after = {b, &to};
    pin_diff_make(&diff, &from, &to);
    bool opened = false, closed = false;
    for (size_t i = 0; i < layer->probes; i++) {
        bool was = layer->allows(&before, i), is = layer->allows(&after, i);
        opened |= is && !was;
        closed |= was && !is;
    }
    if (diff.wider != opened || diff.narrower != closed)
        fail_msg("%s, seed %llu: wider %d and a probe opened %d; narrower %d and one closed %d", layer->name,
                 (unsigned long long)seed, diff.wider, opened, diff.narrower, closed);
    *(diff.wider ? wider : not_wider) += 1;
    pin_policy_free(a);
    pin_policy_free(b);
}

static void each_layer_is_wider_exactly_when_a_probe_is(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(layers); i++) {
        size_t wider = 0, not_wider = 0;
        for (uint64_t seed = 1; seed <= PAIRS; seed++)
            check_pair(&layers[i], seed, &wider, &not_wider);
        if (wider < PAIRS / 10 || not_wider == 0)
            fail_msg("%s: %zu of %d pairs are wider: the test says little", layers[i].name, wider, PAIRS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_layer_is_wider_exactly_when_a_probe_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
