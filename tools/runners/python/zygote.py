# Stays in a kept sandbox with the runner loaded, and answers each tool call with a fork of itself; docs/tool.md
# "Warm calls". Standard library only, Python 3.8 to 3.14. What a call brings never enters this process's memory: it is
# handed descriptors, and the fork reads them. A call can't reach back: the sandbox's filter refuses signals to this
# process, and it is not dumpable, so that nobody traces it or opens its /proc files.
import sys

_runner, _more = sys.argv[1:3]
sys.argv[1:] = []
_path0 = sys.path.pop(0) if sys.path and sys.path[0] == "" else None
import ctypes
import gc
import os
import _signal as signal  # what signal(7) is made of, without enumerations of all signals at each call
import select
import socket
import struct

CONTROL = 3
PR_SET_DUMPABLE = 4
_prctl = ctypes.CDLL(None, use_errno=True).prctl


def set_dumpable(value):
    if _prctl(PR_SET_DUMPABLE, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_DUMPABLE")


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


def become_call(main, control, waking, nonce, fds):
    """In the fork: into the call's own cgroup first, and nothing of the parent's left open."""
    request, out, err, frame = fds[:4]
    for entrance in fds[4:]:
        os.write(entrance, b"0")
        os.close(entrance)
    for functions in _at_fork:
        os.register_at_fork(**functions)
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for fd in waking:
        os.close(fd)
    control.close()
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    packet = b"".join(iter(lambda: os.read(request, 1 << 20), b""))
    os.close(request)
    set_dumpable(1)
    main(nonce, frame, packet)


def start(main, control, waking, message, fds):
    number, nonce = struct.unpack("=I16s", message)
    try:
        pid = os.fork()
    except OSError as error:
        control.send(struct.pack("=Ii", number, -error.errno))
        return None
    if pid == 0:
        try:
            become_call(main, control, waking, nonce, fds)
        finally:
            os._exit(1)
    return pid, number


def reap(control, children):
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        number = children.pop(pid, None)
        if number is not None:
            control.send(struct.pack("=Ii", number, status))


def serve():
    set_dumpable(0)
    main = preload()
    control = socket.socket(fileno=CONTROL)
    waking = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - {signal.SIGCHLD})
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waking[1], warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(waking[0], select.POLLIN)
    room = socket.CMSG_SPACE(8 * 4)
    children = {}
    gc.collect()
    gc.freeze()  # the collector of a fork doesn't touch, and so doesn't copy, what is here
    control.send(struct.pack("=Ii", 0, 0))
    while True:
        ready = [fd for fd, _ in poll.poll()]
        if waking[0] in ready:
            os.read(waking[0], 512)
            reap(control, children)
        if CONTROL in ready:
            message, rights, _, _ = control.recvmsg(64, room, socket.MSG_CMSG_CLOEXEC)
            if not message:
                return
            data = rights[0][2]
            fds = struct.unpack("=%di" % (len(data) // 4), data)
            started = start(main, control, waking, message, fds)
            for fd in fds:
                os.close(fd)
            if started:
                children[started[0]] = started[1]


serve()
