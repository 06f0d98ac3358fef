# Stays in a kept sandbox with the runner loaded, and answers each tool call with a fork of itself, which waits for it;
# docs/tool.md "Warm calls". Standard library only, Python 3.8 to 3.14. What a call brings never enters this process's memory: it is
# handed to the fork, as descriptors. A call can't reach back: the sandbox's filter refuses signals to this
# process, and it is not dumpable, so that nobody traces it or opens its /proc files.
import sys

_runner, _more = sys.argv[1:3]
sys.argv[1:] = []
_path0 = sys.path.pop(0) if sys.path and sys.path[0] == "" else None
import ctypes
import gc
import os
import _signal as signal  # what signal(7) is made of, without enumerations of all signals at each call
import socket
import struct

CONTROL = 3
STARTED, WAITING = 0x10000, 0x10001  # no statuses of a process: from here on the call may have run; a fork waits for one
ROOM = socket.CMSG_SPACE(16 * 4)
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
SIGKILL = 9
_prctl = ctypes.CDLL(None, use_errno=True).prctl


def prctl(option, value):
    if _prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl %d" % option)


_at_fork = []  # what modules want to do in forks


def preload():
    scope = {"__name__": "pinfold_runner", "_path0": _path0}
    exec(compile(_runner, "<pinfold>", "exec"), scope)
    scope["use_more"](_more)
    # Locks of threads that aren't there needn't be made anew, and doing it takes a fork as long as its call. Only random
    # would have something to do (and isn't loaded). A call's own forks do what they should: see become_call().
    register, os.register_at_fork = os.register_at_fork, lambda **functions: _at_fork.append(functions)
    scope["load_ahead"]()
    os.register_at_fork = register
    return scope["main"]


def become_call(main, control):
    """In the fork, which was made before there was a call: waits for it, and keeps nothing of the parent's open."""
    prctl(PR_SET_PDEATHSIG, SIGKILL)  # no call is taken where nobody would tell its end
    for functions in _at_fork:
        os.register_at_fork(**functions)
    message, rights, _, _ = control.recvmsg(64, ROOM, socket.MSG_CMSG_CLOEXEC)
    if not message:
        return
    number, nonce = struct.unpack("=I16s", message)
    fds = struct.unpack("=%di" % (len(rights[0][2]) // 4), rights[0][2])
    request, out, err, frame = fds[:4]
    for entrance in fds[4:]:
        os.write(entrance, b"0")  # into the call's own cgroup, before all else
        os.close(entrance)
    control.send(struct.pack("=Ii", number, STARTED))
    control.close()
    os.setsid()
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    packet = b"".join(iter(lambda: os.read(request, 1 << 20), b""))
    os.close(request)
    main(nonce, frame, packet)


def serve():
    prctl(PR_SET_DUMPABLE, 0)
    main = preload()
    control = socket.socket(fileno=CONTROL)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    gc.collect()
    gc.freeze()  # the collector of a fork doesn't touch, and so doesn't copy, what is here
    while True:
        try:
            pid = os.fork()
        except OSError as error:
            control.send(struct.pack("=Ii", 0, -error.errno))
            return
        if pid == 0:
            try:
                become_call(main, control)
            finally:
                os._exit(1)
        control.send(struct.pack("=Ii", 0, WAITING))
        _, status = os.waitpid(pid, 0)
        control.send(struct.pack("=Ii", 0, status))
        if not control.recv(64):  # or: what the call has left is gone
            return


serve()
