#include "base/users.h"

#include <stddef.h>
#include <string.h>

#include "base/units.h"

enum { FIELD_NAME, FIELD_ID = 2, FIELD_GROUP = 3 };

/* The field of a line, cut at ':' or the line's end; false when it isn't there or too long to be one. */
static bool field(const char *line, unsigned number, char to[PIN_USER_NAME_SIZE]) {
    for (; number > 0; number--) {
        line += strcspn(line, ":\n");
        if (*line != ':')
            return false;
        line++;
    }
    size_t size = strcspn(line, ":\n");
    if (size >= PIN_USER_NAME_SIZE)
        return false;
    memcpy(to, line, size);
    to[size] = '\0';
    return true;
}

static bool id_in(const char *line, unsigned number, uint32_t *id) {
    char text[PIN_USER_NAME_SIZE];
    return line != NULL && field(line, number, text) && pin_user_id(text, id);
}

/* The first line whose field `key` is `value` and that has a number; NULL: there is none. */
static const char *find_line(const char *text, unsigned key, const char *value) {
    char found[PIN_USER_NAME_SIZE];
    uint32_t id;
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (field(line, key, found) && strcmp(found, value) == 0 && id_in(line, FIELD_ID, &id))
            return line;
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return NULL;
}

bool pin_user_id(const char *text, uint32_t *id) {
    uint64_t value;
    if (!pin_parse_u64(text, &value) || value >= UINT32_MAX)
        return false;
    *id = (uint32_t)value;
    return true;
}

bool pin_user_split(const char *text, struct pin_user_name *name) {
    size_t size = strcspn(text, ":"), rest = text[size] == ':' ? strlen(text + size + 1) : 0;
    if (size == 0 || size >= sizeof(name->user) || rest >= sizeof(name->group) ||
        (text[size] == ':' && rest == 0) || strchr(text, '\n') != NULL ||
        (rest > 0 && strchr(text + size + 1, ':') != NULL))
        return false;
    memcpy(name->user, text, size);
    name->user[size] = '\0';
    memcpy(name->group, text + size + (rest > 0), rest);
    name->group[rest] = '\0';
    return true;
}

bool pin_user_find(const char *passwd, const char *user, uint32_t *uid, uint32_t *gid, bool *has_gid) {
    uint32_t found = 0;
    bool is_number = pin_user_id(user, &found);
    const char *line = find_line(passwd, is_number ? FIELD_ID : FIELD_NAME, user);
    if (!is_number && !id_in(line, FIELD_ID, &found))
        return false;
    *uid = found;
    *has_gid = id_in(line, FIELD_GROUP, gid);
    return true;
}

bool pin_group_find(const char *group_file, const char *group, uint32_t *gid) {
    return pin_user_id(group, gid) || id_in(find_line(group_file, FIELD_NAME, group), FIELD_ID, gid);
}
