/* sensitive.h: paths of a host that hold credentials, other users' files, or a door to the host.
 *
 * One list for lint (a mount of such a path) and for what a trace may propose (never such a path). Pure.
 */
#pragma once

/* What the plain path holds ("password hashes"), or NULL. */
const char *pin_sensitive_path(const char *path);
