/* account.h: what counts against a budget: the sandbox's own, or one that rules name; and what a rule has
 * used.
 *
 * A connection or flow has up to three; those with limits must have room. They live as long as the broker;
 * new rules change their limits and keep what is counted, by name.
 */
#pragma once

#include "runtime/egress/bucket.h"
#include "runtime/egress/rules_blob.h"

#define ACCOUNTS_MAX (PIN_BUDGETS_MAX + 1)

struct account {
    char *name; /* of a budget, or a rule's text; NULL: the sandbox's */
    struct pin_egress_limits limits;
    uint64_t open, total, refused, bytes_out, bytes_in;
    struct pin_bucket rate; /* bytes, both ways */
};

struct accounts {
    struct account own;
    struct account *budgets[ACCOUNTS_MAX];
    size_t count;
    struct account **rules; /* of the allow list, in its order; NULL: no memory was left for it */
    size_t rule_count;
    const struct pin_egress_rule *first; /* of that list */
};

struct payers { /* of a connection; `budget` and `rule` may be NULL */
    struct account *own, *budget, *rule;
};

/* The limits of these rules hold from now on. False: out of memory, or too many budgets have come and gone.
 */
bool accounts_set(struct accounts *accounts, const struct pin_egress_setup *setup);
struct payers accounts_of(struct accounts *accounts, const struct pin_egress_rule *rule);
/* The number of the rule that an account is of; -1: of none in force. */
int accounts_rule_number(const struct accounts *accounts, const struct account *rule);

bool payers_admit(const struct payers *payers); /* one more */
void payers_enter(const struct payers *payers);
void payers_leave(const struct payers *payers);
/* An open connection has other accounts from now on; it isn't a new one. */
void payers_move(struct payers *payers, struct payers to);
void payers_refuse(const struct payers *payers);
void payers_count(const struct payers *payers, uint64_t out, uint64_t in, uint64_t now_ns);
/* How many bytes more may go this way; UINT64_MAX: any. */
uint64_t payers_left(const struct payers *payers, bool out);
/* How many bytes the rates let through now; UINT64_MAX: any. */
uint64_t payers_level(const struct payers *payers, uint64_t now_ns);
bool payers_are_late(const struct payers *payers, uint64_t idle_ns, uint64_t age_ns);
