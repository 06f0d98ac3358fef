#include "runtime/egress/broker/account.h"

#include <stdlib.h>
#include <string.h>

static struct account *find(const struct accounts *accounts, const char *name) {
    for (size_t i = 0; i < accounts->count; i++)
        if (strcmp(accounts->budgets[i]->name, name) == 0)
            return accounts->budgets[i];
    return NULL;
}

static struct account *find_or_add(struct accounts *accounts, const char *name) {
    struct account *account = find(accounts, name);
    if (account != NULL || accounts->count == ACCOUNTS_MAX)
        return account;
    account = calloc(1, sizeof(*account));
    if (account != NULL)
        account->name = strdup(name);
    if (account == NULL || account->name == NULL) {
        free(account);
        return NULL;
    }
    accounts->budgets[accounts->count++] = account;
    return account;
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
    return true;
}

struct payers accounts_of(struct accounts *accounts, const struct pin_egress_rule *rule) {
    return (struct payers){
        .own = &accounts->own,
        .budget = rule != NULL && rule->budget != NULL ? find(accounts, rule->budget->name) : NULL,
    };
}

static bool admits(const struct account *account) {
    const struct pin_egress_limits *limits = &account->limits;
    return account->open < limits->connections_at_once && account->total < limits->connections_total &&
           account->bytes_out < limits->bytes_out && account->bytes_in < limits->bytes_in;
}

bool payers_admit(const struct payers *payers) {
    return admits(payers->own) && (payers->budget == NULL || admits(payers->budget));
}

void payers_enter(const struct payers *payers) {
    payers->own->open++;
    payers->own->total++;
    if (payers->budget == NULL)
        return;
    payers->budget->open++;
    payers->budget->total++;
}

void payers_leave(const struct payers *payers) {
    payers->own->open--;
    if (payers->budget != NULL)
        payers->budget->open--;
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
}

static bool is_spent(const struct account *account) {
    return account->bytes_out > account->limits.bytes_out || account->bytes_in > account->limits.bytes_in;
}

bool payers_are_spent(const struct payers *payers) {
    return is_spent(payers->own) || (payers->budget != NULL && is_spent(payers->budget));
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
