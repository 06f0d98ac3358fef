#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/sha256.h"
#include "base/text.h"
#include "tools/pinfold-audit/receipt_key.h"
#include "tools/pinfold-audit/verbs.h"
#include "tools/pinfold/report.h"

#define RECEIPT_BYTES ((size_t)4 * 1024 * 1024)

/* One text for one receipt: what is signed doesn't depend on how the file is laid out. */
static char *canonical(const json_t *receipt) {
    return json_dumps(receipt, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
}

static json_t *read_json(int fd, struct pin_error *err) {
    size_t size;
    PIN_FREE char *text = pin_read_all(fd, RECEIPT_BYTES, &size, err);
    json_t *json = text != NULL ? json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (text != NULL && !json_is_object(json)) {
        (void)pin_fail(err, PIN_ERROR_SYNTAX, "this is no JSON object");
        json_decref(json);
        return NULL;
    }
    return json;
}

struct sign_options {
    bool check;
};

static const struct pin_option sign_rows[] = {
    {"check", 0, PIN_OPTION_FLAG, offsetof(struct sign_options, check), NULL,
     "only see that FILE isn't there and that there is a key", NULL},
};

static json_t *sign(EVP_PKEY *key, json_t *receipt, struct pin_error *err) {
    char public_key[PIN_KEY_TEXT], signature[PIN_SIGNATURE_TEXT];
    PIN_FREE char *text = canonical(receipt);
    if (text == NULL || !pin_receipt_key_public(key, public_key, err) ||
        !pin_receipt_sign(key, text, signature, err))
        return NULL;
    return json_pack("{s:O, s:{s:s, s:s, s:s}}", "receipt", receipt, "signature", "algorithm", "ed25519",
                     "key", public_key, "value", signature);
}

static bool write_file(const char *file, const json_t *whole, struct pin_error *err) {
    PIN_FREE char *text = json_dumps(whole, JSON_INDENT(1));
    PIN_CLOSE int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (text == NULL || fd < 0)
        return pin_fail_errno(err, "make the receipt '%s'", file);
    return pin_write_all(fd, text, strlen(text), err) && pin_write_all(fd, "\n", 1, err) &&
           (fsync(fd) == 0 || pin_fail_errno(err, "write the receipt '%s'", file));
}

/* Before anything runs: what can be known by then must not be found out when all is over. */
static bool check_place(const char *file, struct pin_error *err) {
    PIN_FREE char *folder = strdup(file);
    char *slash = folder != NULL ? strrchr(folder, '/') : NULL;
    if (folder == NULL)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory for a receipt");
    if (faccessat(AT_FDCWD, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): PIN_FREE frees it, unseen */
        return pin_fail(err, PIN_ERROR_EXISTS, "'%s' is there already", file);
    if (slash != NULL)
        slash[slash == folder ? 1 : 0] = '\0';
    return faccessat(AT_FDCWD, slash != NULL ? folder : ".", W_OK | X_OK, AT_EACCESS) == 0 ||
           pin_fail_errno(err, "make the receipt '%s'", file);
}

static bool sign_file(const char *file, bool check, struct pin_error *err) {
    EVP_PKEY *key = pin_receipt_key_open(true, err);
    bool ok = key != NULL;
    if (ok && check) {
        ok = check_place(file, err);
    } else if (ok) {
        json_t *receipt = read_json(STDIN_FILENO, err);
        json_t *whole = receipt != NULL ? sign(key, receipt, err) : NULL;
        ok = whole != NULL && write_file(file, whole, err);
        json_decref(whole);
        json_decref(receipt);
    }
    EVP_PKEY_free(key);
    return ok;
}

static int run_sign(const struct pin_invocation *invocation) {
    const struct sign_options *values = invocation->values;
    struct pin_error err = {0};
    if (sign_file(invocation->arguments[0], values->check, &err))
        return PIN_AUDIT_GOOD;
    (void)pin_report(&err, false);
    return PIN_AUDIT_ERROR;
}

const struct pin_verb pin_audit_verb_receipt_sign = {
    .name = "audit receipt sign",
    .synopsis = "FILE",
    .summary = "sign what is on standard input; 'pinfold run --receipt' calls it",
    .description = "FILE is made, and must not be there.",
    .example = "  pinfold run --receipt out.json -- true",
    .options = sign_rows,
    .option_count = PIN_COUNT(sign_rows),
    .values_size = sizeof(struct sign_options),
    .least_arguments = 1,
    .most_arguments = 1,
    .run = run_sign,
};

static int run_key(const struct pin_invocation *invocation) {
    struct pin_error err = {0};
    char text[PIN_KEY_TEXT];
    (void)invocation;
    EVP_PKEY *key = pin_receipt_key_open(true, &err);
    bool ok = key != NULL && pin_receipt_key_public(key, text, &err);
    EVP_PKEY_free(key);
    if (ok)
        (void)puts(text);
    else
        (void)pin_report(&err, false);
    return ok ? PIN_AUDIT_GOOD : PIN_AUDIT_ERROR;
}

const struct pin_verb pin_audit_verb_receipt_key = {
    .name = "audit receipt key",
    .synopsis = "",
    .summary = "print the public key that this host signs receipts with",
    .description =
        "The key is made at its first use. Give its public part to whoever checks receipts elsewhere.",
    .example = "  pinfold audit receipt key >host.pub",
    .options = NULL,
    .option_count = 0,
    .values_size = 1,
    .run = run_key,
};

struct verify_options {
    const char *key;
    bool json;
};

static const struct pin_option verify_rows[] = {
    {"key",  0, PIN_OPTION_TEXT, offsetof(struct verify_options, key),  "HEX",
     "the public key that must have signed it (this host's own)", NULL},
    {"json", 0, PIN_OPTION_FLAG, offsetof(struct verify_options, json), NULL,
     "print the receipt that was signed",                         NULL},
};

/* The key that counts: the caller's word, or this host's own. What the file says of itself proves nothing. */
static bool trusted_key(const char *given, char text[PIN_KEY_TEXT], struct pin_error *err) {
    if (given != NULL) {
        if (strlen(given) != PIN_KEY_TEXT - 1)
            return pin_fail(err, PIN_ERROR_USAGE, "--key takes %d hexadecimal digits", PIN_KEY_TEXT - 1);
        memcpy(text, given, PIN_KEY_TEXT);
        return true;
    }
    EVP_PKEY *key = pin_receipt_key_open(false, err);
    bool ok = key != NULL && pin_receipt_key_public(key, text, err);
    EVP_PKEY_free(key);
    return ok || pin_hint(err, "give the key of the host that signed it: --key");
}

/* Nothing stands beside what is signed: a reader could take it for a part of it. */
static bool is_signed(const json_t *whole, const char *key) {
    const json_t *signature = json_object_get(whole, "signature");
    if (json_object_size(whole) != 2 || json_object_size(signature) != 3)
        return false;
    const char *algorithm = json_string_value(json_object_get(signature, "algorithm"));
    const char *value = json_string_value(json_object_get(signature, "value"));
    const json_t *receipt = json_object_get(whole, "receipt");
    PIN_FREE char *text = json_is_object(receipt) ? canonical(receipt) : NULL;
    return text != NULL && value != NULL && algorithm != NULL && strcmp(algorithm, "ed25519") == 0 &&
           pin_receipt_check(key, text, value);
}

static const char *shown(char *to, size_t room, const json_t *text) {
    const char *value = json_is_string(text) ? json_string_value(text) : "?";
    return pin_escape(to, room, value, strlen(value));
}

static int answer(const json_t *whole, const char *key, bool as_json) {
    const json_t *receipt = json_object_get(whole, "receipt");
    if (!is_signed(whole, key)) {
        (void)fprintf(stderr, "pinfold: the receipt is not what the key %.16s… has signed\n", key);
        return PIN_AUDIT_BAD;
    }
    if (as_json) {
        (void)json_dumpf(receipt, stdout, JSON_INDENT(1));
        (void)fputc('\n', stdout);
        return PIN_AUDIT_GOOD;
    }
    char sandbox[80],
        digest[PIN_DIGEST_TEXT + 8]; /* a key that the caller trusts signs whatever it is given */
    (void)printf("the receipt of %s, policy %s, is signed by %s\n",
                 shown(sandbox, sizeof(sandbox), json_object_get(receipt, "sandbox")),
                 shown(digest, sizeof(digest), json_object_get(json_object_get(receipt, "policy"), "digest")),
                 key);
    return PIN_AUDIT_GOOD;
}

/* O_NONBLOCK: a FIFO would wait for its writer. */
static json_t *read_receipt(const char *file, struct pin_error *err) {
    struct stat facts;
    PIN_CLOSE int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &facts) != 0) {
        (void)pin_fail_errno(err, "open the receipt '%s'", file);
        return NULL;
    }
    if (!S_ISREG(facts.st_mode)) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "a receipt is a regular file, and '%s' is none", file);
        (void)pin_hint(err, "name a file; neither pipes nor folders are read");
        return NULL;
    }
    return read_json(fd, err);
}

static int run_verify(const struct pin_invocation *invocation) {
    const struct verify_options *values = invocation->values;
    struct pin_error err = {0};
    char key[PIN_KEY_TEXT];
    json_t *whole = read_receipt(invocation->arguments[0], &err);
    int code = PIN_AUDIT_ERROR;
    if (whole != NULL && trusted_key(values->key, key, &err))
        code = answer(whole, key, values->json);
    else
        (void)pin_report(&err, false);
    json_decref(whole);
    return code;
}

const struct pin_verb pin_audit_verb_receipt_verify = {
    .name = "audit receipt verify",
    .synopsis = "FILE",
    .summary = "check the signature of a receipt, offline",
    .description = "Exit code 0: it is what the key has signed; 1: it isn't; 2: no answer.",
    .example = "  pinfold audit receipt verify out.json --key \"$(cat host.pub)\"",
    .options = verify_rows,
    .option_count = PIN_COUNT(verify_rows),
    .values_size = sizeof(struct verify_options),
    .least_arguments = 1,
    .most_arguments = 1,
    .run = run_verify,
};
