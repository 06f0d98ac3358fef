#!/usr/bin/python3
"""A file system that doesn't answer, as a dead disk doesn't: whoever looks at a name that begins with `hangs` waits in the kernel, where
a signal doesn't end it (state D).

    hanging_files.py DIRECTORY TOLD HELD -- COMMAND…

mounts it at DIRECTORY in a namespace of its own and runs COMMAND there. Descriptor TOLD gets a line for each name that is waited for;
HELD is read: at its end those are answered. Source: include/uapi/linux/fuse.h.
"""
import ctypes
import errno
import os
import stat
import struct
import subprocess
import sys
import threading

LOOKUP, FORGET, GETATTR, STATFS, INIT, BATCH_FORGET, INTERRUPT = 1, 2, 3, 17, 26, 42, 36
OPENDIR, READDIR, RELEASEDIR = 27, 28, 29
PARALLEL_DIROPS, INIT_EXT, ALLOW_IDMAP = 1 << 18, 1 << 30, 1 << (40 - 32)  # the last since Linux 6.12
ROOT, FILE = 1, 2
CLONE_NEWNS, MS_REC, MS_PRIVATE, MS_NOSUID_NODEV = 0x20000, 0x4000, 1 << 18, 6
libc = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def attributes(node):
    mode = stat.S_IFDIR | 0o755 if node == ROOT else stat.S_IFREG | 0o644
    return struct.pack("<6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(opcode, node, body):
    """The answer's bytes, an error number, or None for what has no answer (yet)."""
    if opcode == INIT:
        return struct.pack("<4I2HIIHHIIH11H", 7, 41, 65536, PARALLEL_DIROPS | INIT_EXT, 16, 12, 65536, 1, 16, 0, ALLOW_IDMAP, 0, 0, *[0] * 11)
    if opcode == LOOKUP:
        if body.startswith(b"hangs"):
            return None
        return struct.pack("<4Q2I", FILE, 0, 0, 0, 0, 0) + attributes(FILE) if body == b"file\0" else errno.ENOENT
    if opcode == GETATTR:
        return struct.pack("<QII", 0, 0, 0) + attributes(node)
    if opcode == OPENDIR:
        return struct.pack("<QIi", 0, 0, 0)
    if opcode in (READDIR, RELEASEDIR):
        return b""
    if opcode == STATFS:
        return struct.pack("<5Q4I6I", 0, 0, 0, 0, 0, 4096, 255, 4096, 0, *[0] * 6)
    return None if opcode in (FORGET, BATCH_FORGET, INTERRUPT) else errno.ENOSYS


def reply(device, unique, said):
    code, data = (-said, b"") if isinstance(said, int) else (0, said)
    os.write(device, struct.pack("<IiQ", 16 + len(data), code, unique) + data)


def serve(device, waiting, told):
    while True:
        try:
            request = os.read(device, 1 << 18)
        except OSError:  # it isn't mounted any more
            return
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        said = answer(opcode, node, request[40:])
        if said is not None:
            reply(device, unique, said)
        elif opcode == LOOKUP:
            waiting.append(unique)
            os.write(told, b"waits\n")


def release(device, waiting, held):
    os.read(held, 1)
    for unique in waiting:
        reply(device, unique, errno.EIO)


def main():
    directory, told, held, command = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[5:]
    device, waiting = os.open("/dev/fuse", os.O_RDWR), []
    checked(libc.unshare(CLONE_NEWNS))
    checked(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    options = f"fd={device},rootmode=40755,user_id=0,group_id=0,allow_other,default_permissions"
    checked(libc.mount(b"hanging", directory.encode(), b"fuse", MS_NOSUID_NODEV, options.encode()))
    for work, end in ((serve, told), (release, held)):
        threading.Thread(target=work, args=(device, waiting, end), daemon=True).start()
    return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main())
