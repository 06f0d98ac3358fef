#include "tools/pinfold/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

int pin_input_open(const char *name, struct pin_error *err) {
    bool ours = strcmp(name, "-") == 0;
    /* not to wait here, before any time limit runs, for a fifo's writer: the pump waits for it */
    PIN_CLOSE int fd = ours ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                            : open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    struct stat facts;
    if (fd >= 0 && (ours || fstat(fd, &facts) != 0 || !S_ISDIR(facts.st_mode)))
        return pin_steal_fd(&fd);
    if (fd >= 0)
        errno = EISDIR;
    (void)pin_fail_errno(err, "open '%s' for --stdin", name);
    (void)pin_point(err, "%s", name);
    (void)pin_hint(err, "name a file that can be read, or - for standard input");
    return -1;
}
