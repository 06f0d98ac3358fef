/* Messages are walked to their end, and packets of any shape are read within their bounds. */
#undef NDEBUG
#include <assert.h>

#include "runtime/egress/refused_packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *at = data, *packet;
    size_t packet_size, rounds = 0;
    struct pin_refused_packet refused;
    while (pin_refused_next(&at, data + size, &packet, &packet_size)) {
        assert(at > data && at <= data + size && rounds++ <= size);
        assert(packet == NULL || (packet >= data && packet + packet_size <= data + size));
        if (packet != NULL)
            (void)pin_refused_packet_read(packet, packet_size, &refused);
    }
    (void)pin_refused_packet_read(data, size, &refused);
    return 0;
}
