#include "policy/audit/why.h"

#include <inttypes.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "policy/audit/arg_names.h"
#include "policy/audit/why_parts.h"
#include "policy/fields.h"
#include "policy/policy_read.h"
#include "policy/policy_write.h"
#include "policy/publish.h"

static const char *const verdict_names[] = {
    [PIN_ANSWER_ALLOW] = "allow", [PIN_ANSWER_DENY] = "deny",       [PIN_ANSWER_ERRNO] = "errno",
    [PIN_ANSWER_KILL] = "kill",   [PIN_ANSWER_DEPENDS] = "depends",
};
_Static_assert(PIN_COUNT(verdict_names) == PIN_ANSWER_COUNT, "every verdict has a name");

const char *pin_answer_verdict_name(enum pin_answer_verdict verdict) {
    return verdict_names[verdict];
}

static struct pin_answer why_secret(const struct pin_why_context *context) {
    const struct pin_policy *policy = context->policy;
    const char *name = context->question->name;
    for (size_t i = 0; i < policy->secrets.count; i++)
        if (pin_glob_match(policy->secrets.items[i].text, name))
            return (struct pin_answer){.verdict = PIN_ANSWER_ALLOW,
                                       .reason = "the policy lists it",
                                       .rule = pin_arena_printf(context->arena, "/secrets/%zu", i),
                                       .place = policy->secrets.items[i].place,
                                       .given = "the run asks for it (--secret NAME)"};
    return (struct pin_answer){
        .verdict = PIN_ANSWER_DENY,
        .reason = policy->secrets.count == 0 ? "the policy lists no secrets" : "the policy doesn't list it",
        .rule = "/secrets",
        .place = policy->places[PIN_FIELD_SECRETS],
        .edit = pin_arena_printf(context->arena, "{\"secrets\":{\"add\":[\"%s\"]}}", name),
        .caution = policy->network.egress_count > 0
                       ? "every destination of network.egress can then be sent it"
                       : NULL};
}

static struct pin_answer why_publish(const struct pin_why_context *context) {
    const struct pin_strings *publish = &context->policy->network.publish;
    const char *name = context->question->name;
    for (size_t i = 0; i < publish->count; i++)
        if (pin_publish_covers(publish->items[i].text, name))
            return (struct pin_answer){.verdict = PIN_ANSWER_ALLOW,
                                       .reason = "the policy lists it",
                                       .rule = pin_arena_printf(context->arena, "/network/publish/%zu", i),
                                       .place = publish->items[i].place,
                                       .given = "a server inside listens on the port of a loopback address"};
    return (struct pin_answer){
        .verdict = PIN_ANSWER_DENY,
        .reason = publish->count == 0 ? "the policy publishes no port" : "the policy doesn't list it",
        .rule = "/network/publish",
        .place = context->policy->places[PIN_FIELD_PUBLISH],
        .edit = pin_arena_printf(context->arena, "{\"network\":{\"publish\":{\"add\":[\"%s\"]}}}", name),
        .caution = strstr(name, "=unix:") == NULL ? "every user of the host can then connect to it" : NULL};
}

/* PIN_UNLIMITED where there is no limit. */
static uint64_t limit_of(const struct pin_policy *policy, const struct pin_field_row *row) {
    uint64_t wide;
    uint32_t narrow;
    if (row->type == PIN_TYPE_CPUS || row->type == PIN_TYPE_ID) {
        memcpy(&narrow, (const char *)policy + row->offset, sizeof(narrow));
        return row->type == PIN_TYPE_CPUS && narrow == 0 ? PIN_UNLIMITED : narrow;
    }
    memcpy(&wide, (const char *)policy + row->offset, sizeof(wide));
    return wide;
}

/* A value as the policy's language has it: the field of a copy. */
static const char *value_text(const struct pin_why_context *context, const struct pin_field_row *row,
                              uint64_t value) {
    struct pin_policy *copy = pin_policy_copy(context->policy);
    uint32_t narrow = value == PIN_UNLIMITED ? 0 : (uint32_t)value;
    if (row->type == PIN_TYPE_CPUS || row->type == PIN_TYPE_ID)
        memcpy((char *)copy + row->offset, &narrow, sizeof(narrow));
    else
        memcpy((char *)copy + row->offset, &value, sizeof(value));
    const char *text = pin_policy_value_text(context->arena, copy, row->field);
    pin_policy_free(copy);
    return text;
}

/* {"resources":{"memory":VALUE}} from "/resources/memory". */
static const char *fragment(struct pin_arena *arena, const char *pointer, const char *value) {
    const char *slash = strchr(pointer + 1, '/');
    if (slash == NULL)
        return pin_arena_printf(arena, "{\"%s\":%s}", pointer + 1, value);
    const char *inner = fragment(arena, slash, value);
    return pin_arena_printf(arena, "{\"%.*s\":%s}", (int)(slash - pointer - 1), pointer + 1, inner);
}

static struct pin_answer why_limit(const struct pin_why_context *context) {
    const struct pin_question *question = context->question;
    const struct pin_field_row *row = pin_field_row(question->field);
    const char *value = pin_policy_value_text(context->arena, context->policy, question->field);
    uint64_t limit = limit_of(context->policy, row);
    struct pin_answer answer = {
        .verdict = PIN_ANSWER_ALLOW,
        .reason = pin_arena_printf(context->arena, "the limit is %s", value),
        .rule = pin_field_pointer(question->field),
        .place = context->policy->places[question->field],
    };
    if (!question->has_value || question->value <= limit)
        return answer;
    answer.verdict = PIN_ANSWER_DENY;
    answer.edit = fragment(context->arena, answer.rule, value_text(context, row, question->value));
    if (question->value == PIN_UNLIMITED && !row->unlimited) {
        answer.edit = NULL;
        answer.caution = "this limit can't be taken away";
    }
    return answer;
}

static struct pin_answer (*const answerers[])(const struct pin_why_context *) = {
    [PIN_ASK_CONNECT] = pin_why_connect, [PIN_ASK_WRITE] = pin_why_write, [PIN_ASK_READ] = pin_why_read,
    [PIN_ASK_SYSCALL] = pin_why_syscall, [PIN_ASK_SECRET] = why_secret,   [PIN_ASK_LIMIT] = why_limit,
    [PIN_ASK_PUBLISH] = why_publish,
};
_Static_assert(PIN_COUNT(answerers) == PIN_ASK_COUNT, "every kind has an answerer");

struct pin_answer pin_why(const struct pin_reach *reach, const struct pin_question *question,
                          const struct pin_why_root *root, struct pin_arena *arena) {
    const struct pin_why_context context = {reach, reach->policy, question, root, arena};
    struct pin_answer answer = answerers[question->kind](&context);
    if (answer.edit != NULL && context.policy->site != NULL)
        pin_why_hold_below_site(&context, answerers[question->kind], &answer);
    return answer;
}

/* --- for people and programs --- */

static void print_verdict(struct pin_buffer *to, const struct pin_answer *answer) {
    if (answer->verdict == PIN_ANSWER_ERRNO && pin_errno_name(answer->error) != NULL)
        pin_buffer_printf(to, "deny (%s)", pin_errno_name(answer->error));
    else if (answer->verdict == PIN_ANSWER_KILL)
        pin_buffer_add(to, "deny (the process is killed)");
    else
        pin_buffer_add(to, verdict_names[answer->verdict]);
}

void pin_answer_print(struct pin_buffer *to, const struct pin_question *question,
                      const struct pin_answer *answer) {
    char place[PIN_PLACE_TEXT], shown[1024];
    pin_buffer_printf(to, "%s: ", pin_escape(shown, sizeof(shown), question->text, strlen(question->text)));
    print_verdict(to, answer);
    pin_buffer_printf(to, "\n  because  %s\n", answer->reason);
    if (answer->rule != NULL)
        pin_buffer_printf(to, "  rule     %s (%s)\n", answer->rule, pin_place_print(place, &answer->place));
    if (answer->given != NULL)
        pin_buffer_printf(to, "  provided %s\n", answer->given);
    if (answer->edit != NULL)
        pin_buffer_printf(to, "  edit     %s\n", answer->edit);
    if (answer->caution != NULL)
        pin_buffer_printf(to, "  note     %s\n", answer->caution);
}

static void set_text(json_t *object, const char *key, const char *text) {
    json_object_set_new(object, key, text != NULL ? json_string(text) : json_null());
}

json_t *pin_answer_json(const struct pin_question *question, const struct pin_answer *answer) {
    char place[PIN_PLACE_TEXT];
    json_t *object = json_object();
    set_text(object, "question", question->text);
    set_text(object, "verdict", verdict_names[answer->verdict]);
    set_text(object, "errno", answer->verdict == PIN_ANSWER_ERRNO ? pin_errno_name(answer->error) : NULL);
    set_text(object, "reason", answer->reason);
    set_text(object, "rule", answer->rule);
    set_text(object, "place", answer->rule != NULL ? pin_place_print(place, &answer->place) : NULL);
    set_text(object, "provided", answer->given);
    json_object_set_new(object, "edit",
                        answer->edit != NULL ? json_loads(answer->edit, 0, NULL) : json_null());
    set_text(object, "note", answer->caution);
    return object;
}
