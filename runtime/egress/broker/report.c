#include "runtime/egress/broker/report.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "base/units.h"
#include "runtime/egress/broker/poll.h"

#define HOLD_NS (5 * PIN_NS_PER_S) /* the same thing within this time is the same record */
#define SUM_NS PIN_NS_PER_S
#define QUEUE_NS (10 * PIN_NS_PER_MS)
#define RATE 200
#define BURST 1000
#define REFUSALS_RATE 10 /* of a loop that goes on for days, some hundred MiB in the log for each */
#define REFUSALS_BURST 10000

void report_open(struct report *report, int socket) {
    *report = (struct report){
        .socket = socket,
        .rate = {.per_second = RATE,          .burst = BURST         },
        .refusals = {.per_second = REFUSALS_RATE, .burst = REFUSALS_BURST}
    };
}

static void add_passed(const struct report *report, struct pin_egress_event *event) {
    event->passed_out = report->passed_out;
    event->passed_in = report->passed_in;
}

static void note_told(struct report *report) {
    report->told_out = report->passed_out;
    report->told_in = report->passed_in;
}

static int send_flags(const struct report *report) {
    return MSG_NOSIGNAL | (report->waits ? 0 : MSG_DONTWAIT);
}

static bool push(struct report *report, const struct pin_egress_event *event) {
    struct pin_egress_event whole = *event;
    add_passed(report, &whole);
    if (send(report->socket, &whole, sizeof(whole), send_flags(report)) != (ssize_t)sizeof(whole))
        return false;
    note_told(report);
    return true;
}

/* Bytes are counted even where the record itself is lost. */
static void add_to_sum(struct pin_egress_event *sum, const struct pin_egress_event *event) {
    if (sum->repeated == 0)
        *sum = (struct pin_egress_event){.kind = event->kind,
                                         .reason = event->reason,
                                         .rule = PIN_EGRESS_NO_RULE,
                                         .protocol = event->protocol};
    sum->repeated += event->repeated > 0 ? event->repeated : 1;
    sum->bytes_out += event->bytes_out;
    sum->bytes_in += event->bytes_in;
    sum->undelivered += event->undelivered;
}

/* How many of the queue have gone. */
static size_t push_queue(struct report *report) {
    struct iovec parts[REPORT_QUEUE];
    struct mmsghdr messages[REPORT_QUEUE];
    memset(messages, 0, sizeof(messages));
    for (size_t i = 0; i < report->queued; i++) {
        add_passed(report, &report->queue[i]);
        parts[i] = (struct iovec){&report->queue[i], sizeof(report->queue[i])};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    int sent = sendmmsg(report->socket, messages, (unsigned)report->queued, send_flags(report));
    if (sent > 0)
        note_told(report);
    return sent > 0 ? (size_t)sent : 0;
}

static void send_queue(struct report *report) {
    for (size_t i = report->queued > 0 ? push_queue(report) : 0; i < report->queued; i++)
        add_to_sum(&report->sums[report->queue[i].kind], &report->queue[i]);
    report->queued = 0;
}

static void emit(struct report *report, const struct pin_egress_event *event, uint64_t now) {
    bool is_refusal = event->kind == PIN_EGRESS_EVENT_REFUSE;
    if (!pin_bucket_take(&report->rate, now, 1) ||
        (is_refusal && !pin_bucket_take(&report->refusals, now, 1))) {
        add_to_sum(&report->sums[event->kind], event);
        return;
    }
    if (report->queued == 0)
        report->queued_ns = now;
    report->queue[report->queued++] = *event;
    if (report->queued == REPORT_QUEUE)
        send_queue(report);
}

static bool is_same(const struct pin_egress_event *a, const struct pin_egress_event *b) {
    return a->kind == b->kind && a->reason == b->reason && a->os_errno == b->os_errno && a->port == b->port &&
           a->protocol == b->protocol && a->other_protocol == b->other_protocol &&
           a->name_size == b->name_size && memcmp(a->address, b->address, sizeof(a->address)) == 0 &&
           memcmp(a->name, b->name, a->name_size) == 0;
}

/* Connections have a beginning and an end each; refusals and failures are what a loop makes thousands of. */
static bool is_foldable(const struct pin_egress_event *event) {
    return event->kind == PIN_EGRESS_EVENT_REFUSE || event->kind == PIN_EGRESS_EVENT_FAIL ||
           event->kind == PIN_EGRESS_EVENT_NAME;
}

static void let_go(struct report *report, struct recent *recent, uint64_t now) {
    if (recent->event.repeated > 0)
        emit(report, &recent->event, now);
    recent->since_ns = 0;
}

static struct recent *find_recent(struct report *report, const struct pin_egress_event *event) {
    struct recent *oldest = &report->recent[0];
    for (size_t i = 0; i < REPORT_RECENT; i++) {
        struct recent *recent = &report->recent[i];
        if (recent->since_ns != 0 && is_same(&recent->event, event))
            return recent;
        if (recent->since_ns < oldest->since_ns)
            oldest = recent;
    }
    return oldest;
}

void report_event(struct report *report, const struct pin_egress_event *event, uint64_t now) {
    if (!is_foldable(event)) {
        emit(report, event, now);
        return;
    }
    struct recent *recent = find_recent(report, event);
    if (recent->since_ns != 0 && is_same(&recent->event, event) &&
        elapsed_ns(now, recent->since_ns) < HOLD_NS) {
        recent->event.repeated += event->repeated > 0 ? event->repeated : 1;
        return;
    }
    let_go(report, recent, now);
    emit(report, event, now);
    *recent = (struct recent){.event = *event, .since_ns = now};
    recent->event.repeated = 0;
}

static void send_sums(struct report *report) {
    for (size_t i = 0; i < PIN_EGRESS_EVENT_COUNT; i++)
        if (report->sums[i].repeated > 0 && push(report, &report->sums[i]))
            report->sums[i] = (struct pin_egress_event){.repeated = 0};
}

/* A bill knows of a connection before it ends. */
static void send_bytes(struct report *report) {
    struct pin_egress_event event = {.kind = PIN_EGRESS_EVENT_BYTES, .rule = PIN_EGRESS_NO_RULE};
    if (report->passed_out != report->told_out || report->passed_in != report->told_in)
        (void)push(report, &event); /* else the next one says it */
}

void report_tick(struct report *report, uint64_t now) {
    if (report->queued > 0 && elapsed_ns(now, report->queued_ns) >= QUEUE_NS)
        send_queue(report);
    for (size_t i = 0; i < REPORT_RECENT; i++)
        if (report->recent[i].since_ns != 0 && elapsed_ns(now, report->recent[i].since_ns) >= HOLD_NS)
            let_go(report, &report->recent[i], now);
    if (elapsed_ns(now, report->flushed_ns) >= SUM_NS) {
        send_sums(report);
        send_bytes(report);
        report->flushed_ns = now;
    }
}

void report_settle(struct report *report, uint64_t now) {
    for (size_t i = 0; i < REPORT_RECENT; i++)
        if (report->recent[i].since_ns != 0)
            let_go(report, &report->recent[i], now);
    send_queue(report);
    send_sums(report);
    send_bytes(report);
}

void report_turn(struct report *report, const struct pin_egress_event *event, uint64_t now) {
    report_settle(report, now);
    if (!push(report, event))
        add_to_sum(&report->sums[event->kind], event);
}

void report_flush(struct report *report) {
    send_queue(report);
    for (size_t i = 0; i < REPORT_RECENT; i++)
        if (report->recent[i].event.repeated > 0 && report->recent[i].since_ns != 0 &&
            !push(report, &report->recent[i].event))
            add_to_sum(&report->sums[report->recent[i].event.kind], &report->recent[i].event);
    send_sums(report);
    send_bytes(report);
}

void report_close(struct report *report) {
    report->waits = fcntl(report->socket, F_SETFL, 0) == 0;
    report_flush(report);
}

static bool is_holding(const struct report *report) {
    for (size_t i = 0; i < PIN_EGRESS_EVENT_COUNT; i++)
        if (report->sums[i].repeated > 0)
            return true;
    for (size_t i = 0; i < REPORT_RECENT; i++)
        if (report->recent[i].since_ns != 0 && report->recent[i].event.repeated > 0)
            return true;
    return false;
}

int report_timeout(const struct report *report, uint64_t now, int limit) {
    int ms = -1;
    if (report->queued > 0) {
        uint64_t waited = elapsed_ns(now, report->queued_ns);
        ms = waited >= QUEUE_NS ? 0 : (int)((QUEUE_NS - waited) / PIN_NS_PER_MS) + 1;
    } else if (is_holding(report)) {
        ms = (int)(SUM_NS / PIN_NS_PER_MS);
    }
    return ms < 0 || (limit >= 0 && limit < ms) ? limit : ms;
}
