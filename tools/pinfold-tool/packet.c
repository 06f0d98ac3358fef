#include "tools/pinfold-tool/packet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

static bool draw_key(char key[PIN_TOOL_KEY_TEXT], struct pin_error *err) {
    unsigned char bytes[(PIN_TOOL_KEY_TEXT - 1) / 2];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return pin_fail_errno(err, "draw the call's key");
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(key + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

int pin_packet_make(const struct pin_tool_request *request, enum pin_runner_mode mode, const json_t *env,
                    char key[PIN_TOOL_KEY_TEXT], struct pin_error *err) {
    if (!draw_key(key, err))
        return -1;
    PIN_FREE char *text = pin_tool_request_packet(request, key, env);
    PIN_CLOSE int packet = memfd_create("tool-call", MFD_CLOEXEC);
    if (text == NULL)
        errno = ENOMEM;
    bool ok = packet >= 0 && text != NULL && pin_runner_preface(request->language, mode, packet, err) &&
              pin_write_all(packet, text, strlen(text), err) && lseek(packet, 0, SEEK_SET) == 0;
    if (ok)
        return pin_steal_fd(&packet);
    if (!pin_is_set(err))
        (void)pin_fail_errno(err, "hand the request in");
    return -1;
}
