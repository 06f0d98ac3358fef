/* The first line is who is asked for, the rest an etc/passwd: what is found is in it, and no line behind
 * changes it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/users.h"

static void add_a_line(const char *text, const struct pin_user_name *name) {
    uint32_t uid = 0, gid = 0, more_uid = 1, more_gid = 1;
    bool has_gid, more_has_gid;
    size_t size = strlen(text);
    static const char line[] = "\nsomebody:x:1:1";
    char *longer = malloc(size + sizeof(line));
    assert(longer != NULL);
    memcpy(longer, text, size);
    memcpy(longer + size, line, sizeof(line));
    bool found = pin_user_find(text, name->user, &uid, &gid, &has_gid);
    bool again = pin_user_find(longer, name->user, &more_uid, &more_gid, &more_has_gid);
    if (found && strcmp(name->user, "1") != 0 && strcmp(name->user, "somebody") != 0) {
        assert(again && uid == more_uid && has_gid == more_has_gid && (!has_gid || gid == more_gid));
        assert(uid < UINT32_MAX && (pin_user_id(name->user, &more_uid) || strstr(text, name->user) != NULL));
    }
    if (name->group[0] != '\0' && pin_group_find(text, name->group, &gid))
        assert(gid < UINT32_MAX &&
               (pin_user_id(name->group, &more_gid) || strstr(text, name->group) != NULL));
    free(longer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pin_user_name name;
    char *whole = malloc(size + 1);
    assert(whole != NULL);
    memcpy(whole, data, size);
    whole[size] = '\0';
    char *rest = strchr(whole, '\n');
    if (rest != NULL) {
        *rest = '\0';
        if (pin_user_split(whole, &name))
            add_a_line(rest + 1, &name);
    }
    free(whole);
    return 0;
}
