/* Names of hosts as a person writes them; apart from host_name.c because of the tables of Unicode, which the
 * broker has no need of. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <idn2.h>

#include "base/cleanup.h"
#include "policy/host_name.h"

#define CAPITAL_SHARP_S "\xE1\xBA\x9E"

static bool is_ascii(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] >= 0x80)
            return false;
    return true;
}

static const char *fault_of(int code) {
    switch (code) {
    case IDN2_ENCODING_ERROR: return "it is not UTF-8";
    case IDN2_DISALLOWED:
    case IDN2_UNASSIGNED: return "a character of it can't stand in a name";
    case IDN2_TOO_BIG_DOMAIN:
    case IDN2_TOO_BIG_LABEL:
    case IDN2_PUNYCODE_BIG_OUTPUT: return "a label is longer than 63 characters";
    case IDN2_MALLOC: return "out of memory";
    default: return "a label of it is none by UTS #46";
    }
}

bool pin_host_written(const char *text, size_t size, char to[PIN_HOST_MAX], struct pin_error *err) {
    char name[PIN_HOST_WRITTEN_MAX];
    PIN_FREE uint8_t *ascii = NULL;
    if (is_ascii(text, size) || size >= sizeof(name) || memchr(text, '\0', size) != NULL)
        return pin_host_name(text, size, to, err);
    memcpy(name, text, size);
    name[size] = '\0';
    if (strstr(name, CAPITAL_SHARP_S) != NULL) /* Unicode 15.1 made a sharp s of what had been a double one */
        return pin_host_refuse(text, size, "the capital sharp s is read in two ways", PIN_HOST_ASCII_HINT,
                               err);
    /* Not IDN2_USE_STD3_ASCII_RULES, which leaves out what it doesn't like: what can't stand in a name is
     * found in the result. */
    int code = idn2_lookup_u8((const uint8_t *)name, &ascii, IDN2_NONTRANSITIONAL);
    if (code != IDN2_OK)
        return pin_host_refuse(text, size, fault_of(code), PIN_HOST_ASCII_HINT, err);
    return pin_host_name((const char *)ascii, strlen((const char *)ascii), to, err);
}

bool pin_host_pattern(const char *text, char to[PIN_HOST_MAX + 2], struct pin_error *err) {
    bool wild = strncmp(text, "*.", 2) == 0;
    char name[PIN_HOST_MAX];
    if (strcmp(text, "*") == 0 || strcmp(text, "*.") == 0)
        return pin_host_refuse(text, strlen(text), "it would match every name",
                               "name the hosts, or \"*.\" and the name above them", err);
    const char *rest = wild ? text + 2 : text;
    if (strchr(rest, '*') != NULL)
        return pin_host_refuse(text, strlen(text), "'*' can only be its whole first label", NULL, err);
    if (!pin_host_written(rest, strlen(rest), name, err))
        return false;
    (void)snprintf(to, PIN_HOST_MAX + 2, "%s%s", wild ? "*." : "", name);
    return true;
}
