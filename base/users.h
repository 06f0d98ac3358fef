/* users.h: "user" and "user:group", by number or by the texts of an etc/passwd and an etc/group.
 *
 * Pure. The texts are hostile: of a name that they have twice the first line counts, a line that has no sound
 * number is passed over, and a text ends at its first zero byte. Numbers are decimal and below 2^32 - 1,
 * which means "no change" to setresuid(2). What a name stands for is only what the text says: whoever asks
 * has to judge the number. Source: passwd(5), group(5).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PIN_USER_NAME_SIZE 256 /* with the zero byte */

struct pin_user_name {
    char user[PIN_USER_NAME_SIZE], group[PIN_USER_NAME_SIZE]; /* group "": none */
};

/* False: neither "user" nor "user:group". */
bool pin_user_split(const char *text, struct pin_user_name *name);

bool pin_user_id(const char *text, uint32_t *id);

/* By number too, of whom `passwd` (NULL: there is none) says the group. False: nobody. */
bool pin_user_find(const char *passwd, const char *user, uint32_t *uid, uint32_t *gid, bool *has_gid);
bool pin_group_find(const char *group_file, const char *group, uint32_t *gid);
