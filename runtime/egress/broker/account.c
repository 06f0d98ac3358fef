#include "runtime/egress/broker/account.h"

#include <stdlib.h>
#include <string.h>

#include "policy/egress_rule.h"

static struct account *find(const struct accounts *accounts, const char *name) {
    for (size_t i = 0; i < accounts->count; i++)
        if (strcmp(accounts->budgets[i]->name, name) == 0)
            return accounts->budgets[i];
    return NULL;
}

static struct account *make(const char *name) {
    struct account *account = calloc(1, sizeof(*account));
    if (account != NULL)
        account->name = strdup(name);
    if (account != NULL && account->name != NULL)
        return account;
    free(account);
    return NULL;
}

static struct account *find_or_add(struct accounts *accounts, const char *name) {
    struct account *account = find(accounts, name);
    if (account != NULL || accounts->count == ACCOUNTS_MAX)
        return account;
    account = make(name);
    if (account != NULL)
        accounts->budgets[accounts->count++] = account;
    return account;
}

/* The account that an old list had for the rule of this text; it belongs to the new one from now on. */
static struct account *take_over(struct account **old, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (old[i] != NULL && strcmp(old[i]->name, name) == 0) {
            struct account *found = old[i];
            old[i] = NULL;
            return found;
        }
    return NULL;
}

/* Rules that are gone leave their accounts to the connections that still have them. */
static void set_rules(struct accounts *accounts, const struct pin_egress_rules *rules) {
    struct account **list = calloc(rules->allow_count + 1, sizeof(struct account *));
    for (size_t i = 0; list != NULL && i < rules->allow_count; i++) {
        char text[512];
        (void)pin_egress_print(text, sizeof(text), &rules->allow[i]);
        list[i] = take_over(accounts->rules, accounts->rule_count, text);
        if (list[i] == NULL)
            list[i] = make(text);
    }
    free(accounts->rules);
    accounts->rules = list;
    accounts->rule_count = list != NULL ? rules->allow_count : 0;
    accounts->first = rules->allow;
}

static void set_limits(struct account *account, const struct pin_egress_limits *limits) {
    uint64_t rate = limits->bytes_per_second == PIN_UNLIMITED ? 0 : limits->bytes_per_second;
    account->limits = *limits;
    if (rate != account->rate.per_second)
        account->rate = (struct pin_bucket){.per_second = rate, .burst = rate};
}

bool accounts_set(struct accounts *accounts, const struct pin_egress_setup *setup) {
    set_limits(&accounts->own, &setup->limits);
    for (size_t i = 0; i < setup->budget_count; i++) {
        struct account *account = find_or_add(accounts, setup->budgets[i].name);
        if (account == NULL)
            return false;
        set_limits(account, &setup->budgets[i].limits);
    }
    set_rules(accounts, &setup->rules);
    return true;
}

struct payers accounts_of(struct accounts *accounts, const struct pin_egress_rule *rule) {
    size_t number = rule != NULL && rule >= accounts->first ? (size_t)(rule - accounts->first) : SIZE_MAX;
    return (struct payers){
        .own = &accounts->own,
        .budget = rule != NULL && rule->budget != NULL ? find(accounts, rule->budget->name) : NULL,
        .rule = number < accounts->rule_count ? accounts->rules[number] : NULL, /* not of a deny rule */
    };
}

int accounts_rule_number(const struct accounts *accounts, const struct account *rule) {
    for (size_t i = 0; i < accounts->rule_count; i++)
        if (rule != NULL && accounts->rules[i] == rule)
            return (int)i;
    return -1;
}

static bool admits(const struct account *account) {
    const struct pin_egress_limits *limits = &account->limits;
    return account->open < limits->connections_at_once && account->total < limits->connections_total &&
           account->bytes_out < limits->bytes_out && account->bytes_in < limits->bytes_in;
}

bool payers_admit(const struct payers *payers) {
    return admits(payers->own) && (payers->budget == NULL || admits(payers->budget));
}

static void change(struct account *account, bool enters) {
    if (account == NULL)
        return;
    account->open += enters ? 1 : (uint64_t)-1;
    account->total += enters;
}

void payers_enter(const struct payers *payers) {
    change(payers->own, true);
    change(payers->budget, true);
    change(payers->rule, true);
}

void payers_leave(const struct payers *payers) {
    change(payers->own, false);
    change(payers->budget, false);
    change(payers->rule, false);
}

static void move(struct account *from, struct account *to) {
    if (from == to)
        return;
    change(from, false);
    if (to != NULL)
        to->open++;
}

void payers_move(struct payers *payers, struct payers to) {
    move(payers->budget, to.budget);
    move(payers->rule, to.rule);
    *payers = to;
}

void payers_refuse(const struct payers *payers) {
    payers->own->refused++;
    if (payers->budget != NULL)
        payers->budget->refused++;
    if (payers->rule != NULL)
        payers->rule->refused++;
}

static void count(struct account *account, uint64_t out, uint64_t in, uint64_t now_ns) {
    account->bytes_out += out;
    account->bytes_in += in;
    if (account->rate.per_second != 0)
        (void)pin_bucket_take(&account->rate, now_ns, out + in);
}

void payers_count(const struct payers *payers, uint64_t out, uint64_t in, uint64_t now_ns) {
    count(payers->own, out, in, now_ns);
    if (payers->budget != NULL)
        count(payers->budget, out, in, now_ns);
    if (payers->rule != NULL)
        count(payers->rule, out, in, now_ns);
}

static uint64_t left(const struct account *account, bool out) {
    uint64_t limit = out ? account->limits.bytes_out : account->limits.bytes_in;
    uint64_t used = out ? account->bytes_out : account->bytes_in;
    return used < limit ? limit - used : 0;
}

uint64_t payers_left(const struct payers *payers, bool out) {
    uint64_t own = left(payers->own, out);
    uint64_t budget = payers->budget == NULL ? UINT64_MAX : left(payers->budget, out);
    return own < budget ? own : budget;
}

static uint64_t level(struct account *account, uint64_t now_ns) {
    return account->rate.per_second == 0 ? UINT64_MAX : pin_bucket_level(&account->rate, now_ns);
}

uint64_t payers_level(const struct payers *payers, uint64_t now_ns) {
    uint64_t own = level(payers->own, now_ns);
    uint64_t budget = payers->budget == NULL ? UINT64_MAX : level(payers->budget, now_ns);
    return own < budget ? own : budget;
}

static bool is_late(const struct account *account, uint64_t idle_ns, uint64_t age_ns) {
    return idle_ns > account->limits.idle_ns || age_ns > account->limits.lifetime_ns;
}

bool payers_are_late(const struct payers *payers, uint64_t idle_ns, uint64_t age_ns) {
    return is_late(payers->own, idle_ns, age_ns) ||
           (payers->budget != NULL && is_late(payers->budget, idle_ns, age_ns));
}
