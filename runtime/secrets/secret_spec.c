#include "runtime/secrets/secret_spec.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define DIGITS "0123456789"

static bool is_made_of(const char *text, size_t size, const char *first, const char *rest) {
    if (size == 0 || size >= PIN_SECRET_NAME_MAX || strchr(first, text[0]) == NULL)
        return false;
    return strspn(text, rest) >= size;
}

static bool is_name(const char *text, size_t size) {
    return is_made_of(text, size, LETTERS DIGITS, LETTERS DIGITS ".-");
}

static bool is_variable(const char *text, size_t size) {
    return is_made_of(text, size, LETTERS, LETTERS DIGITS);
}

static bool refuse(struct pin_error *err, const char *text, const char *why) {
    char shown[96];
    (void)pin_fail(err, PIN_ERROR_USAGE, "--secret '%s': %s",
                   pin_escape(shown, sizeof(shown), text, strlen(text)), why);
    return pin_hint(err, "write NAME, NAME:env=VARIABLE, NAME:file or NAME:file=FILE");
}

static void take(char to[PIN_SECRET_NAME_MAX], const char *from, size_t size) {
    (void)snprintf(to, PIN_SECRET_NAME_MAX, "%.*s", (int)size, from);
}

bool pin_secret_spec_parse(const char *text, struct pin_secret_spec *spec, struct pin_error *err) {
    size_t name = strcspn(text, ":");
    const char *form = text[name] == ':' ? text + name + 1 : "env";
    const char *target = strchr(form, '=') != NULL ? strchr(form, '=') + 1 : NULL;
    size_t word = strcspn(form, "="), length = target != NULL ? strlen(target) : name;
    bool is_file = word == 4 && memcmp(form, "file", 4) == 0;
    if (!is_name(text, name))
        return refuse(err, text, "no name of a secret");
    if (!is_file && (word != 3 || memcmp(form, "env", 3) != 0))
        return refuse(err, text, "no way to hand it over");
    if (target == NULL)
        target = text;
    if (is_file && !is_name(target, length))
        return refuse(err, text, "no name of a file in /run/secrets");
    if (!is_file && !is_variable(target, length))
        return refuse(err, text, "no name of an environment variable");
    *spec = (struct pin_secret_spec){.form = is_file ? PIN_SECRET_FILE : PIN_SECRET_ENV};
    take(spec->name, text, name);
    take(spec->target, target, length);
    return true;
}
