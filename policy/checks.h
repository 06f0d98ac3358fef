/* checks.h: what strings of a policy may look like. Each returns what is wrong, or NULL. Pure.
 *
 * `site`: the string stands in a site's file, where "*" and "/" may name all there is.
 */
#pragma once

#include <stdbool.h>

const char *pin_check_variable(const char *text, bool site);         /* [A-Za-z_][A-Za-z0-9_]* */
const char *pin_check_variable_pattern(const char *text, bool site); /* the same with `*` anywhere */
const char *pin_check_secret(const char *text, bool site);
const char *pin_check_proxy(const char *text, bool site); /* "http://HOST:PORT", "socks5://HOST:PORT", "" */
const char *pin_check_proxy_secret(const char *text, bool site); /* a secret's name, or "" */
const char *pin_check_publish(const char *text, bool site);      /* publish.h */
const char *pin_check_label(const char *text, bool site);
const char *pin_check_image(const char *text, bool site);     /* a name with `*`, or a digest */
bool pin_is_digest(const char *text);                         /* "sha256:" and 64 lower-case digits */
const char *pin_check_host_path(const char *text, bool site); /* with `*` */
const char *pin_check_hook(const char *text, bool site);      /* "/PROGRAM", or "/PROGRAM ARGV0", with `*` */
const char *pin_check_write_path(const char *text, bool site);
const char *pin_check_mount_source(const char *text, bool site);
const char *pin_check_mount_target(const char *text, bool site);
const char *pin_check_syscall(const char *text, bool site); /* "openat", "@file" */

/* "/a/b": absolute, without "//", "." or ".." as a part, without '/' at the end. */
bool pin_is_plain_path(const char *text);

/* Where a sandbox has its workspace. */
#define PIN_WORKSPACE_TARGET "/workspace"

/* Whether `path` is `folder` or lies beneath it; both plain. */
bool pin_path_beneath(const char *path, const char *folder);
