#include "runtime/receipt/firewall.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/process.h"
#include "base/sha256.h"

#define ANSWER_MOST ((size_t)4 * 1024 * 1024)
#define NAME_MOST 256

/* --- in the child: asks, and hands the answers on as they are --- */

static int dump(int netlink, uint8_t message, int to) {
    struct {
        struct nlmsghdr head;
        struct nfgenmsg family;
    } ask = {
        .head = {.nlmsg_len = sizeof(ask),
                 .nlmsg_type = (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | message),
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}
    };
    static uint8_t answer[64 * 1024];
    struct pin_error err = {0};
    if (send(netlink, &ask, sizeof(ask), 0) != (ssize_t)sizeof(ask))
        return errno;
    for (;;) {
        ssize_t got = recv(netlink, answer, sizeof(answer), 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? errno : EIO;
        if (!pin_write_all(to, answer, (size_t)got, &err))
            return EPIPE;
        for (struct nlmsghdr *at = (struct nlmsghdr *)(void *)answer; NLMSG_OK(at, (size_t)got);
             at = NLMSG_NEXT(at, got)) {
            if (at->nlmsg_type == NLMSG_DONE)
                return 0;
            if (at->nlmsg_type == NLMSG_ERROR)
                return -((struct nlmsgerr *)NLMSG_DATA(at))->error;
        }
    }
}

static int ask_all(pid_t init, int to) {
    int cause = pin_process_enter(init, "net", CLONE_NEWNET);
    int netlink = cause == 0 ? socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER) : -1;
    if (cause == 0 && netlink < 0)
        cause = errno;
    if (cause == 0)
        cause = dump(netlink, NFT_MSG_GETCHAIN, to);
    return cause == 0 ? dump(netlink, NFT_MSG_GETRULE, to) : cause;
}

/* --- here --- */

struct answers {
    json_t *chains, *rules;
    uint8_t digest[PIN_SHA256_SIZE];
};

struct attribute {
    const uint8_t *data;
    size_t size;
};

/* Steps over the first of them; false when there is no whole one. */
static bool next_attribute(struct attribute *all, uint16_t *type, struct attribute *first) {
    struct nlattr head;
    if (all->size < sizeof(head))
        return false;
    memcpy(&head, all->data, sizeof(head));
    if (head.nla_len < sizeof(head) || head.nla_len > all->size)
        return false;
    size_t step = ((size_t)head.nla_len + NLA_ALIGNTO - 1) / NLA_ALIGNTO * NLA_ALIGNTO;
    *type = head.nla_type & (uint16_t)NLA_TYPE_MASK;
    *first = (struct attribute){all->data + sizeof(head), head.nla_len - sizeof(head)};
    step = step < all->size ? step : all->size;
    *all = (struct attribute){all->data + step, all->size - step};
    return true;
}

/* The attribute of this type among those in `all`; empty where there is none. */
static struct attribute find(struct attribute all, uint16_t wanted) {
    struct attribute one;
    uint16_t type;
    while (next_attribute(&all, &type, &one))
        if (type == wanted)
            return one;
    return (struct attribute){NULL, 0};
}

static json_t *text_of(struct attribute attribute) {
    size_t size = attribute.size < NAME_MOST ? attribute.size : NAME_MOST;
    json_t *text = attribute.data == NULL ? NULL
                                          : json_stringn((const char *)attribute.data,
                                                         strnlen((const char *)attribute.data, size));
    return text != NULL ? text : json_null();
}

static json_t *number_of(struct attribute attribute) {
    uint32_t value;
    if (attribute.size != sizeof(value))
        return json_null();
    memcpy(&value, attribute.data, sizeof(value));
    return json_integer((int32_t)__builtin_bswap32(value));
}

static void mix(struct answers *answers, const uint8_t *data, size_t size) {
    uint8_t one[PIN_SHA256_SIZE];
    pin_sha256(data, size, one);
    pin_sha256_pair(answers->digest, PIN_SHA256_SIZE, one, sizeof(one), answers->digest);
}

/* What is the same each time the same rules are made: no handle, no count of users. */
static void mix_attribute(struct answers *answers, struct attribute attribute) {
    mix(answers, attribute.data != NULL ? attribute.data : (const uint8_t *)"", attribute.size);
}

static void take_chain(struct answers *answers, struct attribute all) {
    static const uint16_t mixed[] = {NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME, NFTA_CHAIN_HOOK, NFTA_CHAIN_POLICY,
                                     NFTA_CHAIN_TYPE};
    struct attribute hook = find(all, NFTA_CHAIN_HOOK);
    for (size_t i = 0; i < sizeof(mixed) / sizeof(mixed[0]); i++)
        mix_attribute(answers, find(all, mixed[i]));
    (void)json_array_append_new(
        answers->chains,
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "table", text_of(find(all, NFTA_CHAIN_TABLE)), "chain",
                  text_of(find(all, NFTA_CHAIN_NAME)), "type", text_of(find(all, NFTA_CHAIN_TYPE)), "hook",
                  number_of(find(hook, NFTA_HOOK_HOOKNUM)), "priority",
                  number_of(find(hook, NFTA_HOOK_PRIORITY)), "policy",
                  number_of(find(all, NFTA_CHAIN_POLICY))));
}

static json_t *names_of(struct attribute expressions) {
    json_t *list = json_array();
    struct attribute one;
    uint16_t type;
    while (next_attribute(&expressions, &type, &one))
        (void)json_array_append_new(list, text_of(find(one, NFTA_EXPR_NAME)));
    return list;
}

static void take_rule(struct answers *answers, struct attribute all) {
    struct attribute table = find(all, NFTA_RULE_TABLE), chain = find(all, NFTA_RULE_CHAIN),
                     expressions = find(all, NFTA_RULE_EXPRESSIONS);
    uint8_t digest[PIN_SHA256_SIZE];
    char text[PIN_DIGEST_TEXT];
    mix_attribute(answers, table);
    mix_attribute(answers, chain);
    mix_attribute(answers, expressions);
    pin_sha256(expressions.data != NULL ? expressions.data : (const uint8_t *)"", expressions.size, digest);
    (void)json_array_append_new(answers->rules,
                                json_pack("{s:o, s:o, s:o, s:s}", "table", text_of(table), "chain",
                                          text_of(chain), "expressions", names_of(expressions), "sha256",
                                          pin_digest_print(text, digest)));
}

static void take_message(struct answers *answers, const struct nlmsghdr *message) {
    const size_t head = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(struct nfgenmsg));
    if (message->nlmsg_len < head)
        return;
    struct attribute all = {(const uint8_t *)message + head, message->nlmsg_len - head};
    if (message->nlmsg_type == (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWCHAIN))
        take_chain(answers, all);
    if (message->nlmsg_type == (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWRULE))
        take_rule(answers, all);
}

static json_t *read_answers(uint8_t *bytes, size_t size) {
    struct answers answers = {.chains = json_array(), .rules = json_array()};
    char text[PIN_DIGEST_TEXT];
    for (struct nlmsghdr *at = (struct nlmsghdr *)(void *)bytes; NLMSG_OK(at, size);
         at = NLMSG_NEXT(at, size))
        take_message(&answers, at);
    return json_pack("{s:o, s:o, s:s}", "chains", answers.chains, "rules", answers.rules, "digest",
                     pin_digest_print(text, answers.digest));
}

static bool read_all(int from, uint8_t *bytes, size_t *size, struct pin_error *err) {
    for (*size = 0;;) {
        ssize_t got = read(from, bytes + *size, ANSWER_MOST - *size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return pin_fail_errno(err, "read the rules of the sandbox's network");
        if (got == 0)
            return true;
        *size += (size_t)got;
        if (*size == ANSWER_MOST)
            return pin_fail(err, PIN_ERROR_EXHAUSTED, "the sandbox's network has too many rules");
    }
}

json_t *pin_firewall_read(pid_t init, struct pin_error *err) {
    int ends[2], status = 0;
    size_t size = 0;
    PIN_FREE uint8_t *bytes = malloc(ANSWER_MOST);
    if (bytes == NULL || pipe2(ends, O_CLOEXEC) != 0) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): PIN_FREE frees it, which the analyzer doesn't see */
        (void)pin_fail_errno(err, "make a pipe");
        return NULL;
    }
    PIN_CLOSE int from = ends[0];
    pid_t child = fork();
    if (child == 0)
        _exit(ask_all(init, ends[1]));
    (void)close(ends[1]);
    bool read = child > 0 && read_all(from, bytes, &size, err);
    pin_close_fd(&from);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (!read && pin_is_set(err))
        return NULL;
    errno = child < 0 ? EAGAIN : WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
    if (errno == EPROTONOSUPPORT || errno == EOPNOTSUPP) /* a kernel without nftables has no rules */
        return json_null();
    if (errno == 0)
        return read_answers(bytes, size);
    (void)pin_fail_errno(err, "read the rules of the sandbox's network");
    return NULL;
}
