#include "policy_random.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "policy/policy_read.h"

uint32_t random_below(struct random *random, uint32_t limit) {
    random->state ^= random->state << 13; /* xorshift64 */
    random->state ^= random->state >> 7;
    random->state ^= random->state << 17;
    return (uint32_t)((random->state >> 16) % limit);
}

struct text {
    char *to;
    size_t used;
    struct random *random;
    unsigned percent;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text->to + text->used, RANDOM_POLICY_TEXT - text->used, format, args);
    va_end(args);
    if (size < 0 || text->used + (size_t)size >= RANDOM_POLICY_TEXT)
        abort();
    text->used += (size_t)size;
}

#define PICK(random, pool) ((pool)[random_below(random, PIN_COUNT(pool))])

/* A field with one of the values of its pool, sometimes. */
#define FIELD(text, key, pool)                                                                               \
    do {                                                                                                     \
        if (random_below((text)->random, 100) < (text)->percent)                                             \
            add(text, "%s\"%s\": %s", (text)->to[(text)->used - 1] == '{' ? "" : ", ", key,                  \
                PICK((text)->random, pool));                                                                 \
    } while (0)

typedef void add_item(struct text *text);

static void add_list(struct text *text, const char *key, add_item *item) {
    if (random_below(text->random, 100) >= text->percent)
        return;
    add(text, "%s\"%s\": [", text->to[text->used - 1] == '{' ? "" : ", ", key);
    for (uint32_t left = random_below(text->random, 4); left > 0; left--) {
        item(text);
        add(text, "%s", left > 1 ? ", " : "");
    }
    add(text, "]");
}

static void open_object(struct text *text, const char *key) {
    add(text, "%s\"%s\": {", text->to[text->used - 1] == '{' ? "" : ", ", key);
}

static const char *const hosts[] = {"a.x.com", "*.x.com", "*.a.x.com", "b.a.x.com",
                                    "x.com",   "b.org",   "*.b.org"};
static const char *const ranges[] = {"10.0.0.0/8",     "10.1.0.0/16",    "10.1.2.3", "0.0.0.0/0",
                                     "8.0.0.0/5",      "2001:db8::/32",  "::/0",     "127.0.0.0/8",
                                     "169.254.0.0/16", "169.254.169.254"};
static const char *const ports[] = {"443",         "80",      "\"1-100\"",  "\"50-500\"",
                                    "\"1-65535\"", "443, 80", "\"101-442\""};

static void put_destination(struct random *random, char to[RANDOM_DESTINATION_TEXT], const char *rest) {
    if (random_below(random, 3) > 0 || strstr(rest, "inspect") != NULL || strstr(rest, "accept") != NULL)
        (void)snprintf(to, RANDOM_DESTINATION_TEXT, "{\"host\": \"%s\", \"ports\": [%s]%s}",
                       PICK(random, hosts), PICK(random, ports), rest);
    else
        (void)snprintf(to, RANDOM_DESTINATION_TEXT, "{\"cidr\": \"%s\", \"ports\": [%s]%s}",
                       PICK(random, ranges), PICK(random, ports), rest);
}

char *random_destination(struct random *random, char to[RANDOM_DESTINATION_TEXT]) {
    put_destination(random, to, random_below(random, 4) == 0 ? ", \"protocol\": \"udp\"" : "");
    return to;
}

/* Each budget is declared by every policy, with limits of its own. */
static const char *const terms[] = {", \"inspect\": \"none\"",
                                    ", \"inspect\": \"tls\"",
                                    ", \"inspect\": \"http\"",
                                    ", \"accept\": [\"no-name\"]",
                                    ", \"inspect\": \"tls\", \"accept\": [\"no-name\", \"plain-text\"]",
                                    ", \"budget\": \"x\"",
                                    ", \"budget\": \"y\", \"protocol\": \"udp\"",
                                    ", \"inspect\": \"none\", \"budget\": \"y\""};

static void egress(struct text *text) {
    char rule[RANDOM_DESTINATION_TEXT];
    if (random_below(text->random, 3) == 0)
        put_destination(text->random, rule, PICK(text->random, terms));
    else
        (void)random_destination(text->random, rule);
    add(text, "%s", rule);
}

static void deny(struct text *text) {
    char rule[RANDOM_DESTINATION_TEXT];
    put_destination(text->random, rule, "");
    add(text, "%s", rule);
}

static void image(struct text *text) {
    static const char *const pool[] = {
        "\"*\"",
        "\"host\"",
        "\"py*\"",
        "\"python-*\"",
        "\"python-3\"",
        "{\"pattern\": \"py*\", \"require_signature\": true, \"keys\": [\"/k1\"]}",
        "{\"pattern\": \"*\", \"require_signature\": true, \"keys\": [\"/k2\", \"/k1\"]}"};
    add(text, "%s", PICK(text->random, pool));
}

static void mount(struct text *text) {
    static const char *const sources[] = {"/srv", "/srv/models", "/srv/models/a", "/data"};
    static const char *const targets[] = {"/m", "/m/a", "/opt/data"};
    static const char *const access[] = {"read-only", "read-write"};
    add(text, "{\"source\": \"%s\", \"target\": \"%s\", \"access\": \"%s\"}", PICK(text->random, sources),
        PICK(text->random, targets), PICK(text->random, access));
}

static void any_path(struct text *text) {
    static const char *const pool[] = {"/", "/tmp", "/var", "/dev/shm"};
    add(text, "\"%s\"", PICK(text->random, pool));
}

static void path(struct text *text) {
    static const char *const pool[] = {"/dev/shm", "/tmp", "/tmp/x", "/workspace", "/var/lib", "/var"};
    add(text, "\"%s\"", PICK(text->random, pool));
}

#define WITH_ARG(name, op, value)                                                                            \
    "{\"name\": \"" name "\", \"args\": [{\"index\": 1, \"op\": \"" op "\", \"value\": " value "}]}"

static void call(struct text *text) {
    static const char *const pool[] = {"\"read\"",
                                       "\"socket\"",
                                       "\"@inotify\"",
                                       "\"inotify_init1\"",
                                       "\"memfd_create\"",
                                       WITH_ARG("memfd_create", "eq", "1"),
                                       WITH_ARG("memfd_create", "le", "7"),
                                       "\"personality\"",
                                       "\"clone\""};
    add(text, "%s", PICK(text->random, pool));
}

static void denied_call(struct text *text) {
    static const char *const pool[] = {
        "\"read\"",
        "\"socket\"",
        "\"@inotify\"",
        "\"inotify_init1\"",
        "\"memfd_create\"",
        "\"clone\"",
        ("{\"name\": \"read\", \"args\": [{\"index\": 0, \"op\": \"masked_eq\", \"value\": 3, \"mask\": "
         "\"0xffffffff\"}]}")};
    add(text, "%s", PICK(text->random, pool));
}

static void capability(struct text *text) {
    static const char *const pool[] = {"CAP_CHOWN", "CAP_KILL", "CAP_NET_RAW"};
    add(text, "\"%s\"", PICK(text->random, pool));
}

static void variable(struct text *text) {
    static const char *const pool[] = {"LANG", "TZ", "TERM"};
    add(text, "\"%s\"", PICK(text->random, pool));
}

static void pattern(struct text *text) {
    static const char *const pool[] = {"LD_*", "LD_PRELOAD", "*_TOKEN", "*", "AWS_*"};
    add(text, "\"%s\"", PICK(text->random, pool));
}

static void secret(struct text *text) {
    static const char *const pool[] = {"KEY_A", "KEY_B", "TOKEN"};
    add(text, "\"%s\"", PICK(text->random, pool));
}

static void record(struct text *text) {
    static const char *const pool[] = {"lifecycle", "egress", "syscalls"};
    add(text, "\"%s\"", PICK(text->random, pool));
}

static void space(struct text *text) {
    static const char *const pool[] = {"user", "pid", "network", "cgroup"};
    add(text, "\"%s\"", PICK(text->random, pool));
}

static void host_path(struct text *text) {
    static const char *const pool[] = {"/srv", "/srv/a", "/srv/*", "/srv/*/x", "/var", "/srv/a/x/y"};
    add(text, "\"%s\"", PICK(text->random, pool));
}

static void hook(struct text *text) {
    static const char *const pool[] = {"/usr/bin/a", "/usr/bin/a one", "/usr/bin/*", "/usr/bin/a *"};
    add(text, "\"%s\"", PICK(text->random, pool));
}

static void frame(struct text *text) {
    static const char *const pool[] = {"fd", "stdout", "stdout-letta"};
    add(text, "\"%s\"", PICK(text->random, pool));
}

static void protection(struct text *text) {
    static const char *const pool[] = {"memory", "swap", "landlock"};
    add(text, "\"%s\"", PICK(text->random, pool));
}

static const char *const proxies[] = {"{\"url\": \"http://p.example.com:3128\"}",
                                      "{\"url\": \"socks5://10.0.0.1:1080\", \"secret\": \"KEY_A\"}"};
static const char *const published_ports[] = {"80=127.0.0.1:0", "80=127.0.0.1:8080", "80=unix:web",
                                              "81=[::1]:0"};
static void published(struct text *text) {
    add(text, "\"%s\"", PICK(text->random, published_ports));
}

static const char *const unknown[] = {"\"nxdomain\"", "\"refused\""};
static const char *const failure[] = {"\"refuse\"", "\"count\""};
static const char *const sizes[] = {"\"1MiB\"", "\"64MiB\"", "\"3GiB\"", "\"unlimited\""};
static const char *const bounded[] = {"0", "\"1MiB\"", "\"64MiB\"", "\"1GiB\""};
static const char *const counts[] = {"8", "64", "1000"};
static const char *const times[] = {"\"1s\"", "\"30s\"", "\"2h\"", "\"unlimited\""};
static const char *const graces[] = {"\"0s\"", "\"2s\"", "\"1m\""};
static const char *const cpus[] = {"0.5", "1", "\"8\"", "\"unlimited\""};
static const char *const flags[] = {"true", "false"};
static const char *const accesses[] = {"\"none\"", "\"read-only\"", "\"copy-on-write\"", "\"read-write\""};
static const char *const roots[] = {"\"read-only\"", "\"overlay\""};
static const char *const storages[] = {"\"memory\"", "\"disk\""};
static const char *const caps[] = {"\"discard\"", "\"kill\""};
static const char *const denials[] = {"\"errno\"", "\"kill\""};
static const char *const baselines[] = {"\"strict\"", "\"tool\"", "\"build\"", "\"oci\""};
static const char *const ids[] = {"0", "1000", "1001"};
static const char *const id_counts[] = {"1", "65536"};

static void add_filesystem(struct text *text) {
    bool whole = random_below(text->random, 6) == 0; /* "/" may be written in an overlay alone */
    open_object(text, "filesystem");
    if (whole)
        add(text, "\"root\": \"overlay\"");
    else
        FIELD(text, "root", roots);
    FIELD(text, "root_size", sizes);
    FIELD(text, "root_storage", storages);
    open_object(text, "workspace");
    FIELD(text, "access", accesses);
    FIELD(text, "size", sizes);
    add(text, "}");
    add_list(text, "write", whole ? any_path : path);
    FIELD(text, "tmp", bounded);
    add_list(text, "mounts", mount);
    add(text, "}");
}

static void add_resources(struct text *text) {
    open_object(text, "resources");
    FIELD(text, "memory", sizes);
    FIELD(text, "swap", sizes);
    FIELD(text, "cpus", cpus);
    FIELD(text, "pids", counts);
    FIELD(text, "files", counts);
    FIELD(text, "core", sizes);
    FIELD(text, "wall_time", times);
    FIELD(text, "cpu_time", times);
    FIELD(text, "grace", graces);
    FIELD(text, "stdout", sizes);
    FIELD(text, "stderr", sizes);
    FIELD(text, "frame", bounded);
    FIELD(text, "on_output_cap", caps);
    add(text, "}");
}

static void add_rest(struct text *text) {
    open_object(text, "network");
    add_list(text, "egress", egress);
    add_list(text, "deny", deny);
    add_list(text, "publish", published);
    add(text,
        "%s\"budgets\": [{\"name\": \"x\", \"bytes_out\": %s, \"connections\": %s}, {\"name\": \"y\", "
        "\"rate\": %s}]",
        text->to[text->used - 1] == '{' ? "" : ", ", PICK(text->random, sizes), PICK(text->random, counts),
        PICK(text->random, sizes));
    FIELD(text, "unknown_names", unknown);
    FIELD(text, "upstream_proxy", proxies);
    open_object(text, "limits");
    FIELD(text, "connections", counts);
    FIELD(text, "bytes_out", sizes);
    FIELD(text, "idle", times);
    FIELD(text, "names", counts);
    add(text, "}}");
    open_object(text, "syscalls");
    FIELD(text, "baseline", baselines);
    add_list(text, "allow", call);
    add_list(text, "deny", denied_call);
    FIELD(text, "on_deny", denials);
    add(text, "}");
    add_list(text, "capabilities", capability);
    open_object(text, "identity");
    FIELD(text, "user", ids);
    FIELD(text, "group", ids);
    FIELD(text, "ids", id_counts);
    add(text, "}");
    open_object(text, "environment");
    add_list(text, "pass", variable);
    add_list(text, "refuse", pattern);
    add(text, "}");
    add_list(text, "secrets", secret);
    FIELD(text, "privileged", flags);
    open_object(text, "engine");
    add_list(text, "shares", space);
    add_list(text, "joins", space);
    add_list(text, "roots", host_path);
    add_list(text, "read", host_path);
    add_list(text, "write", host_path);
    add_list(text, "hooks", hook);
    add_list(text, "cgroups", host_path);
    FIELD(text, "unfiltered", flags);
    add(text, "}");
    FIELD(text, "tty", flags);
    add_list(text, "frames", frame);
    open_object(text, "audit");
    add_list(text, "record", record);
    FIELD(text, "sync", flags);
    FIELD(text, "on_failure", failure);
    add_list(text, "require_labels", secret);
    open_object(text, "require_labels_for");
    add_list(text, "secrets", secret);
    add_list(text, "egress", secret);
    add_list(text, "privileged", secret);
    add(text, "}");
    add(text, "}");
    add_list(text, "optional", protection);
}

char *random_policy_text(struct random *random, unsigned percent, char to[RANDOM_POLICY_TEXT]) {
    struct text text = {to, 0, random, percent};
    add(&text, "{\"pinfold\": 1");
    add_list(&text, "images", image);
    add_filesystem(&text);
    add_resources(&text);
    add_rest(&text);
    add(&text, "}");
    return to;
}

struct pin_policy *random_policy(struct random *random, unsigned percent) {
    static char text[RANDOM_POLICY_TEXT];
    static struct pin_findings found;
    memset(&found, 0, sizeof(found));
    (void)random_policy_text(random, percent, text);
    struct pin_policy *policy = pin_policy_parse("random.json", text, strlen(text), &found);
    if (policy == NULL) {
        (void)fprintf(stderr, "%s: %s\n%s\n", found.list[0].pointer, found.list[0].message, text);
        abort();
    }
    return policy;
}
