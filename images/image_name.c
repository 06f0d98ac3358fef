#include "images/image_name.h"

#include <stdio.h>
#include <string.h>

#define HEX_SIZE ((size_t)2 * PIN_SHA256_SIZE)

static const char alnum[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

static bool is_one_of(char c, const char *set) {
    return c != '\0' && strchr(set, c) != NULL;
}

bool pin_image_is_hex(const char *text) {
    return strspn(text, "0123456789abcdef") == HEX_SIZE && text[HEX_SIZE] == '\0';
}

bool pin_image_is_digest(const char *text) {
    return strncmp(text, "sha256:", 7) == 0 && pin_image_is_hex(text + 7);
}

/* One part between slashes: starts and ends with a letter or a digit, never holds "..". */
static bool part_is_good(const char *part, size_t size) {
    if (size == 0 || !is_one_of(part[0], alnum) || !is_one_of(part[size - 1], alnum))
        return false;
    for (size_t i = 0; i < size; i++) {
        if (!is_one_of(part[i], alnum) && !is_one_of(part[i], "._-"))
            return false;
        if (part[i] == '.' && part[i + 1] == '.')
            return false;
    }
    return true;
}

/* "localhost:5000": only the first of several parts may have a port. */
static size_t without_port(const char *part, size_t size) {
    const char *colon = memchr(part, ':', size);
    if (colon == NULL)
        return size;
    size_t digits = strspn(colon + 1, "0123456789");
    bool whole = digits > 0 && digits <= 5 && colon + 1 + digits == part + size;
    return whole ? (size_t)(colon - part) : 0;
}

static bool name_is_good(const char *name) {
    const char *part = name, *slash;
    for (bool first = true; (slash = strchr(part, '/')) != NULL; part = slash + 1, first = false) {
        size_t size = (size_t)(slash - part);
        if (!part_is_good(part, first ? without_port(part, size) : size))
            return false;
    }
    return part_is_good(part, strlen(part));
}

static bool tag_is_good(const char *tag) {
    if (!is_one_of(tag[0], alnum) && tag[0] != '_')
        return false;
    for (size_t i = 0; tag[i] != '\0'; i++)
        if (!is_one_of(tag[i], alnum) && !is_one_of(tag[i], "._-"))
            return false;
    return true;
}

static bool refuse(const char *text, const char *why, struct pin_error *err) {
    (void)pin_fail(err, PIN_ERROR_INVALID, "'%.100s' is no name of an image: %s", text, why);
    return pin_hint(err, "names look like 'python-3.11', 'tools:v2' or 'registry.example:5000/team/app:1'");
}

/* Cuts what follows `mark` off `rest` and copies it to `to`. */
static bool cut_tail(char *rest, char *mark, char *to, size_t room) {
    size_t size = strlen(mark + 1);
    if (size == 0 || size >= room)
        return false;
    memcpy(to, mark + 1, size + 1);
    rest[mark - rest] = '\0';
    return true;
}

static bool split(char *rest, const char *text, struct pin_image_name *to, struct pin_error *err) {
    char *at = strchr(rest, '@');
    if (at != NULL &&
        (!cut_tail(rest, at, to->digest, sizeof(to->digest)) || !pin_image_is_digest(to->digest)))
        return refuse(text, "a digest is 'sha256:' and 64 hex characters", err);
    char *slash = strrchr(rest, '/');
    char *colon = strchr(slash != NULL ? slash : rest, ':');
    if (colon != NULL && (!cut_tail(rest, colon, to->tag, sizeof(to->tag)) || !tag_is_good(to->tag)))
        return refuse(text, "a tag is 1 to 128 letters, digits, '.', '_' or '-'", err);
    if (colon == NULL)
        memcpy(to->tag, "latest", sizeof("latest"));
    if (strlen(rest) > PIN_IMAGE_NAME_MAX)
        return refuse(text, "it is too long", err);
    if (!name_is_good(rest))
        return refuse(
            text, "it has a part that is empty or has other characters than letters, digits, '.', '_', '-'",
            err);
    memcpy(to->name, rest, strlen(rest) + 1);
    return true;
}

bool pin_image_name_parse(const char *text, struct pin_image_name *name, struct pin_error *err) {
    struct pin_image_name parsed = {0};
    char rest[PIN_IMAGE_TEXT + PIN_DIGEST_TEXT];
    if (strlen(text) >= sizeof(rest))
        return refuse(text, "it is too long", err);
    memcpy(rest, text, strlen(text) + 1);
    if (pin_image_is_digest(rest)) {
        memcpy(parsed.digest, rest, PIN_DIGEST_TEXT);
        *name = parsed;
        return true;
    }
    if (!split(rest, text, &parsed, err))
        return false;
    if (strlen(parsed.name) + 1 + strlen(parsed.tag) >= PIN_IMAGE_FILE)
        return refuse(text, "name and tag together are too long", err);
    if (strcmp(parsed.name, "host") == 0)
        return refuse(text, "'host' is the host itself", err);
    *name = parsed;
    return true;
}

char *pin_image_name_print(char to[PIN_IMAGE_TEXT], const struct pin_image_name *name) {
    if (name->name[0] == '\0')
        (void)snprintf(to, PIN_IMAGE_TEXT, "%s", name->digest);
    else if (strcmp(name->tag, "latest") == 0)
        (void)snprintf(to, PIN_IMAGE_TEXT, "%s", name->name);
    else
        (void)snprintf(to, PIN_IMAGE_TEXT, "%s:%s", name->name, name->tag);
    return to;
}

static void swap_characters(char *text, const char *from, const char *into) {
    for (; *text != '\0'; text++) {
        const char *found = strchr(from, *text);
        if (found != NULL)
            *text = into[found - from];
    }
}

char *pin_image_name_file(char to[PIN_IMAGE_FILE], const struct pin_image_name *name) {
    char text[PIN_IMAGE_TEXT];
    int size = snprintf(text, sizeof(text), "%s:%s", name->name, name->tag);
    memcpy(to, text, size < PIN_IMAGE_FILE ? (size_t)size + 1 : 1); /* parsing has kept it short enough */
    swap_characters(to, "/:", "+,");
    return to;
}

bool pin_image_name_from_file(const char *file, struct pin_image_name *name) {
    char text[PIN_IMAGE_FILE], again[PIN_IMAGE_FILE];
    if (strlen(file) >= sizeof(text))
        return false;
    memcpy(text, file, strlen(file) + 1);
    swap_characters(text, "+,", "/:");
    struct pin_error ignored = {0};
    struct pin_image_name parsed = {0};
    if (!pin_image_name_parse(text, &parsed, &ignored) || parsed.name[0] == '\0' || parsed.digest[0] != '\0')
        return false;
    if (strcmp(pin_image_name_file(again, &parsed), file) != 0)
        return false;
    *name = parsed;
    return true;
}
