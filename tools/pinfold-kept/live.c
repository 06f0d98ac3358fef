#include "tools/pinfold-kept/live.h"

#include <string.h>

#include "base/names.h"
#include "base/units.h"
#include "policy/egress_rule.h"
#include "policy/egress_terms.h"
#include "policy/policy_order.h"
#include "policy/policy_read.h"
#include "policy/policy_write.h"

#define REQUEST "the request"

struct pin_egress_plan pin_live_egress_plan(const struct pin_policy *ceiling) {
    return pin_egress_plan_for(ceiling->network.egress, ceiling->network.egress_count);
}

/* Of several faults the first; the others will be met when it is mended. */
static bool fault(const struct pin_findings *found, struct pin_error *err) {
    (void)pin_fail(err, found->list[0].kind, "%s", found->list[0].message);
    (void)pin_point(err, "%s", found->list[0].pointer);
    return found->list[0].hint[0] == '\0' ? false : pin_hint(err, "%s", found->list[0].hint);
}

/* Of `network` these can be other ones while the sandbox lives; any other key would be passed over. */
static bool can_change(const json_t *network, struct pin_error *err) {
    static const char *const keys[] = {"egress", "deny", "budgets"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)network, key, value) {
        if (pin_name_find(keys, PIN_COUNT(keys), key) >= 0)
            continue;
        (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "'%.40s' of a network can't be changed while it is in use",
                       key);
        return pin_hint(err, strcmp(key, "publish") == 0 ? "ports are closed by --unpublish PORT"
                                                         : "leave it out: egress, deny and budgets can");
    }
    return true;
}

/* A list of rules, or an object as network of a policy is one, as a policy that says nothing else. Budgets
 * that it doesn't declare are the ceiling's. */
static struct pin_policy *parse(const char *rules, const struct pin_policy *ceiling, struct pin_error *err) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_findings found = {0};
    json_error_t at;
    json_t *json = json_loads(rules, JSON_REJECT_DUPLICATES, &at), *network = json;
    if (json == NULL) {
        (void)pin_fail(err, PIN_ERROR_SYNTAX, "the rules are not JSON: line %d: %s", at.line, at.text);
        return NULL;
    }
    if (!json_is_object(json))
        network = json_pack("{s:o}", "egress", json);
    if (!can_change(network, err)) {
        json_decref(network);
        return NULL;
    }
    if (json_object_get(network, "budgets") == NULL)
        (void)json_object_set_new(
            network, "budgets",
            json_loads(pin_policy_value_text(&arena, ceiling, PIN_FIELD_BUDGETS), 0, NULL));
    json_t *whole = json_pack("{s:i, s:o}", "pinfold", PIN_POLICY_VERSION, "network", network);
    char *text = json_dumps(whole, JSON_COMPACT);
    struct pin_policy *policy = text == NULL ? NULL : pin_policy_parse(REQUEST, text, strlen(text), &found);
    if (policy == NULL)
        (void)fault(&found, err);
    free(text);
    json_decref(whole);
    return policy;
}

static bool same_destination(const struct pin_egress_rule *a, const struct pin_egress_rule *b) {
    struct pin_egress_rule bare = *a;
    bare.inspect = b->inspect;
    bare.accept = b->accept;
    bare.budget = b->budget;
    return pin_egress_same(&bare, b);
}

static bool take_away(struct pin_policy *asked, const char *text, struct pin_error *err) {
    struct pin_egress_rule rule;
    size_t kept = 0, count = asked->network.egress_count;
    if (!pin_egress_parse(text, &asked->arena, &rule, err))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!same_destination(&asked->network.egress[i], &rule))
            asked->network.egress[kept++] = asked->network.egress[i];
    asked->network.egress_count = kept;
    return kept < count || pin_fail(err, PIN_ERROR_NOT_FOUND, "no rule is '%.80s'", text);
}

static bool add(struct pin_policy *asked, const struct pin_policy *ceiling, const char *text,
                struct pin_error *err) {
    size_t count = asked->network.egress_count;
    struct pin_egress_rule *rules = pin_arena_array(&asked->arena, count + 1, sizeof(*rules));
    if (count > 0)
        memcpy(rules, asked->network.egress, count * sizeof(*rules));
    if (!pin_egress_parse(text, &asked->arena, &rules[count], err))
        return false;
    rules[count].place = (struct pin_place){.file = "command line"};
    pin_egress_inherit_terms(&rules[count], ceiling->network.egress, ceiling->network.egress_count);
    asked->network.egress = rules;
    asked->network.egress_count = count + 1;
    return true;
}

/* The ceiling with this list in its place; frees nothing of what it is given. */
static struct pin_policy *with_rules(const struct pin_policy *ceiling, const struct pin_egress_rule *rules,
                                     size_t count) {
    struct pin_policy *asked = pin_policy_copy(ceiling);
    asked->network.egress = pin_arena_memdup(&asked->arena, rules, count * sizeof(*rules));
    asked->network.egress_count = count;
    return asked;
}

static struct pin_policy *edit(const struct pin_policy *ceiling, const struct pin_egress_rules *now,
                               const struct pin_policy *parsed, const struct pin_kept_request *request,
                               struct pin_error *err) {
    struct pin_policy *asked = parsed != NULL
                                   ? with_rules(ceiling, parsed->network.egress, parsed->network.egress_count)
                                   : with_rules(ceiling, now->allow, now->allow_count);
    bool good = true;
    if (parsed ==
        NULL) { /* one rule more or less takes back no refusal of the bundle's, or of an earlier list */
        asked->network.deny =
            pin_arena_memdup(&asked->arena, now->deny, now->deny_count * sizeof(*now->deny));
        asked->network.deny_count = now->deny_count;
    } else if (parsed->network.deny_count > 0) {
        asked->network.deny = parsed->network.deny;
        asked->network.deny_count = parsed->network.deny_count;
    }
    if (parsed != NULL) {
        asked->network.budgets = parsed->network.budgets;
        asked->network.budget_count = parsed->network.budget_count;
    }
    for (size_t i = 0; good && i < request->remove_count; i++)
        good = take_away(asked, request->remove[i], err);
    for (size_t i = 0; good && i < request->add_count; i++)
        good = add(asked, ceiling, request->add[i], err);
    if (good &&
        pin_egress_give_budgets(asked->network.egress, asked->network.egress_count, asked->network.budgets,
                                asked->network.budget_count) < asked->network.egress_count)
        good = pin_fail(err, PIN_ERROR_INVALID, "a rule names a budget that the new list doesn't declare");
    struct pin_policy *own = good ? pin_policy_copy(asked) : NULL; /* what it borrowed goes now */
    pin_policy_free(asked);
    return own;
}

static bool replace(struct pin_live_egress *live, struct pin_egress_session *session,
                    struct pin_policy *asked, struct pin_error *err) {
    const struct pin_egress_setup setup = {
        .rules = {asked->network.egress, asked->network.deny, asked->network.egress_count,
                  asked->network.deny_count, session->rules.place},
        .budgets = asked->network.budgets,
        .budget_count = asked->network.budget_count,
        .limits = asked->network.limits,
        .unknown_names = asked->network.unknown_names,
    };
    if (!pin_egress_session_replace(session, &setup, err)) {
        pin_policy_free(asked);
        return false;
    }
    unsigned turn = live->turn++ % 2; /* the list before the last is nobody's any more */
    pin_policy_free(live->asked[turn]);
    live->asked[turn] = asked;
    return true;
}

static bool change(struct pin_live_egress *live, const struct pin_policy *ceiling,
                   struct pin_egress_session *session, const struct pin_kept_request *request,
                   struct pin_error *err) {
    struct pin_findings found = {0};
    struct pin_policy *parsed = NULL;
    if (request->rules != NULL && (parsed = parse(request->rules, ceiling, err)) == NULL)
        return false;
    struct pin_policy *asked = edit(ceiling, &session->rules, parsed, request, err);
    pin_policy_free(parsed);
    if (asked == NULL)
        return false;
    if (pin_policy_narrower(asked, ceiling, &found))
        return replace(live, session, asked, err);
    pin_policy_free(asked);
    return fault(&found, err);
}

static bool is_published(const struct pin_publishing *publishing) {
    return pin_egress_session_fd(&publishing->session) >= 0;
}

/* Of a sandbox that lets the host in, and has no broker for what leaves: nothing does. */
static json_t *status_of(struct pin_egress_session *session, struct pin_publishing *publishing,
                         struct pin_error *err) {
    json_t *answer = pin_egress_session_fd(session) >= 0
                         ? pin_egress_session_status(session, err)
                         : json_pack("{s:[], s:[], s:{}, s:[]}", "rules", "deny", "budgets", "connections");
    json_t *ports =
        answer == NULL || !is_published(publishing) ? NULL : pin_publishing_status(publishing, err);
    if (ports != NULL)
        (void)json_object_set_new(answer, "published", ports);
    if (ports != NULL || answer == NULL || !is_published(publishing))
        return answer;
    json_decref(answer);
    return NULL;
}

static bool unpublish(struct pin_publishing *publishing, const struct pin_kept_request *request,
                      struct pin_error *err) {
    uint16_t ports[PIN_PUBLISH_MAX];
    if (request->unpublish_count > PIN_PUBLISH_MAX)
        return pin_fail(err, PIN_ERROR_INVALID, "there are at most %d published ports", PIN_PUBLISH_MAX);
    for (size_t i = 0; i < request->unpublish_count; i++) {
        uint64_t port;
        if (!pin_parse_u64(request->unpublish[i], &port) || port == 0 || port > UINT16_MAX)
            return pin_fail(err, PIN_ERROR_USAGE, "'%.40s' is no port", request->unpublish[i]);
        ports[i] = (uint16_t)port;
    }
    return request->unpublish_count == 0 ||
           pin_publishing_close(publishing, ports, request->unpublish_count, err);
}

json_t *pin_live_egress_serve(struct pin_live_egress *live, const struct pin_policy *ceiling,
                              struct pin_egress_session *session, struct pin_publishing *publishing,
                              const struct pin_kept_request *request, struct pin_error *err) {
    bool changes = request->rules != NULL || request->add_count > 0 || request->remove_count > 0;
    if (!unpublish(publishing, request, err))
        return NULL;
    if (pin_egress_session_fd(session) < 0 && (changes || !is_published(publishing))) {
        (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "the sandbox was made without egress");
        (void)pin_hint(err, "its policy names no destination, or its broker has died");
        return NULL;
    }
    if (changes && !change(live, ceiling, session, request, err))
        return NULL;
    return status_of(session, publishing, err);
}
