/* The first segment of a connection, and the packets that answer it: their fields, and the sums that a kernel
 * checks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/names.h"
#include "runtime/egress/opening_packet.h"

/* 198.18.0.16:40000 to 198.18.0.17:443, number 0xfffffffe, options: MSS and no-operations */
static const uint8_t four[] = {
    0x45, 0,    0, 48,   0,    1,    0x40, 0,    64, 6, 0, 0, 198,  18, 0,    16,   198, 18, 0, 17, /* IP */
    0x9c, 0x40, 1, 0xbb, 0xff, 0xff, 0xff, 0xfe, 0,  0, 0, 0, 0x70, 2,  0xff, 0xff, 0,   0,  0, 0,  /* TCP */
    2,    4,    5, 0xb4, 1,    1,    1,    0, /* options */
};

static void make_six(uint8_t to[68]) {
    static const uint8_t head[8] = {0x60, 0, 0, 0, 0, 28, 6, 64};
    memset(to, 0, 68);
    memcpy(to, head, sizeof(head));
    to[8] = to[24] = 0xfd;
    to[23] = 1;
    to[39] = 2;
    memcpy(to + 40, four + 20, 28);
}

static uint32_t sum(const uint8_t *data, size_t size) {
    uint32_t total = 0;
    for (size_t i = 0; i < size; i++)
        total += i % 2 == 0 ? (uint32_t)data[i] << 8 : data[i];
    return total;
}

static uint32_t folded(uint32_t total) {
    while (total > 0xffff)
        total = (total & 0xffff) + (total >> 16);
    return total;
}

/* Of what is behind the IP header, with the addresses where they count. */
static uint32_t whole_sum(const uint8_t *packet, size_t size) {
    if (packet[0] >> 4 == 4 && packet[9] == 1)
        return folded(sum(packet + 20, size - 20));
    if (packet[0] >> 4 == 4)
        return folded(sum(packet + 12, 8) + packet[9] + (uint32_t)(size - 20) + sum(packet + 20, size - 20));
    return folded(sum(packet + 8, 32) + packet[6] + (uint32_t)(size - 40) + sum(packet + 40, size - 40));
}

static void the_segment_is_sent_again_as_it_was(void **state) {
    (void)state;
    struct pin_opening opening;
    uint8_t packet[PIN_OPENING_PACKET_MAX], six[68];
    make_six(six);
    assert_true(pin_opening_read(four, sizeof(four), &opening));
    assert_int_equal(opening.from.port, 40000);
    assert_int_equal(opening.to.port, 443);
    assert_int_equal(opening.to.address[15], 17);
    assert_int_equal(pin_opening_again(&opening, packet), sizeof(four));
    assert_memory_equal(packet + 20, four + 20, 16);
    assert_memory_equal(packet + 40, four + 40, 8);
    assert_int_equal(whole_sum(packet, sizeof(four)), 0xffff);
    assert_true(pin_opening_read(six, sizeof(six), &opening));
    assert_int_equal(pin_opening_again(&opening, packet), sizeof(six));
    assert_int_equal(whole_sum(packet, sizeof(six)), 0xffff);
}

static void a_refusal_is_a_reset_of_the_number_that_follows(void **state) {
    (void)state;
    struct pin_opening opening;
    uint8_t packet[PIN_OPENING_PACKET_MAX];
    static const uint8_t tcp[] = {1, 0xbb, 0x9c, 0x40, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x50, 0x14};
    assert_true(pin_opening_read(four, sizeof(four), &opening));
    assert_int_equal(pin_opening_reset(&opening, packet), 40);
    assert_memory_equal(packet + 12, four + 16, 4); /* from where it went */
    assert_memory_equal(packet + 16, four + 12, 4);
    assert_memory_equal(packet + 20, tcp, sizeof(tcp));
    assert_int_equal(whole_sum(packet, 40), 0xffff);
}

static void what_cannot_be_reached_is_said_with_the_segment_in_it(void **state) {
    (void)state;
    struct pin_opening opening;
    uint8_t packet[PIN_OPENING_PACKET_MAX], six[68];
    make_six(six);
    assert_true(pin_opening_read(four, sizeof(four), &opening));
    assert_int_equal(pin_opening_unreachable(&opening, false, packet), 20 + 8 + 20 + 8);
    assert_int_equal(packet[9], 1);
    assert_int_equal(packet[20] << 8 | packet[21], 3 << 8 | 1);
    assert_memory_equal(packet + 28 + 12, four + 12, 8); /* the addresses */
    assert_memory_equal(packet + 48, four + 20, 8);      /* ports and number */
    assert_int_equal(whole_sum(packet, 56), 0xffff);
    assert_true(pin_opening_read(six, sizeof(six), &opening));
    assert_int_equal(pin_opening_unreachable(&opening, true, packet), 40 + 8 + 40 + 8);
    assert_int_equal(packet[40] << 8 | packet[41], 1 << 8 | 0);
    assert_int_equal(whole_sum(packet, 96), 0xffff);
}

static void what_is_no_first_segment_is_not_taken(void **state) {
    (void)state;
    static const struct {
        size_t at;
        uint8_t value;
    } rows[] = {
        {0,  0x35}, /* version 3 */
        {0,  0x44}, /* a header of 16 bytes */
        {0,  0x4f}, /* one with more options than there are bytes */
        {9,  17  }, /* UDP */
        {32, 0x40}, /* a TCP header of 16 bytes */
        {32, 0xf0}, /* or longer than what came */
        {33, 0x12}, /* SYN and ACK */
        {33, 0x06}, /* SYN and RST */
        {33, 0x10}, /* ACK */
    };
    struct pin_opening opening;
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        uint8_t packet[sizeof(four)];
        memcpy(packet, four, sizeof(four));
        packet[rows[i].at] = rows[i].value;
        assert_false(pin_opening_read(packet, sizeof(packet), &opening));
    }
    uint8_t mapped[68]; /* an IPv6 packet to an IPv4 address: no kernel makes one */
    make_six(mapped);
    assert_true(pin_opening_read(mapped, sizeof(mapped), &opening));
    memset(mapped + 24, 0, 10);
    memset(mapped + 34, 0xff, 2);
    assert_false(pin_opening_read(mapped, sizeof(mapped), &opening));
    for (size_t size = 0; size < sizeof(four); size++)
        assert_false(pin_opening_read(four, size, &opening));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_segment_is_sent_again_as_it_was),
        cmocka_unit_test(a_refusal_is_a_reset_of_the_number_that_follows),
        cmocka_unit_test(what_cannot_be_reached_is_said_with_the_segment_in_it),
        cmocka_unit_test(what_is_no_first_segment_is_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
