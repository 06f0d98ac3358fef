#include "runtime/host/host.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/landlock.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/units.h"

static void get_hard_limits(struct pin_host *host) {
    for (int i = 0; i < PIN_HOST_RLIMITS; i++) {
        struct rlimit now;
        bool limited = getrlimit((__rlimit_resource_t)i, &now) == 0 && now.rlim_max != RLIM_INFINITY;
        host->hard_limits[i] = limited ? now.rlim_max : UINT64_MAX;
    }
}

/* Capabilities over a user namespace that isn't the first one don't reach ids and mounts of the host. */
static bool in_first_user_namespace(void) {
    static const char whole[] = "0 0 4294967295\n"; /* every id is itself */
    char text[128] = "", squeezed[128];
    size_t used = 0;
    PIN_CLOSE int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    for (ssize_t i = 0; i < size; i++)
        if (text[i] != ' ' || (used > 0 && squeezed[used - 1] != ' '))
            squeezed[used++] = text[i];
    return used == sizeof(whole) - 1 && memcmp(squeezed, whole, used) == 0;
}

void pin_host_get(struct pin_host *host) {
    memset(host, 0, sizeof(*host));
    host->uid = geteuid();
    host->gid = getegid();
    const uint32_t needed = 1u << CAP_SYS_ADMIN | 1u << CAP_SETUID | 1u << CAP_SETGID;
    uint64_t capabilities = pin_own_capabilities().effective;
    bool first = host->uid == 0 && in_first_user_namespace();
    host->privileged = first && (capabilities & needed) == needed;
    host->raises_limits = first && (capabilities & 1u << CAP_SYS_RESOURCE) != 0;
    get_hard_limits(host);
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    host->landlock_abi = abi > 0 ? (int)abi : 0;
    host->time_namespaces = faccessat(AT_FDCWD, "/proc/self/ns/time", F_OK, 0) == 0;
    if (host->landlock_abi == 0)
        host->lacks |= 1u << PIN_PROTECT_LANDLOCK;
}

/* "name:start:count" or "uid:start:count"; anything else on a line is skipped, as shadow's own reader does.
 */
static bool parse_line(char *line, const char *name, const char *number, struct pin_subids *ids) {
    char *save = NULL;
    const char *who = strtok_r(line, ":", &save), *start = strtok_r(NULL, ":", &save),
               *count = strtok_r(NULL, ":\n", &save);
    uint64_t first, size;
    if (who == NULL || start == NULL || count == NULL || (strcmp(who, name) != 0 && strcmp(who, number) != 0))
        return false;
    if (!pin_parse_u64(start, &first) || !pin_parse_u64(count, &size) || first + size > UINT32_MAX)
        return false;
    ids->start = (uint32_t)first;
    ids->count = (uint32_t)size;
    return true;
}

/* From /etc/passwd alone: what resolves users by the network would have to be loaded into this process. Such
 * users are found by number. */
static void find_name(uint32_t uid, char *name, size_t room) {
    FILE *users = fopen("/etc/passwd", "re");
    const struct passwd *user = NULL;
    while (users != NULL && (user = fgetpwent(users)) != NULL && user->pw_uid != uid)
        ;
    if (user != NULL)
        (void)snprintf(name, room, "%s", user->pw_name);
    if (users != NULL)
        (void)fclose(users);
}

bool pin_host_subids(const char *file, uint32_t uid, struct pin_subids *ids, struct pin_error *err) {
    struct pin_subids best = {0};
    size_t size;
    char number[16];
    (void)snprintf(number, sizeof(number), "%u", uid);
    char name[64] = "";
    find_name(uid, name, sizeof(name));
    if (faccessat(AT_FDCWD, file, F_OK, 0) == 0) {
        PIN_FREE char *text = pin_read_file_at(AT_FDCWD, file, (size_t)1024 * 1024, &size, err);
        if (text == NULL)
            return false;
        char *save = NULL;
        for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
            struct pin_subids found;
            if (parse_line(line, name, number, &found) && found.count > best.count)
                best = found;
        }
    }
    *ids = best;
    return true;
}
