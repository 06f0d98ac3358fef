#include "runtime/egress/broker/status.h"

#include <string.h>
#include <sys/socket.h>

#include "runtime/egress/broker/conn.h"
#include "runtime/egress/broker/flows.h"
#include "runtime/egress/status.h"

#define OPEN_MAX_SHOWN 200

/* Who asks has made the stream as large as all records; what doesn't go is lost, and he sees that it is. */
static void put(int stream, const struct pin_egress_status *status) {
    const char *at = (const char *)status;
    for (size_t left = sizeof(*status); left > 0;) {
        ssize_t sent = send(stream, at, left, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        at += sent;
        left -= (size_t)sent;
    }
}

static void name_it(struct pin_egress_status *status, const char *name) {
    size_t size = name != NULL ? strnlen(name, sizeof(status->name) - 1) : 0;
    if (size > 0)
        memcpy(status->name, name, size);
    status->name_size = (uint32_t)size;
}

static void put_account(int stream, const struct account *account, enum pin_egress_status_kind kind,
                        int rule) {
    struct pin_egress_status status = {
        .kind = (uint32_t)kind,
        .rule = rule,
        .open = account->open,
        .total = account->total,
        .refused = account->refused,
        .bytes_out = account->bytes_out,
        .bytes_in = account->bytes_in,
    };
    if (kind == PIN_EGRESS_STATUS_BUDGET)
        name_it(&status, account->name);
    put(stream, &status);
}

void status_put_open(int stream, const struct broker *broker, const struct opened *opened) {
    uint64_t now = now_ns();
    struct pin_egress_status status = {
        .kind = PIN_EGRESS_STATUS_OPEN,
        .rule = accounts_rule_number(&broker->accounts, opened->payers->rule),
        .protocol = (uint32_t)opened->to->protocol,
        .port = opened->to->port,
        .bytes_out = opened->bytes_out,
        .bytes_in = opened->bytes_in,
        .age_ns = elapsed_ns(now, opened->started_ns),
        .id = opened->id,
    };
    memcpy(status.address, opened->to->address, sizeof(status.address));
    name_it(&status, opened->to->host);
    put(stream, &status);
}

void status_write(const struct broker *broker, int stream) {
    const struct accounts *accounts = &broker->accounts;
    size_t shown = 0;
    put_account(stream, &accounts->own, PIN_EGRESS_STATUS_BUDGET, PIN_EGRESS_NO_RULE);
    for (size_t i = 0; i < accounts->count && i < 64; i++)
        put_account(stream, accounts->budgets[i], PIN_EGRESS_STATUS_BUDGET, PIN_EGRESS_NO_RULE);
    for (size_t i = 0; i < accounts->rule_count && i < 200; i++)
        if (accounts->rules[i] != NULL && accounts->rules[i]->total + accounts->rules[i]->refused > 0)
            put_account(stream, accounts->rules[i], PIN_EGRESS_STATUS_RULE, (int)i);
    shown = conn_show(broker, stream, OPEN_MAX_SHOWN);
    shown += flows_show(broker, stream, OPEN_MAX_SHOWN - shown);
    if (accounts->own.open > shown)
        put(stream, &(struct pin_egress_status){.kind = PIN_EGRESS_STATUS_MORE,
                                                .rule = PIN_EGRESS_NO_RULE,
                                                .open = accounts->own.open - shown});
}
