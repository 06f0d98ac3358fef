/* egress_judge.h: which destinations a sandbox may reach.
 *
 * A rule set is immutable once loaded. pin_egress_judge() and its two sisters are pure and the only place
 * that decides: enforcement, `policy explain` and `policy test` all call them. Names are canonical: see
 * host_name.h. The verdict points into the rules and lives as long as they do. A deny rule beats every allow
 * rule and closes both protocols; an allow rule without ports grants nothing, a deny rule without ports
 * denies all of them. A deny rule's range is every address in it; an allow rule's has special addresses only
 * if it lies within their block (address_class.h), where an address of the host's own that isn't a loopback
 * is a block by itself. Source: docs/egress.md, docs/policy.md "network.egress".
 */
#pragma once

#include "policy/address_class.h"
#include "policy/host_name.h"
#include "policy/policy.h"

struct pin_egress_rules {
    const struct pin_egress_rule *allow, *deny;
    size_t allow_count, deny_count;
    const char *place; /* of the list, as text, for what no rule names; NULL: not known */
};

struct pin_destination {
    const char *host; /* canonical; NULL: the program dialled the address itself */
    uint8_t address[PIN_ADDRESS_SIZE];
    uint16_t port;
    enum pin_protocol protocol;
    bool is_own; /* the address is one of this host's, which only the host itself knows */
};

enum pin_egress_reason {
    PIN_EGRESS_ALLOWED,
    PIN_EGRESS_NO_RULES,      /* the list is empty: nothing is allowed */
    PIN_EGRESS_NOT_LISTED,    /* no rule names the host or the address */
    PIN_EGRESS_PORT,          /* a rule names it, with other ports */
    PIN_EGRESS_PROTOCOL,      /* a rule names it and the port, for the other protocol */
    PIN_EGRESS_DENY_RULE,     /* a deny rule names it */
    PIN_EGRESS_ADDRESS_CLASS, /* a special address, which only a range within its block may open */
    PIN_EGRESS_HOST_ADDRESS,  /* one of this host's, which only a rule for this one address may open */
    PIN_EGRESS_BAD_NAME,      /* not a name in canonical form */
    PIN_EGRESS_NOT_RESOLVED,  /* the name has no address */
    PIN_EGRESS_TLS_NAME,      /* the TLS hello asks for another name, for none, or hides it */
    PIN_EGRESS_NOT_TLS,       /* no TLS hello where the rule expects one */
    PIN_EGRESS_HTTP_HOST,     /* an HTTP request for another host */
    PIN_EGRESS_NOT_HTTP,      /* no well-formed HTTP where the rule expects it */
    PIN_EGRESS_BUDGET,        /* past a limit of the sandbox */
    PIN_EGRESS_REASON_COUNT
};
/* "not-listed" and the like, as in the audit log. */
const char *pin_egress_reason_name(enum pin_egress_reason reason);

struct pin_verdict {
    bool allowed;
    enum pin_egress_reason reason;
    const struct pin_egress_rule *rule; /* that decided: allow or deny; or the nearest allow rule; or NULL */
};

/* May a connection be made to this name, or to this literal address, and port? */
struct pin_verdict pin_egress_judge(const struct pin_egress_rules *rules, const struct pin_destination *to);

/* May this name be asked for at all: is any port of it reachable? */
struct pin_verdict pin_egress_judge_name(const struct pin_egress_rules *rules, const char *host);

/* `to->address` is one of the addresses of `to->host`: may it be dialled? The rule is the one that allows the
 * name, or the cidr rule that opens the address. */
struct pin_verdict pin_egress_judge_resolved(const struct pin_egress_rules *rules,
                                             const struct pin_destination *to);
