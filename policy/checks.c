#include "policy/checks.h"

#include <limits.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "policy/proxy.h"
#include "policy/publish.h"

#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"
#define NAME_MAX_LENGTH 128

static bool made_of(const char *text, const char *first, const char *rest) {
    size_t length = strlen(text);
    return length > 0 && length <= NAME_MAX_LENGTH && strchr(first, text[0]) != NULL &&
           strspn(text, rest) == length;
}

/* Patterns with `*`: "**" would be a second spelling of "*". */
static bool is_pattern(const char *text, const char *first, const char *rest) {
    return strstr(text, "**") == NULL && made_of(text, first, rest);
}

const char *pin_check_variable(const char *text, bool site) {
    bool good = site ? is_pattern(text, UPPER LOWER "_*", UPPER LOWER DIGITS "_*")
                     : made_of(text, UPPER LOWER "_", UPPER LOWER DIGITS "_");
    return good ? NULL : "a variable's name has letters, digits and '_' only";
}

const char *pin_check_variable_pattern(const char *text, bool site) {
    (void)site;
    return is_pattern(text, UPPER LOWER "_*", UPPER LOWER DIGITS "_*")
               ? NULL
               : "a variable's name has letters, digits and '_' only, and '*' for any of them";
}

const char *pin_check_secret(const char *text, bool site) {
    bool good = site ? is_pattern(text, UPPER LOWER "_*", UPPER LOWER DIGITS "_.-*")
                     : made_of(text, UPPER LOWER "_", UPPER LOWER DIGITS "_.-");
    return good ? NULL
                : "a secret's name has letters, digits, '_', '.' and '-' only, and starts with a letter or "
                  "'_'";
}

const char *pin_check_label(const char *text, bool site) {
    (void)site;
    return pin_is_name(text) ? NULL : "a label's key has letters, digits, '_', '.' and '-' only";
}

bool pin_is_digest(const char *text) {
    return strncmp(text, "sha256:", 7) == 0 && strlen(text) == 71 && strspn(text + 7, DIGITS "abcdef") == 64;
}

const char *pin_check_image(const char *text, bool site) {
    (void)site;
    if (strncmp(text, "sha256:", 7) == 0 && !pin_is_digest(text))
        return "what starts with 'sha256:' is a digest, with 64 lower-case hexadecimal digits and no '*'";
    if (strstr(text, "**") != NULL)
        return "two '*' mean no more than one";
    size_t length = strlen(text);
    if (length == 0 || length > 255 || strspn(text, UPPER LOWER DIGITS "._-/:@+*") != length)
        return "an image's name has letters, digits and . _ - / : @ + only, and '*' for any of them";
    return NULL;
}

bool pin_is_plain_path(const char *text) {
    if (text[0] != '/' || strlen(text) >= PATH_MAX)
        return false;
    if (text[1] == '\0')
        return true;
    for (const char *part = text; *part != '\0';) {
        size_t size = strcspn(++part, "/");
        if (size == 0 || size > NAME_MAX || (size == 1 && part[0] == '.') ||
            (size == 2 && memcmp(part, "..", 2) == 0))
            return false;
        part += size;
    }
    return true;
}

bool pin_path_beneath(const char *path, const char *folder) {
    size_t length = strlen(folder);
    if (length == 1)
        return true; /* "/" */
    return strncmp(path, folder, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

static bool has_control(const char *text) {
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F)
            return true;
    return false;
}

static const char *fault_of_path(const char *text) {
    if (!pin_is_plain_path(text))
        return "a path starts with '/', and has no '//', no '.' or '..' as a part and no '/' at its end";
    return has_control(text) ? "a path has no control characters" : NULL;
}

/* The kernel's own file systems: a mount over them, or a write below them, is a way through the wall. */
static bool is_kernel_path(const char *text) {
    static const char *const roots[] = {"/proc", "/sys", "/dev"};
    for (size_t i = 0; i < PIN_COUNT(roots); i++)
        if (pin_path_beneath(text, roots[i]))
            return true;
    return false;
}

const char *pin_check_host_path(const char *text, bool site) {
    const char *fault = pin_check_mount_source(text, site);
    return fault == NULL && strstr(text, "**") != NULL ? "two '*' mean no more than one" : fault;
}

const char *pin_check_hook(const char *text, bool site) {
    (void)site;
    const char *space = strchr(text, ' ');
    if (strstr(text, "**") != NULL)
        return "two '*' mean no more than one";
    if (text[0] != '/' || text[1] == '\0' || text[1] == ' ' || strlen(text) > 1024 || has_control(text) ||
        (space != NULL && (space[1] == '\0' || strchr(space + 1, ' ') != NULL)))
        return "a hook is the absolute path of a program, or that, a space and its first argument";
    return NULL;
}

const char *pin_check_write_path(const char *text, bool site) {
    (void)site;
    const char *fault = fault_of_path(text);
    if (fault == NULL && is_kernel_path(text) && !pin_path_beneath(text, "/dev/shm"))
        return "of /proc, /sys and /dev only /dev/shm can be written";
    return fault;
}

const char *pin_check_mount_source(const char *text, bool site) {
    const char *fault = fault_of_path(text);
    if (fault != NULL || site)
        return fault;
    if (strcmp(text, "/") == 0)
        return "the whole host can't be mounted";
    return pin_path_beneath(text, "/proc") ? "/proc of the host can't be mounted" : NULL;
}

const char *pin_check_mount_target(const char *text, bool site) {
    const char *fault = fault_of_path(text);
    if (fault != NULL || site)
        return fault;
    if (strcmp(text, "/") == 0)
        return "a mount can't take the place of the root";
    return is_kernel_path(text) ? "nothing can be mounted on /proc, /sys or /dev" : NULL;
}

const char *pin_check_syscall(const char *text, bool site) {
    if (site && strcmp(text, "*") == 0)
        return NULL;
    const char *name = text[0] == '@' ? text + 1 : text;
    const char *rest = text[0] == '@' ? LOWER DIGITS "_-" : LOWER DIGITS "_";
    return made_of(name, LOWER "_", rest)
               ? NULL
               : "a call's name has lower-case letters, digits and '_' only, a group's starts with '@'";
}

const char *pin_check_proxy_secret(const char *text, bool site) {
    return *text == '\0' ? NULL : pin_check_secret(text, site);
}

const char *pin_check_proxy(const char *text, bool site) {
    struct pin_proxy proxy;
    (void)site;
    return *text == '\0' || pin_proxy_parse(text, &proxy)
               ? NULL
               : "a proxy is \"http://HOST:PORT\" or \"socks5://HOST:PORT\", its name and password a secret";
}

const char *pin_check_publish(const char *text, bool site) {
    struct pin_publish publish;
    return (site && strcmp(text, "*") == 0) || pin_publish_parse(text, &publish)
               ? NULL
               : "a published port is \"PORT=127.0.0.1:PORT\", \"PORT=[::1]:PORT\" or \"PORT=unix:NAME\"";
}
