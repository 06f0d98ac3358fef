/* A question is read or refused; an answer to it fits, repeats it byte by byte, and is no question itself. */
#undef NDEBUG
#include <assert.h>
#include <string.h>

#include "runtime/egress/dns_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t address[16] = {1, 2, 3, 4};
    struct pin_dns_question question, again;
    enum pin_dns_code code;
    uint8_t answer[PIN_DNS_MESSAGE_MAX], reversed[16];
    if (pin_dns_read(data, size, &question, &code) != PIN_DNS_GOOD)
        return 0;
    assert(question.bytes > data && question.bytes + question.size <= data + size);
    assert(question.name_size == strlen(question.name) && question.name_size < sizeof(question.name));
    for (size_t i = 0; i < question.name_size; i++)
        assert(question.name[i] > ' ' && question.name[i] < 0x7f);
    (void)pin_dns_reverse(question.name, reversed);
    struct pin_dns_record records[] = {
        {.type = PIN_DNS_AAAA, .address = address                                               },
        {.type = PIN_DNS_PTR,  .name = "a.very.long.name.that.stands.for.an.address.example.com"},
    };
    for (size_t i = 0; i < 2; i++) {
        size_t length = pin_dns_write(answer, &question, PIN_DNS_NO_ERROR, &records[i]);
        assert(length <= sizeof(answer));
        assert(memcmp(answer + 12, question.bytes, question.size) == 0);
        assert(pin_dns_read(answer, length, &again, &code) == PIN_DNS_DROP);
    }
    return 0;
}
