#include "policy/audit/denial.h"

#include <inttypes.h>
#include <string.h>

#include "policy/audit/why.h"
#include "policy/syscalls.h"

#define USUAL_PORT 443 /* of a name that was asked for, and not connected to */

/* `otherwise`: what stood in the way, where the policy didn't; NULL: then there is nothing to tell. */
static json_t *ask(const struct pin_policy *policy, const char *line, const char *otherwise,
                   struct pin_arena *arena) {
    PIN_REACH struct pin_reach reach = {0};
    struct pin_findings found = {0};
    struct pin_error err = {0};
    struct pin_question question;
    if (!pin_question_parse_line(&question, arena, line, &err) ||
        !pin_reach_make(&reach, policy, pin_arch_native(), &found))
        return NULL;
    struct pin_answer answer = pin_why(&reach, &question, NULL, arena);
    if (pin_answer_allows(&answer) && otherwise == NULL)
        return NULL;
    if (pin_answer_allows(&answer)) {
        answer.verdict = PIN_ANSWER_DENY;
        answer.reason = otherwise;
        answer.given = answer.edit = NULL;
    }
    return pin_answer_json(&question, &answer);
}

json_t *pin_denial_of_call(const struct pin_policy *policy, const char *name,
                           const uint64_t args[PIN_FILTER_ARGS_MAX], uint8_t looked_at) {
    PIN_ARENA struct pin_arena arena = {0};
    const char *line = pin_arena_printf(&arena, "syscall %s", name);
    for (unsigned i = 0; looked_at >> i != 0; i++)
        line = pin_arena_printf(&arena, "%s 0x%" PRIx64, line, looked_at & (1u << i) ? args[i] : 0);
    return ask(policy, line, "the sandbox's own filter is narrower than the policy's", &arena);
}

/* What can't be asked about has the same form: a name that is none, for one. */
static json_t *refuse(const struct pin_policy *policy, const char *what, const char *reason) {
    const struct pin_question question = {.text = what};
    const struct pin_answer answer = {.verdict = PIN_ANSWER_DENY,
                                      .reason = reason,
                                      .rule = pin_field_pointer(PIN_FIELD_EGRESS),
                                      .place = policy->places[PIN_FIELD_EGRESS]};
    return pin_answer_json(&question, &answer);
}

/* What the broker finds out when it looks at names, addresses and bytes; the policy's rules are in why. */
static const char *words_of(struct pin_arena *arena, const char *reason) {
    static const struct {
        const char *reason, *words;
    } rows[] = {
        {"host-address",  "the allowed name leads to an address of this host"               },
        {"address-class", "the allowed name leads to an address that only a cidr rule opens"},
        {"bad-name",      "it is no host's name"                                            },
        {"not-resolved",  "the name has no address"                                         },
        {"tls-name",      "the TLS hello asks for another name, for none, or hides it"      },
        {"not-tls",       "there is no TLS hello where the rule expects one"                },
        {"http-host",     "the HTTP request is for another host"                            },
        {"not-http",      "there is no well-formed HTTP where the rule expects it"          },
        {"budget",        "a budget or a limit of network is used up"                       },
    };
    for (size_t i = 0; reason != NULL && i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].reason, reason) == 0)
            return rows[i].words;
    return pin_arena_printf(arena, "the broker refused it: %s", reason != NULL ? reason : "unknown");
}

json_t *pin_denial_of_connection(const struct pin_policy *policy, const struct pin_denied_connection *what) {
    PIN_ARENA struct pin_arena arena = {0};
    const char *target = what->host != NULL ? what->host : what->address;
    if (target == NULL)
        return refuse(policy, "connect", "there were so many that only their number is told");
    bool is_v6 = what->host == NULL && strchr(target, ':') != NULL;
    const char *line =
        pin_arena_printf(&arena, "connect %s%s%s:%u%s", is_v6 ? "[" : "", target, is_v6 ? "]" : "",
                         what->port != 0 ? what->port : USUAL_PORT, what->udp ? "/udp" : "");
    if (what->host != NULL && what->address != NULL)
        line = pin_arena_printf(&arena, "%s %s", line, what->address);
    json_t *why = ask(policy, line, words_of(&arena, what->reason), &arena);
    return why != NULL ? why : refuse(policy, line, words_of(&arena, what->reason));
}

json_t *pin_denial_of_limit(const struct pin_policy *policy, const char *limit, const char *value,
                            const char *otherwise) {
    PIN_ARENA struct pin_arena arena = {0};
    return ask(policy, pin_arena_printf(&arena, "limit %s %s", limit, value), otherwise, &arena);
}

json_t *pin_denial_of(const struct pin_policy *policy, const char *question) {
    PIN_ARENA struct pin_arena arena = {0};
    return ask(policy, question, NULL, &arena);
}
