/* Whatever a resolver says, what is left of it can be read again and stands as it is; and it holds no address
 * and no key. */
#undef NDEBUG
#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "policy/egress_rule.h"
#include "runtime/egress/dns_message.h"
#include "runtime/egress/svcb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t question_of_host[] = {0,   7,   1,   0,   0,   1,   0,   0,   0,   0,   0,
                                           0,   3,   'a', 'p', 'i', 7,   'e', 'x', 'a', 'm', 'p',
                                           'l', 'e', 3,   'c', 'o', 'm', 0,   0,   65,  0,   1};

/* Key by key: rising, and only those that may stand. */
static void check_params(const struct pin_svcb_record *record) {
    size_t at = 2;
    int last = -1;
    while (record->data[at] != 0)
        at += record->data[at] + 1u;
    for (at++; at < record->size;) {
        int key = record->data[at] << 8 | record->data[at + 1];
        assert(key > last && key <= 3);
        at += 4u + (size_t)(record->data[at + 2] << 8 | record->data[at + 3]);
        last = key;
    }
    assert(at == record->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pin_error err = {.kind = PIN_ERROR_NONE};
    struct pin_arena arena = {.block = NULL};
    struct pin_egress_rule rule;
    struct pin_svcb_record records[PIN_SVCB_RECORDS_MAX], again[PIN_SVCB_RECORDS_MAX];
    struct pin_dns_question question;
    enum pin_dns_code code;
    uint8_t answer[PIN_DNS_SERVICE_MAX];
    assert(pin_egress_parse("*.example.com:443-8443", &arena, &rule, &err));
    struct pin_egress_rules rules = {.allow = &rule, .allow_count = 1};
    assert(pin_dns_read(question_of_host, sizeof(question_of_host), &question, &code) == PIN_DNS_GOOD);
    size_t count = pin_svcb_read(data, size, "api.example.com", PIN_DNS_HTTPS, &rules, records);
    assert(count <= PIN_SVCB_RECORDS_MAX);
    for (size_t i = 0; i < count; i++)
        check_params(&records[i]);
    size_t length = pin_dns_write_service(answer, sizeof(answer), &question, records, count, 60);
    assert(length <= sizeof(answer));
    assert(pin_svcb_read(answer, length, "api.example.com", PIN_DNS_HTTPS, &rules, again) == count);
    for (size_t i = 0; i < count; i++)
        assert(again[i].size == records[i].size &&
               memcmp(again[i].data, records[i].data, records[i].size) == 0);
    pin_arena_free(&arena);
    return 0;
}
