#include "tools/pinfold-oci/listener.h"

#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "runtime/oci/start_socket.h"

char *pin_oci_share(struct pin_error *err) {
    char *memory = mmap(NULL, PIN_OCI_SHARED_ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED)
        return memory;
    (void)pin_fail_errno(err, "map memory for the container");
    return NULL;
}

void pin_oci_unshare(char *memory) {
    if (memory != NULL)
        (void)munmap(memory, PIN_OCI_SHARED_ROOM);
}

int pin_oci_listener_open(const struct pin_bundle *bundle, char **told, struct pin_error *err) {
    const char *path = bundle->seccomp.listener_path;
    if (!bundle->seccomp.present || path == NULL || path[0] == '\0')
        return -1;
    PIN_CLOSE int socket = pin_console_connect(path, err);
    if (socket < 0) {
        (void)pin_wrap(err, "reach the seccomp agent");
        return -1;
    }
    *told = pin_oci_share(err);
    return *told == NULL ? -1 : pin_steal_fd(&socket);
}

bool pin_oci_listener_tell(const struct pin_bundle *bundle, json_t *state, pid_t pid, char *told,
                           struct pin_error *err) {
    const char *metadata = bundle->seccomp.listener_metadata;
    json_t *message =
        json_pack("{s:s, s:[s], s:i, s:s, s:o}", "ociVersion", "1.2.0", "fds", "seccompFd", "pid", (int)pid,
                  "metadata", metadata != NULL ? metadata : "", "state", state);
    PIN_FREE char *text = message == NULL ? NULL : json_dumps(message, JSON_COMPACT);
    json_decref(message);
    if (text == NULL || strlen(text) >= PIN_OCI_SHARED_ROOM)
        return pin_fail(err, PIN_ERROR_INVALID, "the annotations are too long for the seccomp agent");
    memcpy(told, text, strlen(text) + 1);
    return true;
}
