#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "runtime/bundle/bundle_write.h"

/* NAME=VALUE as NAME=sha256:…: equal values have equal digests, and the text holds no value. */
static const char *digest_variable(struct pin_arena *arena, const char *variable) {
    const char *value = strchr(variable, '=');
    uint8_t digest[PIN_SHA256_SIZE];
    char printed[PIN_DIGEST_TEXT];
    if (value == NULL)
        return variable;
    pin_sha256(value + 1, strlen(value + 1), digest);
    return pin_arena_printf(arena, "%.*s=%s", (int)(value - variable), variable,
                            pin_digest_print(printed, digest));
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void digest_environment(struct pin_arena *arena, struct pin_bundle *copy) {
    const char **env = pin_arena_array(arena, copy->process.env_count, sizeof(*env));
    for (size_t i = 0; i < copy->process.env_count; i++)
        env[i] = digest_variable(arena, copy->process.env[i]);
    if (copy->process.env_count > 0)
        qsort(env, copy->process.env_count, sizeof(*env), compare_texts); /* the order says nothing */
    copy->process.env = env;
}

/* What one command differs in from the next in the same sandbox. */
static void forget_command(struct pin_bundle *copy) {
    copy->process.args = NULL;
    copy->process.arg_count = 0;
    copy->process.cwd = NULL;
    copy->process.terminal = false;
    copy->process.console_rows = copy->process.console_columns = 0;
}

/* Where a rule stands in its file says nothing about what it grants. */
static struct pin_egress_rule *without_places(struct pin_arena *arena, const struct pin_egress_rule *rules,
                                              size_t count) {
    struct pin_egress_rule *copy = pin_arena_array(arena, count, sizeof(*copy));
    for (size_t i = 0; i < count; i++) {
        copy[i] = rules[i];
        copy[i].place = (struct pin_place){0};
    }
    return copy;
}

static void forget_places(struct pin_arena *arena, struct pin_bundle *copy) {
    copy->ext.egress = without_places(arena, copy->ext.egress, copy->ext.egress_count);
    copy->ext.egress_deny = without_places(arena, copy->ext.egress_deny, copy->ext.egress_deny_count);
    copy->ext.place_count = 0;
}

static bool has_policy(const struct pin_bundle *bundle) {
    static const uint8_t none[PIN_SHA256_SIZE];
    return memcmp(bundle->ext.policy_digest, none, sizeof(none)) != 0;
}

bool pin_bundle_fingerprint(const struct pin_bundle *bundle, uint8_t digest[PIN_SHA256_SIZE],
                            struct pin_error *err) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_bundle copy = *bundle; /* shallow */
    size_t size;
    digest_environment(&arena, &copy);
    forget_command(&copy);
    forget_places(&arena, &copy);
    if (has_policy(bundle)) /* its digest and this program's version say what the filter is */
        copy.seccomp = (struct pin_filter){0};
    PIN_FREE char *text = pin_bundle_print(&copy, false, &size, err);
    if (text == NULL)
        return false;
    /* a skeleton root follows from the image's name, the identity and the host name, which are in the text */
    pin_sha256_pair(PIN_VERSION, sizeof(PIN_VERSION), text, size, digest);
    return true;
}
