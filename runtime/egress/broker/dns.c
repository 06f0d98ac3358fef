#include "runtime/egress/broker/dns.h"

#include <string.h>
#include <strings.h>

#include "runtime/egress/broker/dns_service.h"
#include "runtime/egress/svcb.h"
#include "runtime/egress/wire_name.h"

#define CLASS_INTERNET 1
#define TTL_S 60 /* the address stays; the rules may not */

static const uint8_t loopback_v4[16] = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}, loopback_v6[16] = {[15] = 1};

struct answer {
    enum pin_dns_code code;
    bool comes_later;
    bool has_record;
    struct pin_dns_record record;
    uint8_t address[16];
};

static bool is_below(const char *name, const char *zone) {
    size_t size = strlen(name), end = strlen(zone);
    return size >= end && strcasecmp(name + size - end, zone) == 0 &&
           (size == end || name[size - end - 1] == '.');
}

static bool is_address_type(uint16_t type) {
    return type == PIN_DNS_A || type == PIN_DNS_AAAA;
}

static void give_address(struct answer *answer, uint16_t type) {
    answer->has_record = true;
    answer->record = (struct pin_dns_record){.type = type, .ttl_s = TTL_S, .address = answer->address};
}

/* RFC 6761 6.3: the sandbox's own loopback. */
static void answer_localhost(struct answer *answer, uint16_t type) {
    if (!is_address_type(type))
        return;
    if (type == PIN_DNS_A)
        memcpy(answer->address, loopback_v4 + 12, 4);
    else
        memcpy(answer->address, loopback_v6, sizeof(loopback_v6));
    give_address(answer, type);
}

/* Addresses have names only where we gave them one; nobody else is asked. */
static void answer_reverse(const struct broker *broker, const struct pin_dns_question *question,
                           struct answer *answer) {
    uint8_t address[16];
    const char *name = NULL;
    if (pin_dns_reverse(question->name, address))
        name = memcmp(address, loopback_v4, 16) == 0 || memcmp(address, loopback_v6, 16) == 0
                   ? "localhost"
                   : pin_synthetic_name(broker->names, address);
    answer->code = name != NULL ? PIN_DNS_NO_ERROR : PIN_DNS_NO_NAME;
    answer->has_record = name != NULL && question->type == PIN_DNS_PTR;
    answer->record = (struct pin_dns_record){.type = PIN_DNS_PTR, .ttl_s = TTL_S, .name = name};
}

static void note(struct broker *broker, enum pin_egress_event_kind kind, const char *name,
                 const struct pin_verdict *verdict) {
    struct pin_destination to = {.host = name, .port = 0};
    struct pin_egress_event event = broker_event(broker, kind, &to, verdict);
    report_event(&broker->report, &event, now_ns());
}

static bool is_wild(const struct pin_verdict *verdict) {
    return verdict->rule->host[0] == '*';
}

/* A new name below a wildcard can carry what a program wants to tell its owner; how many there may be is
 * bounded. A name that a rule spells out says nothing. */
static bool may_be_new(struct broker *broker, const struct pin_verdict *verdict) {
    if (!is_wild(verdict))
        return true;
    if (broker->wildcard_names >= broker->accounts.own.limits.names_total ||
        broker->wildcard_names >= PIN_SYNTHETIC_WILD_MAX)
        return false;
    if (!pin_bucket_take(&broker->new_names, now_ns(), 1))
        return false;
    broker->wildcard_names++;
    return true;
}

/* NXDOMAIN ends a search; REFUSED doesn't claim that the name isn't there, and makes some resolvers ask
 * again. */
static enum pin_dns_code code_of_refusal(const struct broker *broker) {
    return broker->unknown_names == PIN_UNKNOWN_REFUSED ? PIN_DNS_REFUSED : PIN_DNS_NO_NAME;
}

static bool is_service_type(uint16_t type) {
    return type == PIN_DNS_HTTPS || type == PIN_DNS_SVCB;
}

static void answer_name(struct broker *broker, const char *name, const struct pin_dns_question *question,
                        const struct dns_from *from, struct answer *answer) {
    struct pin_verdict verdict = pin_egress_judge_name(&broker->rules, name);
    int number = verdict.allowed ? pin_synthetic_find(broker->names, name) : -1;
    if (verdict.allowed && number < 0) {
        number = may_be_new(broker, &verdict) ? pin_synthetic_add(broker->names, name) : -1;
        if (number < 0)
            verdict = (struct pin_verdict){.reason = PIN_EGRESS_BUDGET, .rule = verdict.rule};
        else
            note(broker, PIN_EGRESS_EVENT_NAME, name, &verdict);
    }
    if (!verdict.allowed) {
        note(broker, PIN_EGRESS_EVENT_REFUSE, name, &verdict);
        answer->code = code_of_refusal(broker); /* past the budget too */
        return;
    }
    answer->comes_later = is_service_type(question->type) && service_ask(broker, name, question, from);
    if (!is_address_type(question->type))
        return; /* the name is there, without such a record */
    if (question->type == PIN_DNS_A)
        pin_synthetic_v4(number, answer->address);
    else
        pin_synthetic_v6(number, answer->address);
    give_address(answer, question->type);
}

static void refuse_bad_name(struct broker *broker, const struct pin_dns_question *question) {
    char shown[PIN_EGRESS_NAME_MAX];
    struct pin_verdict verdict = {.reason = PIN_EGRESS_BAD_NAME};
    size_t size = question->name_size < sizeof(shown) - 1 ? question->name_size : sizeof(shown) - 1;
    memcpy(shown, question->name, size); /* escaped by its reader */
    shown[size] = '\0';
    note(broker, PIN_EGRESS_EVENT_REFUSE, shown, &verdict);
}

static void answer_question(struct broker *broker, const struct pin_dns_question *question,
                            const struct dns_from *from, struct answer *answer) {
    char name[PIN_HOST_MAX];
    if (question->class != CLASS_INTERNET)
        answer->code = PIN_DNS_REFUSED;
    else if (question->name_size == 0)
        answer->code =
            PIN_DNS_NO_ERROR; /* the root: some clients ask for it to see whether anybody is there */
    else if (is_below(question->name, "in-addr.arpa") || is_below(question->name, "ip6.arpa"))
        answer_reverse(broker, question, answer);
    else if (!pin_wire_name(name, question->name, question->name_size)) {
        refuse_bad_name(broker, question);
        answer->code = code_of_refusal(broker);
    } else if (is_below(name, "localhost"))
        answer_localhost(answer, question->type);
    else
        answer_name(broker, name, question, from, answer);
}

bool dns_take(struct broker *broker, const struct dns_from *from, const uint8_t *message, size_t size) {
    struct pin_dns_question question;
    struct answer answer = {.code = PIN_DNS_NO_ERROR};
    enum pin_dns_code fault;
    uint8_t to[PIN_DNS_MESSAGE_MAX];
    switch (pin_dns_read(message, size, &question, &fault)) {
    case PIN_DNS_DROP: return false;
    case PIN_DNS_FAULTY: return dns_reply(from, to, pin_dns_write(to, &question, fault, NULL));
    case PIN_DNS_GOOD: break;
    }
    answer_question(broker, &question, from, &answer);
    if (answer.comes_later)
        return true;
    answer.record.address = answer.address;
    return dns_reply(from, to,
                     pin_dns_write(to, &question, answer.code, answer.has_record ? &answer.record : NULL));
}
