/* What programs are told of HTTPS and SVCB records: ldns writes what a resolver says, and reads what is left
 * of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ldns/ldns.h>

#include "base/names.h"
#include "policy/egress_rule.h"
#include "runtime/egress/dns_message.h"
#include "runtime/egress/svcb.h"

#define HOST "api.example.com"
#define LINES_MAX 12

struct fixture {
    struct pin_arena arena;
    struct pin_egress_rule list[4];
    struct pin_egress_rules rules;
};

static void allow(struct fixture *fixture, const char *const *texts) {
    struct pin_error err = {.kind = PIN_ERROR_NONE};
    *fixture = (struct fixture){.rules = {.allow = fixture->list}};
    for (size_t i = 0; texts[i] != NULL; i++)
        assert_true(
            pin_egress_parse(texts[i], &fixture->arena, &fixture->list[fixture->rules.allow_count++], &err));
}

/* An answer to a question for HOST with these records, each after the name and "300 IN". */
static size_t make_answer(const char *const *lines, uint8_t *to, size_t room) {
    ldns_pkt *packet =
        ldns_pkt_query_new(ldns_dname_new_frm_str(HOST "."), LDNS_RR_TYPE_HTTPS, LDNS_RR_CLASS_IN, LDNS_RD);
    uint8_t *wire;
    size_t size;
    for (size_t i = 0; i < LINES_MAX && lines[i] != NULL; i++) {
        ldns_rr *record;
        if (ldns_rr_new_frm_str(&record, lines[i], 0, NULL, NULL) != LDNS_STATUS_OK)
            skip(); /* an ldns without these types */
        assert_true(ldns_pkt_push_rr(packet, LDNS_SECTION_ANSWER, record));
    }
    assert_int_equal(ldns_pkt2wire(&wire, packet, &size), LDNS_STATUS_OK);
    assert_true(size <= room);
    memcpy(to, wire, size);
    free(wire);
    ldns_pkt_free(packet);
    return size;
}

static size_t give(const struct pin_svcb_record *records, size_t count, size_t room, uint8_t *to) {
    uint8_t *wire;
    size_t size;
    struct pin_dns_question question;
    enum pin_dns_code code;
    ldns_pkt *packet =
        ldns_pkt_query_new(ldns_dname_new_frm_str(HOST "."), LDNS_RR_TYPE_HTTPS, LDNS_RR_CLASS_IN, LDNS_RD);
    assert_int_equal(ldns_pkt2wire(&wire, packet, &size), LDNS_STATUS_OK);
    ldns_pkt_free(packet);
    assert_int_equal(pin_dns_read(wire, size, &question, &code), PIN_DNS_GOOD);
    size = pin_dns_write_service(to, room, &question, records, count, 60);
    free(wire);
    return size;
}

/* The data of each record that a program gets, one a line. */
static void read_given(const uint8_t *answer, size_t size, char *text) {
    ldns_pkt *packet;
    assert_int_equal(ldns_wire2pkt(&packet, answer, size), LDNS_STATUS_OK);
    ldns_rr_list *list = ldns_pkt_answer(packet);
    *text = '\0';
    for (size_t i = 0; i < ldns_rr_list_rr_count(list); i++) {
        ldns_rr *record = ldns_rr_list_rr(list, i);
        char *line = ldns_rr2str(record);
        assert_int_equal(ldns_rr_ttl(record), 60);
        (void)strcat(text, strstr(line, "HTTPS\t") + strlen("HTTPS\t"));
        free(line);
    }
    ldns_pkt_free(packet);
}

static const char *const by_tcp[] = {"*.example.com:443", "*.example.com:8443", NULL};
static const char *const by_both[] = {"*.example.com:443", "api.example.com:443/udp", NULL};
static const char *const elsewhere[] = {"api.example.com:8443", NULL};

#define RECORD HOST ". 300 IN HTTPS "

static const struct row {
    const char *const *rules;
    const char *lines[LINES_MAX];
    const char *given;
} rows[] = {
    {by_tcp,    {RECORD "1 . alpn=h2"},                                                       "1 . alpn=h2\n"                 },
    {by_tcp,
     {RECORD "1 . alpn=h3,h2 port=8443 ipv4hint=10.0.0.1 ech=AEP+DQA/ ipv6hint=fd00::1"},
     "1 . alpn=h2 port=8443\n"                                                                                                },
    {by_both,   {RECORD "1 . alpn=h3,h2"},                                                    "1 . alpn=h3,h2\n"              },
    {by_tcp,    {RECORD "1 . alpn=h3,h3-29"},                                                 "1 .\n"                         },
    {by_tcp,    {RECORD "1 . alpn=h3 no-default-alpn"},                                       ""                              },
    {by_tcp,    {RECORD "1 . alpn=h2 no-default-alpn"},                                       "1 . alpn=h2 no-default-alpn\n" },
    {by_tcp,    {RECORD "1 . port=9443"},                                                     ""                              },
    {elsewhere, {RECORD "1 . alpn=h2"},                                                       ""                              },
    {elsewhere, {RECORD "1 . alpn=h2 port=8443"},                                             "1 . alpn=h2 port=8443\n"       },
    {by_tcp,    {RECORD "1 Other.Example.com. alpn=h2"},                                      "1 other.example.com. alpn=h2\n"},
    {by_tcp,    {RECORD "1 evil.test. alpn=h2", RECORD "2 . alpn=h2"},                        "2 . alpn=h2\n"                 },
    {by_tcp,    {RECORD "0 other.example.com."},                                              "0 other.example.com.\n"        },
    {by_tcp,    {RECORD "0 evil.test."},                                                      ""                              },
    {by_tcp,    {RECORD "0 ."},                                                               ""                              },
    {by_tcp,    {RECORD "0 api.example.com."},                                                ""                              },
    {by_tcp,    {RECORD "1 . mandatory=alpn alpn=h2"},                                        "1 . mandatory=alpn alpn=h2\n"  },
    {by_tcp,    {RECORD "1 . mandatory=ipv4hint alpn=h2 ipv4hint=1.2.3.4"},                   ""                              },
    {by_tcp,    {RECORD "1 . mandatory=alpn alpn=h3"},                                        ""                              },
    {by_tcp,    {RECORD "1 . alpn=h2 key667=hello"},                                          "1 . alpn=h2\n"                 },
    {by_tcp,    {"evil.test. 300 IN HTTPS 1 . alpn=h2"},                                      ""                              },
    {by_tcp,    {HOST ". 300 IN CNAME x.cdn.test.", "x.cdn.test. 300 IN HTTPS 1 . alpn=h2"},  "1 . alpn=h2\n"                 },
    {by_tcp,    {HOST ". 300 IN CNAME x.cdn.test.", RECORD "1 . alpn=h2"},                    ""                              },
    {by_tcp,
     {HOST ". 300 IN CNAME a.test.", "a.test. 300 IN CNAME " HOST ".", RECORD "1 . alpn=h2"},
     "1 . alpn=h2\n"                                                                                                          },
    {by_tcp,    {HOST ". 300 IN A 192.0.2.1"},                                                ""                              },
};

static void what_the_rules_do_not_open_is_left_out(void **state) {
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct fixture fixture;
        uint8_t message[4096], answer[PIN_DNS_SERVICE_MAX];
        char text[4096];
        struct pin_svcb_record records[PIN_SVCB_RECORDS_MAX];
        allow(&fixture, rows[i].rules);
        size_t size = make_answer(rows[i].lines, message, sizeof(message));
        size_t count = pin_svcb_read(message, size, HOST, PIN_DNS_HTTPS, &fixture.rules, records);
        size = give(records, count, sizeof(answer), answer);
        read_given(answer, size, text);
        assert_string_equal(text, rows[i].given);
        pin_arena_free(&fixture.arena);
    }
}

static void another_type_is_no_answer(void **state) {
    (void)state;
    struct fixture fixture;
    uint8_t message[4096];
    struct pin_svcb_record records[PIN_SVCB_RECORDS_MAX];
    allow(&fixture, by_tcp);
    size_t size = make_answer(rows[0].lines, message, sizeof(message));
    assert_int_equal(pin_svcb_read(message, size, HOST, PIN_DNS_SVCB, &fixture.rules, records), 0);
    pin_arena_free(&fixture.arena);
}

static void a_message_cut_anywhere_gives_no_more_than_a_whole_one(void **state) {
    (void)state;
    struct fixture fixture;
    uint8_t message[4096];
    struct pin_svcb_record records[PIN_SVCB_RECORDS_MAX];
    allow(&fixture, by_tcp);
    size_t size = make_answer(rows[1].lines, message, sizeof(message));
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *part = malloc(cut + 1); /* of its own, so that a read past it is found */
        memcpy(part, message, cut);
        assert_int_equal(pin_svcb_read(part, cut, HOST, PIN_DNS_HTTPS, &fixture.rules, records), 0);
        free(part);
    }
    pin_arena_free(&fixture.arena);
}

/* Header, question for HOST; then one answer whose owner is what is tried. */
static size_t with_owner(const uint8_t *owner, size_t owner_size, uint8_t *to) {
    static const char *const none[] = {NULL};
    static const uint8_t rest[] = {0, 65, 0, 1, 0, 0, 0, 9, 0, 3, 0, 1, 0};
    size_t size = make_answer(none, to, 512);
    to[7] = 1;
    memcpy(to + size, owner, owner_size);
    memcpy(to + size + owner_size, rest, sizeof(rest));
    return size + owner_size + sizeof(rest);
}

static void pointers_that_lead_in_circles_or_forward_are_no_names(void **state) {
    (void)state;
    static const struct {
        uint8_t owner[4];
        size_t size, count;
    } cases[] = {
        {{0xc0, 12},         2, 1}, /* the question's name */
        {{0xc0, 33},         2, 0}, /* itself: the question ends there */
        {{0xc0, 35},         2, 0}, /* forward */
        {{0xff, 0xff},       2, 0}, /* past the end */
        {{1, 'a', 0xc0, 33}, 4, 0}, /* a, and itself again */
        {{0xc0, 16},         2, 0}, /* example.com */
        {{0x40, 'a', 0},     3, 0}, /* no kind of label */
    };
    for (size_t i = 0; i < PIN_COUNT(cases); i++) {
        struct fixture fixture;
        uint8_t message[600];
        struct pin_svcb_record records[PIN_SVCB_RECORDS_MAX];
        allow(&fixture, by_tcp);
        size_t size = with_owner(cases[i].owner, cases[i].size, message);
        assert_int_equal(pin_svcb_read(message, size, HOST, PIN_DNS_HTTPS, &fixture.rules, records),
                         cases[i].count);
        pin_arena_free(&fixture.arena);
    }
}

static void what_does_not_fit_is_left_out_and_said_to_be(void **state) {
    (void)state;
    struct fixture fixture;
    uint8_t message[4096], answer[PIN_DNS_SERVICE_MAX];
    const char *lines[LINES_MAX];
    struct pin_svcb_record records[PIN_SVCB_RECORDS_MAX];
    ldns_pkt *packet;
    allow(&fixture, by_tcp);
    for (size_t i = 0; i < LINES_MAX; i++)
        lines[i] = RECORD
            "1 a-name-that-takes-its-room.and-goes-on-for-longer-still.and-longer.example.com. alpn=h2";
    size_t size = make_answer(lines, message, sizeof(message));
    size_t count = pin_svcb_read(message, size, HOST, PIN_DNS_HTTPS, &fixture.rules, records);
    assert_int_equal(count, PIN_SVCB_RECORDS_MAX);
    size = give(records, count, 512, answer);
    assert_true(size <= 512);
    assert_int_equal(ldns_wire2pkt(&packet, answer, size), LDNS_STATUS_OK);
    assert_true(ldns_pkt_tc(packet));
    assert_in_range(ldns_pkt_ancount(packet), 1, PIN_SVCB_RECORDS_MAX - 1);
    ldns_pkt_free(packet);
    pin_arena_free(&fixture.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_rules_do_not_open_is_left_out),
        cmocka_unit_test(another_type_is_no_answer),
        cmocka_unit_test(a_message_cut_anywhere_gives_no_more_than_a_whole_one),
        cmocka_unit_test(pointers_that_lead_in_circles_or_forward_are_no_names),
        cmocka_unit_test(what_does_not_fit_is_left_out_and_said_to_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
