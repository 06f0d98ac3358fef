/* sys/mount.h: musl's, with the calls of the new mount API as glibc 2.36 declares them. */
#ifndef PIN_MUSL_SYS_MOUNT_H
#define PIN_MUSL_SYS_MOUNT_H

#include_next <sys/mount.h>

#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/mount.h>

static inline int fsopen(const char *type, unsigned flags) {
    return (int)syscall(SYS_fsopen, type, flags);
}

static inline int fsconfig(int fd, unsigned command, const char *key, const void *value, int extra) {
    return (int)syscall(SYS_fsconfig, fd, command, key, value, extra);
}

static inline int fsmount(int fd, unsigned flags, unsigned attributes) {
    return (int)syscall(SYS_fsmount, fd, flags, attributes);
}

static inline int open_tree(int dir, const char *path, unsigned flags) {
    return (int)syscall(SYS_open_tree, dir, path, flags);
}

static inline int move_mount(int from, const char *from_path, int to, const char *to_path, unsigned flags) {
    return (int)syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}

static inline int mount_setattr(int dir, const char *path, unsigned flags, struct mount_attr *attributes,
                                size_t size) {
    return (int)syscall(SYS_mount_setattr, dir, path, flags, attributes, size);
}

#endif
