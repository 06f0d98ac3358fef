#include "policy/host_name.h"

#include <string.h>

#include "base/text.h"

#define LABEL_MAX 63

static bool is_alnum(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool pin_host_refuse(const char *text, size_t size, const char *why, const char *hint,
                     struct pin_error *err) {
    char shown[96];
    (void)pin_escape(shown, sizeof(shown), text, size);
    (void)pin_fail(err, PIN_ERROR_INVALID, "'%s' is not a host name: %s", shown, why);
    return hint != NULL ? pin_hint(err, "%s", hint) : false;
}

/* What resolvers take for an IPv4 address in one of its old forms: 127.1, 0x7f000001, 10. */
static bool is_number(const char *label, size_t size) {
    if (size >= 2 && label[0] == '0' && label[1] == 'x')
        return strspn(label + 2, "0123456789abcdef") >= size - 2;
    return strspn(label, "0123456789") >= size;
}

static const char *fault_of_label(const char *label, size_t size) {
    if (size == 0)
        return "it has an empty label";
    if (size > LABEL_MAX)
        return "a label is longer than 63 characters";
    if (label[0] == '-' || label[size - 1] == '-')
        return "a label starts or ends with '-'";
    for (size_t i = 0; i < size; i++)
        if (!is_alnum(label[i]) && label[i] != '-' && label[i] != '_')
            return "only letters, digits, '-', '_' and '.' can stand in it";
    return NULL;
}

static const char *fault_of_labels(const char *name) {
    for (;;) {
        size_t size = strcspn(name, ".");
        const char *fault = fault_of_label(name, size);
        if (fault != NULL)
            return fault;
        if (name[size] == '\0')
            return is_number(name, size) ? "it is an address" : NULL;
        name += size + 1;
    }
}

bool pin_host_name(const char *text, size_t size, char to[PIN_HOST_MAX], struct pin_error *err) {
    char name[PIN_HOST_MAX];
    size_t length = size > 1 && text[size - 1] == '.' ? size - 1 : size;
    if (memchr(text, ':', size) != NULL || memchr(text, '[', size) != NULL)
        return pin_host_refuse(text, size, "it is an address or has a port",
                               "write ports under \"ports\", an address as {\"cidr\": \"...\"}", err);
    if (memchr(text, '\0', size) != NULL) /* "good\0evil" would be two names to two readers */
        return pin_host_refuse(text, size, "it holds a zero byte", NULL, err);
    if (length >= sizeof(name))
        return pin_host_refuse(text, size, "it is longer than 253 characters", NULL, err);
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] >= 0x80)
            return pin_host_refuse(text, size, "it is not ASCII", PIN_HOST_ASCII_HINT, err);
        name[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] - 'A' + 'a') : text[i];
    }
    name[length] = '\0';
    const char *fault = fault_of_labels(name);
    if (fault != NULL)
        return pin_host_refuse(
            text, size, fault,
            strcmp(fault, "it is an address") == 0 ? "name addresses by {\"cidr\": \"...\"}" : NULL, err);
    memcpy(to, name, length + 1);
    return true;
}

bool pin_host_match(const char *pattern, const char *name) {
    if (strcmp(pattern, "*") == 0)
        return true;
    if (strncmp(pattern, "*.", 2) != 0)
        return strcmp(pattern, name) == 0;
    size_t suffix = strlen(pattern + 1), length = strlen(name);
    return length > suffix && strcmp(name + length - suffix, pattern + 1) == 0;
}

bool pin_host_covers(const char *outer, const char *inner) {
    if (outer[0] != '*') /* of long lists nearly all, and each is compared with each */
        return strcmp(outer, inner) == 0;
    return strcmp(outer, inner) == 0 || strcmp(outer, "*") == 0 ||
           (strcmp(inner, "*") != 0 && pin_host_match(outer, inner));
}
