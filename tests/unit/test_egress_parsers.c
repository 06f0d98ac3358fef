/* What comes from inside: questions, hellos, requests, refused packets; and the tables behind the answers. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <ldns/ldns.h>

#include "base/names.h"
#include "base/units.h"
#include "policy/egress_terms.h"
#include "runtime/egress/bucket.h"
#include "runtime/egress/dns_message.h"
#include "runtime/egress/http_guard.h"
#include "runtime/egress/proxy_talk.h"
#include "runtime/egress/refused_packet.h"
#include "runtime/egress/rules_blob.h"
#include "runtime/egress/synthetic.h"
#include "runtime/egress/tls_hello.h"

/* --- DNS: ldns writes the questions and reads the answers -------------------------------------------------
 */

static size_t make_question(const char *name, ldns_rr_type type, bool edns, uint8_t to[512]) {
    ldns_pkt *packet = ldns_pkt_query_new(ldns_dname_new_frm_str(name), type, LDNS_RR_CLASS_IN, LDNS_RD);
    uint8_t *wire;
    size_t size;
    if (edns)
        ldns_pkt_set_edns_udp_size(packet, 4096);
    assert_int_equal(ldns_pkt2wire(&wire, packet, &size), LDNS_STATUS_OK);
    memcpy(to, wire, size);
    free(wire);
    ldns_pkt_free(packet);
    return size;
}

static void an_answer_is_what_another_implementation_reads(void **state) {
    (void)state;
    static const uint8_t four[4] = {198, 18, 0, 16}, six[16] = {0xfd, 'p', [15] = 7};
    const struct {
        const char *name;
        ldns_rr_type type;
        struct pin_dns_record record;
        const char *text;
    } rows[] = {
        {"Api.Example.COM.",          LDNS_RR_TYPE_A,    {PIN_DNS_A, 60, four, NULL},                "198.18.0.16"},
        {"api.example.com.",          LDNS_RR_TYPE_AAAA, {PIN_DNS_AAAA, 60, six, NULL},              "fd70::7"    },
        {"16.0.18.198.in-addr.arpa.",
         LDNS_RR_TYPE_PTR,                               {PIN_DNS_PTR, 60, NULL, "api.example.com"},
         "api.example.com."                                                                                       },
    };
    for (size_t i = 0; i < 2 * PIN_COUNT(rows); i++) {
        bool edns = i % 2 == 1;
        uint8_t message[512], answer[PIN_DNS_MESSAGE_MAX];
        size_t size = make_question(rows[i / 2].name, rows[i / 2].type, edns, message);
        struct pin_dns_question question;
        enum pin_dns_code code;
        assert_int_equal(pin_dns_read(message, size, &question, &code), PIN_DNS_GOOD);
        assert_int_equal(question.edns, edns);
        size = pin_dns_write(answer, &question, PIN_DNS_NO_ERROR, &rows[i / 2].record);
        ldns_pkt *packet;
        assert_int_equal(ldns_wire2pkt(&packet, answer, size), LDNS_STATUS_OK);
        assert_true(ldns_pkt_qr(packet));
        assert_int_equal(ldns_pkt_edns(packet), edns);
        assert_int_equal(ldns_pkt_ancount(packet), 1);
        char *text = ldns_rdf2str(ldns_rr_rdf(ldns_rr_list_rr(ldns_pkt_answer(packet), 0), 0));
        assert_string_equal(text, rows[i / 2].text);
        free(text);
        ldns_pkt_free(packet);
    }
}

static void labels_that_hold_a_dot_are_not_two_labels(void **state) {
    (void)state;
    static const uint8_t message[] = {0,   1,   1,   0,   0,   1,   0,   0,   0,   0,   0,
                                      0,   11,  'a', 'p', 'i', '.', 'e', 'x', 'a', 'm', 'p',
                                      'l', 'e', 3,   'c', 'o', 'm', 0,   0,   1,   0,   1};
    struct pin_dns_question question;
    enum pin_dns_code code;
    assert_int_equal(pin_dns_read(message, sizeof(message), &question, &code), PIN_DNS_GOOD);
    assert_string_equal(question.name, "api\\.example.com");
}

static void messages_that_are_no_single_question_are_refused(void **state) {
    (void)state;
    uint8_t good[512], bad[512];
    size_t size = make_question("api.example.com.", LDNS_RR_TYPE_A, false, good);
    struct pin_dns_question question;
    enum pin_dns_code code;
    static const struct {
        size_t at;
        uint8_t value;
        enum pin_dns_reading reading;
        enum pin_dns_code code;
    } rows[] = {
        {2,  0x81, PIN_DNS_DROP,   PIN_DNS_NO_ERROR       },
        {2,  0x29, PIN_DNS_FAULTY, PIN_DNS_NOT_IMPLEMENTED},
        {5,  0,    PIN_DNS_FAULTY, PIN_DNS_FORMAT         },
        {5,  2,    PIN_DNS_FAULTY, PIN_DNS_FORMAT         },
        {7,  1,    PIN_DNS_FAULTY, PIN_DNS_FORMAT         },
        {9,  1,    PIN_DNS_FAULTY, PIN_DNS_FORMAT         },
        {12, 0xc0, PIN_DNS_FAULTY, PIN_DNS_FORMAT         }, /* a pointer */
        {12, 64,   PIN_DNS_FAULTY, PIN_DNS_FORMAT         },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        memcpy(bad, good, size);
        bad[rows[i].at] = rows[i].value;
        assert_int_equal(pin_dns_read(bad, size, &question, &code), rows[i].reading);
        if (rows[i].reading == PIN_DNS_FAULTY)
            assert_int_equal(code, rows[i].code);
    }
    for (size_t cut = 0; cut < size; cut++)
        assert_int_not_equal(pin_dns_read(good, cut, &question, &code), PIN_DNS_GOOD);
}

/* --- synthetic addresses -------------------------------------------------------------------------------- */

static void mapped(uint8_t to[16], const uint8_t four[4]) {
    memset(to, 0, 10);
    memset(to + 10, 0xff, 2);
    memcpy(to + 12, four, 4);
}

static void each_name_has_its_addresses_and_they_lead_back(void **state) {
    (void)state;
    struct pin_synthetic *table = pin_synthetic_new();
    char name[32];
    uint8_t four[4], address[16];
    for (int i = 0; i < PIN_SYNTHETIC_MAX; i++) {
        (void)snprintf(name, sizeof(name), "host-%d.example.com", i);
        assert_int_equal(pin_synthetic_add(table, name), i);
    }
    assert_int_equal(pin_synthetic_add(table, "one.too.many"), -1);
    for (int i = 0; i < PIN_SYNTHETIC_MAX; i++) {
        (void)snprintf(name, sizeof(name), "host-%d.example.com", i);
        assert_int_equal(pin_synthetic_find(table, name), i);
        pin_synthetic_v4(i, four);
        mapped(address, four);
        assert_true(pin_synthetic_is(address));
        assert_string_equal(pin_synthetic_name(table, address), name);
        pin_synthetic_v6(i, address);
        assert_true(pin_synthetic_is(address));
        assert_string_equal(pin_synthetic_name(table, address), name);
    }
    mapped(address, (const uint8_t[]){198, 19, 255, 255});
    assert_true(pin_synthetic_is(address));
    assert_null(pin_synthetic_name(table, address));
    mapped(address, (const uint8_t[]){198, 18, 0, 0});
    assert_null(pin_synthetic_name(table, address));
    mapped(address, (const uint8_t[]){198, 20, 0, 16});
    assert_false(pin_synthetic_is(address));
    pin_synthetic_free(table);
}

/* --- TLS --------------------------------------------------------------------------------------------------
 */

struct hello {
    uint8_t data[4096];
    size_t size;
};

static void put(struct hello *hello, const void *data, size_t size) {
    memcpy(hello->data + hello->size, data, size);
    hello->size += size;
}

static void put16(struct hello *hello, size_t value) {
    put(hello, (const uint8_t[]){(uint8_t)(value >> 8), (uint8_t)value}, 2);
}

static void put_name(struct hello *hello, const char *name, size_t size) {
    put16(hello, 0);
    put16(hello, size + 5);
    put16(hello, size + 3);
    put(hello, "", 1);
    put16(hello, size);
    put(hello, name, size);
}

/* A handshake message around the extensions, in records of at most `piece` bytes. */
static struct hello wrap(const struct hello *extensions, size_t piece) {
    struct hello body = {.size = 0}, records = {.size = 0};
    static const uint8_t fixed[] = {0, 2, 0x13, 0x01, 1, 0};
    put(&body, "\x01\0", 2);
    put16(&body, 2 + 32 + 1 + sizeof(fixed) + 2 + extensions->size);
    put(&body, "\x03\x03", 2);
    put(&body, (const uint8_t[33]){1, 2, 3}, 33);
    put(&body, fixed, sizeof(fixed));
    put16(&body, extensions->size);
    put(&body, extensions->data, extensions->size);
    for (size_t at = 0; at < body.size; at += piece) {
        size_t size = body.size - at < piece ? body.size - at : piece;
        put(&records, "\x16\x03\x01", 3);
        put16(&records, size);
        put(&records, body.data + at, size);
    }
    return records;
}

static void a_hello_gives_its_name_however_it_is_cut(void **state) {
    (void)state;
    static const size_t pieces[] = {1, 3, 7, 50, 4000};
    struct hello extensions = {.size = 0};
    struct pin_tls_hello read;
    put16(&extensions, 16);
    put16(&extensions, 0);
    put_name(&extensions, "api.example.com", 15);
    for (size_t i = 0; i < PIN_COUNT(pieces); i++) {
        struct hello hello = wrap(&extensions, pieces[i]);
        for (size_t cut = 0; cut < hello.size; cut++)
            assert_int_equal(pin_tls_read_hello(hello.data, cut, &read), PIN_TLS_MORE);
        assert_int_equal(pin_tls_read_hello(hello.data, hello.size, &read), PIN_TLS_WHOLE);
        assert_int_equal(read.name_size, 15);
        assert_memory_equal(read.name, "api.example.com", 15);
        assert_false(read.hidden);
    }
}

static void what_could_mislead_a_reader_of_hellos_is_seen(void **state) {
    (void)state;
    struct hello hidden = {.size = 0}, twice = {.size = 0}, none = {.size = 0}, zero = {.size = 0};
    struct pin_tls_hello read;
    put_name(&hidden, "api.example.com", 15);
    put16(&hidden, 0xfe0d);
    put16(&hidden, 0);
    struct hello hello = wrap(&hidden, 4000);
    assert_int_equal(pin_tls_read_hello(hello.data, hello.size, &read), PIN_TLS_WHOLE);
    assert_true(read.hidden);
    put_name(&twice, "api.example.com", 15);
    put_name(&twice, "evil.test", 9);
    hello = wrap(&twice, 4000);
    assert_int_equal(pin_tls_read_hello(hello.data, hello.size, &read), PIN_TLS_FAULTY);
    put16(&none, 16);
    put16(&none, 0);
    hello = wrap(&none, 4000);
    assert_int_equal(pin_tls_read_hello(hello.data, hello.size, &read), PIN_TLS_WHOLE);
    assert_int_equal(read.name_size, 0);
    put_name(&zero, "api.example.com\0.evil.test", 26);
    hello = wrap(&zero, 4000);
    assert_int_equal(pin_tls_read_hello(hello.data, hello.size, &read), PIN_TLS_WHOLE);
    assert_int_equal(read.name_size, 26); /* counted, not ended by the zero */
    static const char *const others[] = {"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH\r\n",
                                         "\x80\x2e\x01\x03\x01", "\x15\x03\x01"};
    for (size_t i = 0; i < PIN_COUNT(others); i++)
        assert_int_equal(pin_tls_read_hello((const uint8_t *)others[i], strlen(others[i]), &read),
                         PIN_TLS_NOT_TLS);
}

/* --- HTTP -------------------------------------------------------------------------------------------------
 */

#define HOST "Host: api.example.com\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST "\r\n"

static void requests_pass_only_in_one_reading_and_for_one_host(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum pin_http_reading reading;
    } rows[] = {
        {GET,                                                                                                   PIN_HTTP_PASS      },
        {GET GET GET,                                                                                           PIN_HTTP_PASS      },
        {"GET / HTTP/1.0\r\nHost: API.Example.com.:80\r\n\r\n",                                                 PIN_HTTP_PASS      },
        {"GET http://api.example.com/x HTTP/1.1\r\n" HOST "\r\n",                                               PIN_HTTP_PASS      },
        {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n",                                                                  PIN_HTTP_PASS      },
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc" GET,                                         PIN_HTTP_PASS      },
        {"POST / HTTP/1.1\r\n" HOST
         "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: v\r\n\r\n" GET,
         PIN_HTTP_PASS                                                                                                             },
        {GET "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",                                                       PIN_HTTP_OTHER_HOST},
        {"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",                                                           PIN_HTTP_OTHER_HOST},
        {"GET / HTTP/1.1\r\nHost: api.example.com:81\r\n\r\n",                                                  PIN_HTTP_OTHER_HOST},
        {"GET / HTTP/1.1\r\nHost: api.example.com evil.test\r\n\r\n",                                           PIN_HTTP_OTHER_HOST},
        {"GET / HTTP/1.1\r\nHost: user@api.example.com\r\n\r\n",                                                PIN_HTTP_OTHER_HOST},
        {"GET / HTTP/1.1\r\n\r\n",                                                                              PIN_HTTP_OTHER_HOST},
        {"GET http://evil.test/ HTTP/1.1\r\n" HOST "\r\n",                                                      PIN_HTTP_OTHER_HOST},
        {"GET http://api.example.com@evil.test/ HTTP/1.1\r\n" HOST "\r\n",                                      PIN_HTTP_OTHER_HOST},
        {"GET ftp://api.example.com/ HTTP/1.1\r\n" HOST "\r\n",                                                 PIN_HTTP_OTHER_HOST},
        {"CONNECT evil.test:443 HTTP/1.1\r\n" HOST "\r\n",                                                      PIN_HTTP_OTHER_HOST},
        {"CONNECT api.example.com:443 HTTP/1.1\r\n" HOST "\r\n",                                                PIN_HTTP_OTHER_HOST},
        {"GET / HTTP/1.1\r\n" HOST "Host: evil.test\r\n\r\n",                                                   PIN_HTTP_FAULTY    },
        {"GET / HTTP/1.1\r\n" HOST HOST "\r\n",                                                                 PIN_HTTP_FAULTY    },
        {"GET / HTTP/1.1\r\nHost : api.example.com\r\n\r\n",                                                    PIN_HTTP_FAULTY    },
        {"GET / HTTP/1.1\r\n" HOST " folded\r\n\r\n",                                                           PIN_HTTP_FAULTY    },
        {"GET / HTTP/1.1\nHost: api.example.com\n\n",                                                           PIN_HTTP_FAULTY    },
        {"GET / HTTP/1.1\r\nHost: api.example.com\nX: y\r\n\r\n",                                               PIN_HTTP_FAULTY    },
        {"GET / HTTP/1.1\r\n" HOST "X: a\rb\r\n\r\n",                                                           PIN_HTTP_FAULTY    },
        {"GET  / HTTP/1.1\r\n" HOST "\r\n",                                                                     PIN_HTTP_FAULTY    },
        {"GET / HTTP/1.1 \r\n" HOST "\r\n",                                                                     PIN_HTTP_FAULTY    },
        {"GET / HTTP/2.0\r\n" HOST "\r\n",                                                                      PIN_HTTP_FAULTY    },
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",                                                                    PIN_HTTP_FAULTY    },
        {"GET /\r\n",                                                                                           PIN_HTTP_FAULTY    },
        {"\r\n" GET,                                                                                            PIN_HTTP_FAULTY    },
        {"\x16\x03\x01\x01\r\n",                                                                                PIN_HTTP_FAULTY    },
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
         PIN_HTTP_FAULTY                                                                                                           },
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",                           PIN_HTTP_FAULTY    },
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\n",                                               PIN_HTTP_FAULTY    },
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5, 5\r\n\r\n",                                             PIN_HTTP_FAULTY    },
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n",                             PIN_HTTP_FAULTY    },
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n",                                 PIN_HTTP_FAULTY    },
        {"POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",                              PIN_HTTP_FAULTY    },
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n",                                      PIN_HTTP_FAULTY    },
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n",                         PIN_HTTP_FAULTY    },
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n",                          PIN_HTTP_FAULTY    },
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\nabc\n",                               PIN_HTTP_FAULTY    },
        {"GET / HTTP/1.1\r\n" HOST "Upgrade: h2c\r\n\r\n",                                                      PIN_HTTP_FAULTY    },
        {GET "GET / HTTP/1.1\r\n" HOST "Upgrade: websocket\r\n\r\n",                                            PIN_HTTP_FAULTY    },
        {"GET / HTTP/1.1\r\n" HOST "Upgrade: WebSocket\r\n\r\n",                                                PIN_HTTP_PASS      },
        {"GET / HTTP/1.1\r\n" HOST "Upgrade: TLS/1.0\r\n\r\n",                                                  PIN_HTTP_FAULTY    },
        {"GET / HTTP/1.1\r\n" HOST "Upgrade: websocket, TLS/1.2\r\n\r\n",                                       PIN_HTTP_FAULTY    },
        {"GET / HTTP/1.1\r\n" HOST "Upgrade: websocket\r\nUpgrade: tcp\r\n\r\n",                                PIN_HTTP_FAULTY    },
        {"GET / HTTP/1.1\r\n" HOST "Upgrade: tcp\r\nUpgrade: websocket\r\n\r\n",                                PIN_HTTP_FAULTY    },
        {"GET / HTTP/1.1\r\n" HOST "Upgrade:\r\n\r\n",                                                          PIN_HTTP_FAULTY    },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_http_guard guard = {.host = "api.example.com", .port = 80};
        size_t passed, size = strlen(rows[i].text);
        enum pin_http_reading reading = pin_http_read(&guard, (const uint8_t *)rows[i].text, size, &passed);
        if (reading != rows[i].reading || (reading == PIN_HTTP_PASS && passed != size))
            fail_msg("row %zu: %d, %zu of %zu: %s", i, (int)reading, passed, size, rows[i].text);
    }
}

static void a_head_without_end_is_refused_at_its_bound(void **state) {
    (void)state;
    static uint8_t head[PIN_HTTP_HEAD_MAX + 64];
    struct pin_http_guard guard = {.host = "api.example.com", .port = 80};
    size_t passed;
    memset(head, 'a', sizeof(head));
    memcpy(head, "GET / HTTP/1.1\r\nX: ", 19);
    assert_int_equal(pin_http_read(&guard, head, PIN_HTTP_HEAD_MAX, &passed), PIN_HTTP_PASS);
    assert_int_equal(passed, 0);
    assert_int_equal(pin_http_read(&guard, head, PIN_HTTP_HEAD_MAX + 1, &passed), PIN_HTTP_FAULTY);
}

static void an_upgrade_is_opaque_only_once_the_server_agrees(void **state) {
    (void)state;
    static const char request[] = "GET / HTTP/1.1\r\n" HOST "Upgrade: websocket\r\n\r\n",
                      other[] = "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    static const char *const replies[] = {"HTTP/1.1 101 Switching", "HTTP/1.1 200 OK\r\n\r\n"};
    for (size_t i = 0; i < PIN_COUNT(replies); i++) {
        struct pin_http_guard guard = {.host = "api.example.com", .port = 80};
        size_t passed;
        assert_int_equal(pin_http_read(&guard, (const uint8_t *)request, sizeof(request) - 1, &passed),
                         PIN_HTTP_PASS);
        assert_int_equal(passed, sizeof(request) - 1);
        assert_int_equal(pin_http_read(&guard, (const uint8_t *)other, sizeof(other) - 1, &passed),
                         PIN_HTTP_PASS);
        assert_int_equal(passed, 0);
        assert_false(pin_http_saw_reply(&guard, (const uint8_t *)replies[i], 5));
        assert_true(pin_http_saw_reply(&guard, (const uint8_t *)replies[i] + 5, strlen(replies[i]) - 5));
        enum pin_http_reading reading =
            pin_http_read(&guard, (const uint8_t *)other, sizeof(other) - 1, &passed);
        assert_int_equal(reading, i == 0 ? PIN_HTTP_PASS : PIN_HTTP_OTHER_HOST);
    }
}

/* --- the rest ---------------------------------------------------------------------------------------------
 */

static void rules_survive_their_way_to_the_broker(void **state) {
    (void)state;
    static struct pin_port_range ports[] = {
        {80,   80  },
        {8000, 8999}
    };
    const struct pin_egress_budget budgets[] = {
        {.name = "one", .limits = pin_egress_no_limits},
        {.name = "two", .limits = {.bytes_out = 7}    }
    };
    const struct pin_egress_rule allow[] = {
        {.host = "*.example.com", .ports = ports, .port_count = 2,          .protocol = PIN_PROTOCOL_UDP},
        {.host = "a.example.org",
         .ports = ports,
         .port_count = 1,
         .inspect = PIN_INSPECT_TLS,
         .accept = PIN_ACCEPT_PLAIN_TEXT,
         .budget = &budgets[1]},
        {.address = {[10] = 0xff, [11] = 0xff, 10},   .prefix = 104,                 .ports = ports, .port_count = 1             },
    };
    const struct pin_egress_rule deny[] = {{.host = "bad.example.com"}};
    struct pin_egress_setup setup =
                                {
                                    .rules = {allow, deny, 3, 1, NULL},
                                    .budgets = budgets,
                                    .budget_count = 2,
                                    .limits = pin_egress_no_limits,
                                    .unknown_names = PIN_UNKNOWN_REFUSED
    },
                            read;
    struct pin_error err = {.kind = PIN_ERROR_NONE};
    PIN_ARENA struct pin_arena arena = {.block = NULL};
    uint8_t blob[4096];
    int fd = pin_rules_blob_write(&setup, &err);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "x", 1, 0), -1); /* sealed */
    ssize_t size = pread(fd, blob, sizeof(blob), 0);
    (void)close(fd);
    assert_true(pin_rules_blob_read(blob, (size_t)size, &arena, &read, &err));
    assert_int_equal(read.rules.allow_count, 3);
    assert_int_equal(read.rules.deny_count, 1);
    assert_string_equal(read.rules.allow[0].host, "*.example.com");
    assert_int_equal(read.rules.allow[0].protocol, PIN_PROTOCOL_UDP);
    assert_int_equal(read.rules.allow[0].ports[1].last, 8999);
    assert_null(read.rules.allow[0].budget);
    assert_int_equal(read.rules.allow[1].inspect, PIN_INSPECT_TLS);
    assert_int_equal(read.rules.allow[1].accept, PIN_ACCEPT_PLAIN_TEXT);
    assert_string_equal(read.rules.allow[1].budget->name, "two");
    assert_int_equal(read.rules.allow[1].budget->limits.bytes_out, 7);
    assert_null(read.rules.allow[2].host);
    assert_int_equal(read.rules.allow[2].prefix, 104);
    assert_string_equal(read.rules.deny[0].host, "bad.example.com");
    assert_int_equal(read.unknown_names, PIN_UNKNOWN_REFUSED);
    assert_memory_equal(&setup.limits, &read.limits, sizeof(read.limits));
    for (size_t cut = 0; cut < (size_t)size; cut++) {
        struct pin_error cut_err = {.kind = PIN_ERROR_NONE};
        assert_false(pin_rules_blob_read(blob, cut, &arena, &read, &cut_err));
    }
}

static void a_bucket_gives_its_burst_and_then_its_rate(void **state) {
    (void)state;
    struct pin_bucket bucket = {.per_second = 10, .burst = 20}, none = {.per_second = 0};
    uint64_t now = 5 * PIN_NS_PER_S;
    for (int i = 0; i < 20; i++)
        assert_true(pin_bucket_take(&bucket, now, 1));
    assert_false(pin_bucket_take(&bucket, now, 1));
    assert_false(pin_bucket_take(&bucket, now + 99 * PIN_NS_PER_MS, 1));
    assert_true(pin_bucket_take(&bucket, now + 100 * PIN_NS_PER_MS, 1));
    assert_false(pin_bucket_take(&bucket, now + 100 * PIN_NS_PER_MS, 1));
    assert_int_equal(pin_bucket_level(&bucket, now + 3600 * PIN_NS_PER_S), 20);
    assert_true(pin_bucket_take(&none, now, UINT64_MAX));
}

static void a_refused_packet_says_where_it_wanted_to_go(void **state) {
    (void)state;
    uint8_t four[24] = {0x45, [9] = 17, [16] = 8, 8, 8, 8, 0x30, 0x39, 0, 123};
    uint8_t six[44] = {0x60, [6] = 6, [24] = 0x26, [39] = 1, [42] = 0x01, 0xbb};
    struct pin_refused_packet refused;
    assert_true(pin_refused_packet_read(four, sizeof(four), &refused));
    assert_int_equal(refused.port, 123);
    assert_int_equal(refused.protocol, 17);
    assert_int_equal(refused.address[15], 8);
    four[0] = 0x46; /* options, which aren't there */
    assert_true(pin_refused_packet_read(four, sizeof(four), &refused));
    assert_int_equal(refused.port, 0);
    assert_true(pin_refused_packet_read(six, sizeof(six), &refused));
    assert_int_equal(refused.port, 443);
    assert_int_equal(refused.address[0], 0x26);
    assert_false(pin_refused_packet_read(six, 39, &refused));
    assert_false(pin_refused_packet_read(four, 19, &refused));
}

struct proxy_row {
    enum pin_proxy_kind kind;
    const char *login, *answer;
    size_t size, used;
    enum pin_proxy_step step;
    int os_errno;
};

#define ANSWER(text) text, sizeof(text) - 1

static void a_proxy_is_asked_and_its_answer_alone_is_taken(void **state) {
    (void)state;
    static const struct proxy_row rows[] = {
        {PIN_PROXY_HTTP,   "",    ANSWER("HTTP/1.1 200 OK\r\n\r\nhello"),                                      19, PIN_PROXY_DONE, 0           },
        {PIN_PROXY_HTTP,   "a:b", ANSWER("HTTP/1.0 204 x\r\nA: b\r\n\r\n"),                                    24, PIN_PROXY_DONE, 0           },
        {PIN_PROXY_HTTP,   "",    ANSWER("HTTP/1.1 407 no\r\n\r\n"),                                           19, PIN_PROXY_NO,   EACCES      },
        {PIN_PROXY_HTTP,   "",    ANSWER("HTTP/1.1 504 no\r\n\r\n"),                                           19, PIN_PROXY_NO,   ETIMEDOUT   },
        {PIN_PROXY_HTTP,   "",    ANSWER("SSH-2.0-x\r\n\r\nmore"),                                             13, PIN_PROXY_NO,   EPROTO      },
        {PIN_PROXY_HTTP,   "",
         ANSWER("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nLink: y\r\n\r\nHTTP/1.1 200 OK\r\n\r\nhello"),
         71,                                                                                                       PIN_PROXY_DONE, 0           },
        {PIN_PROXY_HTTP,   "",    ANSWER("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 407 no\r\n\r\n"),              44, PIN_PROXY_NO,
         EACCES                                                                                                                                },
        {PIN_PROXY_HTTP,   "",    ANSWER("HTTP/1.1 101 Switching\r\n\r\nhello"),                               26, PIN_PROXY_NO,   ECONNREFUSED},
        {PIN_PROXY_HTTP,   "",    ANSWER("HTTP/1.1 200 OK\r\n"),                                               17, PIN_PROXY_MORE, 0           },
        {PIN_PROXY_SOCKS5, "",    ANSWER("\5\0\5\0\0\1\1\2\3\4\0\120hello"),                                   12, PIN_PROXY_DONE, 0           },
        {PIN_PROXY_SOCKS5, "a:b", ANSWER("\5\2\1\0\5\0\0\3\1a\0\120hello"),                                    12, PIN_PROXY_DONE, 0           },
        {PIN_PROXY_SOCKS5, "a:b", ANSWER("\5\2\1\1"),                                                          4,  PIN_PROXY_NO,   EACCES      },
        {PIN_PROXY_SOCKS5, "",    ANSWER("\5\2"),                                                              2,  PIN_PROXY_NO,   EACCES      },
        {PIN_PROXY_SOCKS5, "",    ANSWER("\5\0\5\5\0\1\0"),                                                    7,  PIN_PROXY_NO,   ECONNREFUSED},
        {PIN_PROXY_SOCKS5, "",    ANSWER("\4\0"),                                                              2,  PIN_PROXY_NO,   EPROTO      },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        const struct proxy_row *row = &rows[i];
        struct pin_proxy proxy = {.kind = row->kind};
        struct pin_destination to = {.host = "api.example.com", .port = 443};
        struct pin_proxy_talk talk;
        enum pin_proxy_step step = PIN_PROXY_MORE;
        size_t total = 0;
        assert_true(pin_proxy_begin(&talk, &proxy, row->login, &to));
        while (step == PIN_PROXY_MORE && total < row->size) {
            size_t used;
            step = pin_proxy_read(&talk, (const uint8_t *)row->answer + total, row->size - total, &used);
            total += used;
        }
        assert_int_equal(step, row->step);
        assert_int_equal(total, row->used);
        assert_int_equal(talk.os_errno, row->os_errno);
    }
}

static void a_login_is_sent_as_each_protocol_has_it(void **state) {
    (void)state;
    struct pin_proxy http = {.kind = PIN_PROXY_HTTP}, socks = {.kind = PIN_PROXY_SOCKS5};
    struct pin_destination to = {.port = 22};
    struct pin_proxy_talk talk;
    size_t used;
    to.address[15] = 1;
    assert_true(pin_proxy_begin(&talk, &http, "Aladdin:open sesame", &to)); /* RFC 7617 2 */
    static const char wanted[] = "CONNECT [::1]:22 HTTP/1.1\r\nHost: [::1]:22\r\n"
                                 "Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n";
    assert_int_equal(talk.send_size, sizeof(wanted) - 1);
    assert_memory_equal(talk.send, wanted, sizeof(wanted) - 1);
    assert_true(pin_proxy_begin(&talk, &socks, "ab:cde", &to));
    assert_int_equal(pin_proxy_read(&talk, (const uint8_t *)"\5\2", 2, &used), PIN_PROXY_MORE);
    assert_int_equal(talk.send_size, 8);
    assert_memory_equal(talk.send, "\1\2ab\3cde", 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_what_another_implementation_reads),
        cmocka_unit_test(labels_that_hold_a_dot_are_not_two_labels),
        cmocka_unit_test(messages_that_are_no_single_question_are_refused),
        cmocka_unit_test(each_name_has_its_addresses_and_they_lead_back),
        cmocka_unit_test(a_hello_gives_its_name_however_it_is_cut),
        cmocka_unit_test(what_could_mislead_a_reader_of_hellos_is_seen),
        cmocka_unit_test(requests_pass_only_in_one_reading_and_for_one_host),
        cmocka_unit_test(a_head_without_end_is_refused_at_its_bound),
        cmocka_unit_test(an_upgrade_is_opaque_only_once_the_server_agrees),
        cmocka_unit_test(rules_survive_their_way_to_the_broker),
        cmocka_unit_test(a_bucket_gives_its_burst_and_then_its_rate),
        cmocka_unit_test(a_refused_packet_says_where_it_wanted_to_go),
        cmocka_unit_test(a_proxy_is_asked_and_its_answer_alone_is_taken),
        cmocka_unit_test(a_login_is_sent_as_each_protocol_has_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
