#include "runtime/egress/broker/dns_service.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "runtime/egress/broker/resolver.h"
#include "runtime/egress/svcb.h"

#define AT_ONCE 64
#define PER_SECOND 20
#define BURST 100
#define DEADLINE_NS (2 * PIN_NS_PER_S) /* programs wait for it before they connect */
#define TTL_MAX_S 60                   /* as of addresses: the rules may change */

struct service {
    struct broker *broker;
    struct service *following,
        **link; /* in broker->services; NULL: answered, only the resolver has it still */
    struct dns_from from;
    struct pin_dns_question question; /* its bytes are `bytes` */
    uint8_t bytes[PIN_DNS_QUESTION_MAX];
    char name[PIN_HOST_MAX];
    uint64_t deadline_ns;
};

static void unlink_service(struct service *service) {
    if (service->link == NULL)
        return;
    *service->link = service->following;
    if (service->following != NULL)
        service->following->link = service->link;
    service->link = NULL;
    service->broker->service_count--;
}

static void reply(struct service *service, const struct pin_svcb_record *records, size_t count) {
    uint8_t answer[PIN_DNS_SERVICE_MAX];
    if (service->link == NULL)
        return;
    unlink_service(service);
    size_t room = service->from.stream != NULL ? sizeof(answer) : service->question.room;
    size_t size = pin_dns_write_service(answer, room, &service->question, records, count, TTL_MAX_S);
    if (!dns_reply(&service->from, answer, size))
        dns_give_up(&service->from);
}

static void answered(void *data, const uint8_t *message, size_t size) {
    struct service *service = data;
    struct pin_svcb_record records[PIN_SVCB_RECORDS_MAX];
    size_t count = message == NULL ? 0
                                   : pin_svcb_read(message, size, service->name, service->question.type,
                                                   &service->broker->rules, records);
    reply(service, records, count);
    free(service);
}

static bool may_ask(struct broker *broker, const char *name) {
    broker->service_rate.per_second = PER_SECOND;
    broker->service_rate.burst = BURST;
    return broker->resolver != NULL &&
           broker->proxy.kind == PIN_PROXY_NONE && /* names are the proxy's to resolve */
           !resolver_has_own(broker->resolver, name) && broker->service_count < AT_ONCE &&
           pin_bucket_take(&broker->service_rate, now_ns(), 1);
}

bool service_ask(struct broker *broker, const char *name, const struct pin_dns_question *question,
                 const struct dns_from *from) {
    struct service *service =
        question->size <= PIN_DNS_QUESTION_MAX && may_ask(broker, name) ? calloc(1, sizeof(*service)) : NULL;
    if (service == NULL)
        return false;
    service->broker = broker;
    service->from = *from;
    service->question = *question;
    memcpy(service->bytes, question->bytes, question->size);
    service->question.bytes = service->bytes;
    memcpy(service->name, name, strlen(name) + 1);
    service->deadline_ns = now_ns() + DEADLINE_NS;
    service->following = broker->services;
    service->link = &broker->services;
    if (service->following != NULL)
        service->following->link = &service->following;
    broker->services = service;
    broker->service_count++;
    resolver_ask_type(broker->resolver, name, question->type, answered, service);
    return true;
}

bool service_is_waited_for(const struct broker *broker, const struct dns_stream *stream) {
    const struct service *service = broker->services;
    while (service != NULL && service->from.stream != stream)
        service = service->following;
    return service != NULL;
}

void service_forget(struct broker *broker, const struct dns_stream *stream) {
    for (struct service *service = broker->services, *following; service != NULL; service = following) {
        following = service->following;
        if (service->from.stream == stream)
            unlink_service(service);
    }
}

void service_tick(struct broker *broker, uint64_t now) {
    for (struct service *service = broker->services; service != NULL;) {
        if (now < service->deadline_ns) {
            service = service->following;
            continue;
        }
        reply(service, NULL, 0); /* its end may be the end of others of the same stream */
        service = broker->services;
    }
}
