#include "runtime/secrets/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "runtime/private/private_dir.h"
#include "runtime/secrets/command.h"

static const struct pin_private_place place = {"PINFOLD_SECRETS", "/etc/pinfold/secrets", "XDG_CONFIG_HOME",
                                               ".config", "pinfold/secrets"};

static const char *const source_names[] = {
    [PIN_SECRET_FROM_VARIABLE] = "variable",           [PIN_SECRET_FROM_DIRECTORY] = "directory",
    [PIN_SECRET_FROM_CREDENTIALS] = "credentials",     [PIN_SECRET_FROM_COMMAND] = "command",
    [PIN_SECRET_FROM_CONFIGURATION] = "configuration",
};
_Static_assert(PIN_COUNT(source_names) == PIN_SECRET_SOURCE_COUNT, "every source has a name");

const char *pin_secret_source_name(enum pin_secret_source source) {
    return source_names[source];
}

static bool make_room(struct pin_secret *secret, size_t value_size, struct pin_error *err) {
    secret->value_at = strlen(secret->spec.target) + 1;
    if (!pin_locked_alloc(&secret->memory, secret->value_at + value_size + 1, err))
        return false;
    memcpy(secret->memory.bytes, secret->spec.target, secret->value_at - 1);
    secret->memory.bytes[secret->value_at - 1] = '=';
    return true;
}

static void set_size(struct pin_secret *secret, size_t value_size) {
    secret->memory.size = secret->value_at + value_size;
    secret->memory.bytes[secret->memory.size] = 0;
}

/* Into the locked memory itself: no buffer of the C library sees it. */
static bool read_value(struct pin_secret *secret, int fd, struct pin_error *err) {
    struct stat facts;
    size_t size = 0;
    ssize_t got = 0;
    if (fstat(fd, &facts) != 0)
        return pin_fail_errno(err, "look at it");
    if (!S_ISREG(facts.st_mode) || facts.st_size > (off_t)PIN_SECRET_MOST)
        return pin_fail(err, PIN_ERROR_INVALID, "not a file of at most %zu bytes", PIN_SECRET_MOST);
    size_t room = (size_t)facts.st_size;
    if (!make_room(secret, room, err))
        return false;
    uint8_t *value = secret->memory.bytes + secret->value_at;
    while (size < room && (got = read(fd, value + size, room - size)) > 0)
        size += (size_t)got;
    if (got < 0)
        return pin_fail_errno(err, "read it");
    if (size > 0 && value[size - 1] == '\n')
        size--;
    set_size(secret, size);
    return true;
}

static bool copy_variable(struct pin_secret *secret, const char *variable, struct pin_error *err) {
    const char *value = secure_getenv(variable);
    size_t size = value != NULL ? strlen(value) : 0;
    if (value == NULL)
        return pin_fail(err, PIN_ERROR_NOT_FOUND, "there is no variable '%.60s'", variable);
    if (size > PIN_SECRET_MOST)
        return pin_fail(err, PIN_ERROR_INVALID, "longer than %zu bytes", PIN_SECRET_MOST);
    if (!make_room(secret, size, err))
        return false;
    memcpy(secret->memory.bytes + secret->value_at, value, size);
    set_size(secret, size);
    return true;
}

/* Its variable, where the caller has named one for this secret. */
static const char *named_variable(const struct pin_secret *secret, const char *const *from_env,
                                  size_t count) {
    size_t length = strlen(secret->spec.name);
    for (size_t i = 0; i < count; i++)
        if (strncmp(from_env[i], secret->spec.name, length) == 0 && from_env[i][length] == '=')
            return from_env[i] + length + 1;
    return NULL;
}

/* -1 without an error: it isn't there. */
static int open_in_directory(const char *name, struct pin_error *err) {
    char path[PATH_MAX];
    struct pin_error failure = {0};
    if (!pin_private_choose(&place, path, err))
        return -1;
    PIN_CLOSE int dir = pin_private_dir(path, false, &failure);
    int fd = dir >= 0 ? pin_private_file(dir, name, O_RDONLY, &failure) : -1;
    if (fd < 0 && failure.os_errno != ENOENT)
        *err = failure;
    return fd;
}

/* systemd makes the directory and the files for this service alone; the service's user may have no more than
 * an entry in their access lists, which looks like rights of the group. */
static int open_credential(const char *name, struct pin_error *err) {
    const char *path = secure_getenv("CREDENTIALS_DIRECTORY");
    struct stat facts;
    if (path == NULL || path[0] != '/')
        return -1;
    PIN_CLOSE int dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    PIN_CLOSE int fd =
        dir >= 0 ? openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    if (fd < 0 && errno == ENOENT)
        return -1;
    if (fd < 0 || fstat(fd, &facts) != 0)
        (void)pin_fail_errno(err, "open the credential");
    else if ((facts.st_uid != 0 && facts.st_uid != geteuid()) || (facts.st_mode & 0007) != 0)
        (void)pin_fail(err, PIN_ERROR_REFUSED, "the credential is open to others, or not the service's own");
    return pin_is_set(err) ? -1 : pin_steal_fd(&fd);
}

static bool ask_command(struct pin_secret *secret, struct pin_error *err) {
    size_t size = 0;
    secret->source = PIN_SECRET_FROM_COMMAND;
    secret->value_at = strlen(secret->spec.target) + 1;
    if (!pin_secret_command_run(secret->spec.name, secret->value_at, PIN_SECRET_MOST, &secret->memory, &size,
                                err))
        return false;
    memcpy(secret->memory.bytes, secret->spec.target, secret->value_at - 1);
    secret->memory.bytes[secret->value_at - 1] = '=';
    if (size > 0 && secret->memory.bytes[secret->value_at + size - 1] == '\n')
        size--;
    set_size(secret, size);
    return true;
}

static bool find(struct pin_secret *secret, const char *const *from_env, size_t count,
                 struct pin_error *err) {
    const char *variable = named_variable(secret, from_env, count);
    if (variable != NULL) {
        secret->source = PIN_SECRET_FROM_VARIABLE;
        return copy_variable(secret, variable, err);
    }
    secret->source = PIN_SECRET_FROM_DIRECTORY;
    PIN_CLOSE int fd = open_in_directory(secret->spec.name, err);
    if (fd < 0 && !pin_is_set(err)) {
        secret->source = PIN_SECRET_FROM_CREDENTIALS;
        fd = open_credential(secret->spec.name, err);
    }
    if (fd >= 0)
        return read_value(secret, fd, err);
    if (pin_is_set(err) || ask_command(secret, err) || pin_is_set(err))
        return !pin_is_set(err);
    (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "nobody has it");
    return pin_hint(err, "put it into a file of that name, mode 0600, in the directory of secrets, or name a "
                         "variable with --secret-from-env");
}

static bool check(const struct pin_secret *secret, struct pin_error *err) {
    size_t size;
    const char *value = pin_secret_value(secret, &size);
    if (size < PIN_SECRET_LEAST)
        return pin_fail(err, PIN_ERROR_INVALID, "shorter than %d bytes, it couldn't be masked in output",
                        PIN_SECRET_LEAST);
    if (secret->spec.form == PIN_SECRET_ENV && memchr(value, '\0', size) != NULL) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "it has a zero byte, which no variable can hold");
        return pin_hint(err, "hand it over as a file: NAME:file");
    }
    return true;
}

static int by_name(const void *a, const void *b) {
    const struct pin_secret *x = a, *y = b;
    int order = strcmp(x->spec.name, y->spec.name);
    return order != 0 ? order : strcmp(x->spec.target, y->spec.target);
}

static bool check_targets(const struct pin_secrets *secrets, struct pin_error *err) {
    for (size_t i = 0; i < secrets->count; i++)
        for (size_t j = 0; j < i; j++)
            if (secrets->list[i].spec.form == secrets->list[j].spec.form &&
                strcmp(secrets->list[i].spec.target, secrets->list[j].spec.target) == 0)
                return pin_fail(err, PIN_ERROR_USAGE, "two secrets would both become '%s'",
                                secrets->list[i].spec.target);
    return true;
}

static bool find_all(struct pin_secrets *secrets, const char *const *specs, const char *const *from_env,
                     size_t from_env_count, struct pin_error *err) {
    for (size_t i = 0; i < secrets->count; i++)
        if (!pin_secret_spec_parse(specs[i], &secrets->list[i].spec, err))
            return false;
    for (size_t i = 0; i < secrets->count; i++) {
        struct pin_secret *secret = &secrets->list[i];
        if (!find(secret, from_env, from_env_count, err) || !check(secret, err)) {
            (void)pin_point(err, "--secret");
            return pin_wrap(err, "the secret '%s'", secret->spec.name);
        }
    }
    return true;
}

bool pin_secrets_find(struct pin_secrets *secrets, const char *const *specs, size_t spec_count,
                      const char *const *from_env, size_t from_env_count, struct pin_error *err) {
    if (spec_count == 0)
        return true;
    if (spec_count > PIN_SECRETS_MAX)
        return pin_fail(err, PIN_ERROR_INVALID, "%zu secrets are more than %d", spec_count, PIN_SECRETS_MAX);
    secrets->list = calloc(spec_count, sizeof(*secrets->list));
    if (secrets->list == NULL)
        return pin_fail_errno(err, "hold the secrets");
    secrets->count = spec_count;
    if (find_all(secrets, specs, from_env, from_env_count, err) && check_targets(secrets, err)) {
        qsort(secrets->list, secrets->count, sizeof(*secrets->list), by_name);
        return true;
    }
    pin_secrets_free(secrets);
    return false;
}

static bool has_value(const struct pin_secrets *secrets, const struct pin_secret *secret) {
    size_t size, other_size;
    const char *value = pin_secret_value(secret, &size);
    for (size_t i = 0; i < secrets->count; i++) {
        const char *other = pin_secret_value(&secrets->list[i], &other_size);
        if (size == other_size && memcmp(value, other, size) == 0)
            return true;
    }
    return false;
}

static void forget_oldest(struct pin_secrets *secrets) {
    pin_locked_free(&secrets->list[0].memory);
    secrets->count--;
    memmove(secrets->list, secrets->list + 1, secrets->count * sizeof(*secrets->list));
}

bool pin_secrets_remember(struct pin_secrets *secrets, const struct pin_secret *secret, size_t most,
                          bool *is_new, struct pin_error *err) {
    struct pin_secret copy = *secret;
    if (has_value(secrets, secret))
        return true;
    if (secrets->list == NULL && (secrets->list = calloc(most, sizeof(*secrets->list))) == NULL)
        return pin_fail_errno(err, "hold the secrets");
    if (!pin_locked_alloc(&copy.memory, secret->memory.size + 1, err))
        return false;
    memcpy(copy.memory.bytes, secret->memory.bytes, secret->memory.size);
    copy.memory.size = secret->memory.size;
    if (secrets->count == most)
        forget_oldest(secrets);
    secrets->list[secrets->count++] = copy;
    *is_new = true;
    return true;
}

static struct pin_secret *grow(struct pin_secrets *secrets, struct pin_error *err) {
    if (secrets->count == PIN_SECRETS_MAX) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "there are more than %d secrets", PIN_SECRETS_MAX);
        return NULL;
    }
    struct pin_secret *list = reallocarray(secrets->list, secrets->count + 1, sizeof(*list));
    if (list == NULL) {
        (void)pin_fail_errno(err, "hold the secrets");
        return NULL;
    }
    secrets->list = list;
    memset(&list[secrets->count], 0, sizeof(*list));
    return &list[secrets->count];
}

static bool add_variable(struct pin_secrets *secrets, const char *variable, const char *value, size_t size,
                         struct pin_error *err) {
    struct pin_secret *secret = grow(secrets, err);
    if (secret == NULL)
        return false;
    if (strlen(variable) >= PIN_SECRET_NAME_MAX || size > PIN_SECRET_MOST)
        return pin_fail(err, PIN_ERROR_INVALID, "the secret '%.60s' is too long", variable);
    (void)stpcpy(secret->spec.name, variable);
    (void)stpcpy(secret->spec.target, variable);
    secret->spec.form = PIN_SECRET_ENV;
    secret->source = PIN_SECRET_FROM_CONFIGURATION;
    if (!make_room(secret, size, err))
        return false;
    memcpy(secret->memory.bytes + secret->value_at, value, size);
    set_size(secret, size);
    secrets->count++;
    return check(secret, err) || pin_wrap(err, "the secret '%.60s'", variable);
}

bool pin_secrets_add_pairs(struct pin_secrets *secrets, const char *text, size_t size, size_t count,
                           struct pin_error *err) {
    const char *at = text, *end = text + size;
    for (size_t i = 0; i < count; i++) {
        char name[PIN_SECRET_NAME_MAX];
        size_t whole = strnlen(at, (size_t)(end - at));
        const char *equals = memchr(at, '=', whole);
        if (at + whole == end || equals == NULL || (size_t)(equals - at) >= sizeof(name))
            return pin_fail(err, PIN_ERROR_INTERNAL, "%zu of %zu secrets came", i, count);
        *(char *)mempcpy(name, at, (size_t)(equals - at)) = '\0';
        if (!add_variable(secrets, name, equals + 1, (size_t)(at + whole - equals) - 1, err))
            return false;
        at += whole + 1;
    }
    return at == end || pin_fail(err, PIN_ERROR_INTERNAL, "more than %zu secrets came", count);
}

static bool has_variable(const struct pin_secrets *secrets, const char *variable) {
    for (size_t i = 0; i < secrets->count; i++)
        if (secrets->list[i].spec.form == PIN_SECRET_ENV &&
            strcmp(secrets->list[i].spec.target, variable) == 0)
            return true;
    return false;
}

bool pin_secrets_join(struct pin_secrets *to, struct pin_secrets *from, struct pin_error *err) {
    bool good = true;
    for (size_t i = 0; good && i < from->count; i++) {
        if (has_variable(to, from->list[i].spec.target))
            continue;
        struct pin_secret *secret = grow(to, err);
        good = secret != NULL;
        if (good) {
            *secret = from->list[i];
            from->list[i].memory = (struct pin_locked){0};
            to->count++;
        }
    }
    pin_secrets_free(from);
    return good;
}

void pin_secrets_free(struct pin_secrets *secrets) {
    for (size_t i = 0; i < secrets->count; i++)
        pin_locked_free(&secrets->list[i].memory);
    free(secrets->list);
    *secrets = (struct pin_secrets){0};
}

const char *pin_secret_value(const struct pin_secret *secret, size_t *size) {
    *size = secret->memory.size - secret->value_at;
    return (const char *)secret->memory.bytes + secret->value_at;
}

const char *pin_secret_variable(const struct pin_secret *secret) {
    return (const char *)secret->memory.bytes;
}

/* The digests of single values are not kept: a short one could be guessed from its own. */
void pin_secrets_digest(const struct pin_secrets *secrets, uint8_t digest[PIN_SHA256_SIZE]) {
    memset(digest, 0, PIN_SHA256_SIZE);
    for (size_t i = 0; i < secrets->count; i++) {
        const struct pin_secret *secret = &secrets->list[i];
        uint8_t one[PIN_SHA256_SIZE], two[PIN_SHA256_SIZE];
        size_t size;
        const char *value = pin_secret_value(secret, &size);
        pin_sha256(value, size, one);
        pin_sha256_pair(&secret->spec, sizeof(secret->spec), one, sizeof(one), two);
        pin_sha256_pair(digest, PIN_SHA256_SIZE, two, sizeof(two), digest);
        explicit_bzero(one, sizeof(one));
    }
}
