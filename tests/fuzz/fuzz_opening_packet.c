/* Whatever a program's first segment looks like: what is sent again is the same opening, and every answer is
 * a packet that fits. */
#undef NDEBUG
#include <assert.h>
#include <string.h>

#include "runtime/egress/opening_packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pin_opening opening, again;
    uint8_t packet[PIN_OPENING_PACKET_MAX];
    if (!pin_opening_read(data, size, &opening))
        return 0;
    assert(opening.size >= 20 && opening.size <= sizeof(opening.segment));
    size_t length = pin_opening_again(&opening, packet);
    assert(length <= sizeof(packet));
    assert(pin_opening_read(packet, length, &again));
    assert(pin_opening_is(&again, &opening.from, &opening.to) && again.size == opening.size);
    length = pin_opening_reset(&opening, packet);
    assert(length <= sizeof(packet));
    assert(!pin_opening_read(packet, length, &again));
    for (int network = 0; network < 2; network++) {
        length = pin_opening_unreachable(&opening, network == 1, packet);
        assert(length <= sizeof(packet));
        assert(!pin_opening_read(packet, length, &again));
    }
    return 0;
}
