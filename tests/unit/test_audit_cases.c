#include "audit_fixture.h"

#include "policy/audit/bpf_text.h"
#include "policy/audit/cases.h"
#include "policy/audit/explain_html.h"

static bool read_cases(struct pin_cases *cases, const char *text, struct pin_findings *found) {
    memset(cases, 0, sizeof(*cases));
    memset(found, 0, sizeof(*found));
    return pin_cases_read(cases, "cases.json", text, strlen(text), found);
}

static void assertions_hold_or_do_not(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool holds;
    } rows[] = {
        {"{\"deny\": \"connect 169.254.169.254:80\"}",           true },
        {"{\"allow\": \"connect 169.254.169.254:80\"}",          false},
        {"{\"errno\": [\"EPERM\", \"syscall mount\"]}",          true },
        {"{\"errno\": [\"ENOSYS\", \"syscall mount\"]}",         false},
        {"{\"errno\": [\"ENOSYS\", \"syscall clone3\"]}",        true },
        {"{\"deny\": \"syscall mount\"}",                        true },
        {"{\"kill\": \"syscall mount\"}",                        false},
        {"{\"allow\": \"write /workspace/x\"}",                  true },
        {"{\"name\": \"a name\", \"allow\": \"read /tmp/x y\"}", true },
        {"{\"allow\": \"syscall socket\"}",                      false}, /* it depends */
        {"{\"deny\": \"syscall socket\"}",                       false},
        {"{\"allow\": \"limit memory 1MiB\"}",                   true },
        {"{\"deny\": \"secret KEY\"}",                           true },
    };
    PIN_REACH struct pin_reach reach;
    struct pin_policy *policy = policy_named("tool");
    reach_of(&reach, policy);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        PIN_CASES struct pin_cases cases;
        struct pin_findings found;
        PIN_ARENA struct pin_arena arena = {0};
        if (!read_cases(&cases, pin_arena_printf(&arena, "[%s]", rows[i].text), &found))
            fail_msg("%s: %s", rows[i].text, found.list[0].message);
        assert_int_equal(pin_cases_run(&cases, &reach, NULL), rows[i].holds ? 0 : 1);
    }
    pin_policy_free(policy);
}

static void bad_cases_are_refused_with_their_line(void **state) {
    (void)state;
    static const char *const rows[] = {
        "",
        "{}",
        "[1]",
        "[{}]",
        "[{\"allow\": 1}]",
        "[{\"alow\": \"read /x\"}]",
        "[{\"allow\": \"read /x\", \"deny\": \"read /x\"}]",
        "[{\"allow\": \"read x\"}]",
        "[{\"errno\": \"syscall mount\"}]",
        "[{\"errno\": [\"EWHAT\", \"syscall mount\"]}]",
        "[{\"errno\": [\"EPERM\", \"read /x\"]}]",
        "[{\"kill\": \"write /x\"}]",
        "[{\"name\": 1, \"allow\": \"read /x\"}]",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        PIN_CASES struct pin_cases cases;
        struct pin_findings found;
        if (read_cases(&cases, rows[i], &found))
            fail_msg("'%s' was read", rows[i]);
        assert_non_null(strstr(found.list[0].pointer, "cases.json"));
    }
}

static void reports_keep_hostile_names_in_their_place(void **state) {
    (void)state;
    static const char text[] = "[{\"name\": \"a # SKIP\\n<b>&\\\"\", \"allow\": \"secret KEY\"}, "
                               "{\"allow\": \"limit memory\"}]";
    PIN_CASES struct pin_cases cases;
    PIN_REACH struct pin_reach reach;
    PIN_BUFFER struct pin_buffer tap = {0}, junit = {0};
    struct pin_findings found;
    struct pin_policy *policy = policy_named("tool");
    reach_of(&reach, policy);
    assert_true(read_cases(&cases, text, &found));
    assert_int_equal(pin_cases_run(&cases, &reach, NULL), 1);
    cases.list[1].live = "it was denied";
    assert_int_equal(pin_cases_failed(&cases), 2);
    pin_cases_tap(&tap, &cases, policy->name);
    assert_non_null(strstr(tap.data, "TAP version 14\n# policy tool\n1..2\nnot ok 1 - allow: a \\# SKIP"));
    assert_non_null(strstr(tap.data, "not ok 2 - "));
    assert_non_null(strstr(tap.data, "seen: \"it was denied\""));
    pin_cases_junit(&junit, &cases, policy->name);
    assert_non_null(strstr(junit.data, "tests=\"2\" failures=\"2\""));
    assert_non_null(strstr(junit.data, "&lt;b&gt;&amp;"));
    assert_null(strstr(junit.data, "<b>"));
    pin_policy_free(policy);
}

static void make_page(struct pin_buffer *page, const struct pin_policy *policy) {
    PIN_REACH struct pin_reach reach;
    PIN_EXPLAIN struct pin_explain explain = {0};
    PIN_WEIGHTS struct pin_weights weights = {0};
    PIN_SCORE struct pin_score score = {0};
    PIN_LINT struct pin_lint lint = {0};
    struct pin_findings found = {0};
    reach_of(&reach, policy);
    pin_explain_make(&explain, &reach);
    assert_true(pin_weights_builtin(&weights, &found));
    pin_score_make(&score, &reach, &weights);
    pin_lint_check(&lint, &reach);
    pin_explain_html(page, &(struct pin_explain_page){&reach, &explain, &score, &lint});
}

static void a_page_needs_nothing_else_and_escapes_what_it_shows(void **state) {
    (void)state;
    static const char *const never[] = {"<script", "http://", "https://", "src=", "<b>x", "url(", "@import"};
    PIN_BUFFER struct pin_buffer page = {0};
    struct pin_policy *policy = policy_of(
        "\"description\": \"<b>x</b>&\\\"'\", \"secrets\": [\"KEY\"], \"filesystem\": {\"mounts\": ["
        "{\"source\": \"/srv/<b>x\", \"target\": \"/m\"}]}, \"network\": {\"egress\": ["
        "{\"host\": \"*.a.org\", \"ports\": [443]}]}");
    make_page(&page, policy);
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
        if (strstr(page.data, never[i]) != NULL)
            fail_msg("the page has '%s'", never[i]);
    assert_non_null(strstr(page.data, "&lt;b&gt;x"));
    assert_non_null(strstr(page.data, "lang=\"en\""));
    assert_non_null(strstr(page.data, "prefers-color-scheme: dark"));
    pin_policy_free(policy);
}

static void programs_are_disassembled(void **state) {
    (void)state;
    static const struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xc000003e, 0, 2),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xff), BPF_STMT(BPF_RET | BPF_K, 0x7fff0000),
        BPF_STMT(BPF_RET | BPF_K, 0x00050001),     {0xffff, 255, 255, 0xffffffff},
    };
    PIN_BUFFER struct pin_buffer text = {0};
    pin_bpf_text(&text, code, sizeof(code) / sizeof(code[0]));
    assert_non_null(strstr(text.data, "architecture"));
    assert_non_null(strstr(text.data, "jeq  #0xc000003e, 2, 4"));
    assert_non_null(strstr(text.data, "; allow"));
    assert_non_null(strstr(text.data, "errno 1 EPERM"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(assertions_hold_or_do_not),
        cmocka_unit_test(bad_cases_are_refused_with_their_line),
        cmocka_unit_test(reports_keep_hostile_names_in_their_place),
        cmocka_unit_test(a_page_needs_nothing_else_and_escapes_what_it_shows),
        cmocka_unit_test(programs_are_disassembled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
