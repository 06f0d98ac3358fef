/* protocol.h: what the supervisor and PID 1 of a sandbox say to each other.
 *
 * One SOCK_STREAM socket pair, made before the sandbox; init holds its end as PIN_INIT_CONTROL_FD. A message
 * is a struct pin_init_message followed by `length` bytes; descriptors travel (SCM_RIGHTS) with the message's
 * first byte. Byte order and layout are the host's: both ends come from one build. Before init is executed
 * the same socket carries the builder's messages: PIN_INIT_BUILD_FAILED with a struct pin_error, or nothing;
 * the parent's single bytes (enum pin_sync) go the other way. End of file on the socket ends init, and with
 * it every process inside.
 *
 * Init is inside the walls: the supervisor checks everything that it receives (type, id, length) and never
 * takes a descriptor that it didn't ask for.
 */
#pragma once

#include <stdint.h>

#define PIN_INIT_CONTROL_FD 3
#define PIN_INIT_REQUEST_MAX (4u * 1024 * 1024) /* of `length` */
#define PIN_INIT_FDS_MAX 8

enum pin_sync {                        /* parent to child while it builds, one byte each, in this order */
                PIN_SYNC_MAPPED = 'M', /* the id maps are written: ids may be taken */
                PIN_SYNC_EQUIPPED =
                    'E', /* the filter is in place; with it come init and the files to enter the cgroups by */
                PIN_SYNC_HOOKED = 'H', /* an engine's container: the hooks outside have run */
                PIN_SYNC_KEEP = 'K',   /* an engine's container: it may outlive its maker */
};

enum pin_init_type {
    /* supervisor to init */
    PIN_INIT_EXEC = 1, /* payload: struct pin_init_exec, then its strings; descriptors as its flags say */
    PIN_INIT_SIGNAL,   /* value: signal number; id: of the process, or 0 for every process inside */
    /* init to supervisor */
    PIN_INIT_BUILD_FAILED, /* payload: struct pin_error; the child then exits */
    PIN_INIT_CHANGES,      /* the builder: one descriptor, the upper directory of a copy-on-write workspace */
    PIN_INIT_UPPER,        /* the builder: one descriptor, the upper directory of a root from layers */
    PIN_INIT_EGRESS,       /* the builder: value: set of enum pin_egress_socket; a descriptor for each */
    PIN_INIT_DOOR,         /* the builder: one descriptor, a socket of the network namespace */
    PIN_INIT_WATCH,        /* the builder: one descriptor, the listener of a watched filter */
    PIN_INIT_READY,        /* init runs, inside every wall */
    PIN_INIT_STARTED,     /* id; value: pid inside; with PIN_INIT_TTY one descriptor: the terminal's master */
    PIN_INIT_NOT_STARTED, /* id; value: errno; payload: one byte, enum pin_init_stage */
    PIN_INIT_EXITED,      /* id; value: the status of waitpid(2) */
    PIN_INIT_TYPE_COUNT
};

enum pin_init_stage {
    PIN_INIT_STAGE_FORK,
    PIN_INIT_STAGE_CWD,
    PIN_INIT_STAGE_EXEC,
    PIN_INIT_STAGE_TTY,
    PIN_INIT_STAGE_CGROUP,
    PIN_INIT_STAGE_USER,
    PIN_INIT_STAGE_COUNT
};

struct pin_init_message {
    uint32_t type; /* enum pin_init_type */
    uint32_t id;   /* the supervisor's number of the process, from 1 */
    int32_t value;
    uint32_t length; /* of the payload that follows */
};

enum pin_init_flags {
    PIN_INIT_STDIN = 1, /* a descriptor for 0 is sent; otherwise it is /dev/null */
    PIN_INIT_STDOUT = 2,
    PIN_INIT_STDERR = 4,
    PIN_INIT_FRAME = 8,    /* a descriptor for frames is sent; it becomes descriptor 3 inside */
    PIN_INIT_TTY = 16,     /* make a terminal: 0, 1 and 2 are its slave; no descriptor for them is sent */
    PIN_INIT_LAST = 32,    /* init exits when this process ends, which kills all others */
    PIN_INIT_USER = 64,    /* as `uid` and `gid`, which the sandbox's capabilities have to allow */
    PIN_INIT_MODULE = 128, /* one more descriptor is sent, behind that for frames; it becomes 4 inside */
};

struct pin_init_exec {
    uint32_t flags;
    uint32_t umask;         /* 0 to 0777 */
    uint16_t rows, columns; /* of the terminal */
    uint32_t uid, gid;      /* of PIN_INIT_USER: without groups, and without capabilities unless it is 0 */
    uint32_t argc, envc;
    uint32_t entrances; /* files that are sent last: the child writes "0" into each before all else, which
                           moves it into a cgroup of its own before it runs anything of anybody's */
    /* then, each ended by a zero byte: the working directory, argc arguments, envc variables */
};
