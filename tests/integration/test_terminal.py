"""pinfold run --tty on a terminal of the test's: raw while it runs, as it was afterwards, and never the host's inside."""
import errno
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import time

import pytest


class Terminal:
    """A terminal whose other side is pinfold's; it leads a session of its own there."""

    def __init__(self, pinfold, *command, options=(), rows=33, columns=77):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        if pinfold.rootless:
            os.fchown(self.slave, pinfold.uid, pinfold.uid)
        argv = pinfold.argv(*command, options=["--tty", *options])
        self.process = pinfold.spawn(argv, stdin=self.slave, stdout=self.slave, stderr=self.slave, start_new_session=True,
                                     preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.seen = b""
        os.set_blocking(self.master, False)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        try:
            self.seen += os.read(self.master, 65536)
        except OSError as error:
            assert error.errno in (errno.EAGAIN, errno.EIO)
            time.sleep(0.005)

    def expect(self, text, within=60):
        deadline = time.monotonic() + within
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            self.read()

    def send(self, text):
        os.write(self.master, text)

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & (termios.ICANON | termios.ECHO)

    def end(self, within=60):
        deadline = time.monotonic() + within
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.seen
            self.read()
        for _ in range(10):
            self.read()
        restored = termios.tcgetattr(self.slave) == self.before
        os.close(self.master), os.close(self.slave)
        return self.process.returncode, restored


def test_a_terminal_is_inside_and_raw_outside(pinfold):
    terminal = Terminal(pinfold, "sh", "-c", "tty; stty size; read line; echo got-$line")
    terminal.expect(b"/dev/pts/0\r\n33 77\r\n")
    assert terminal.is_raw()
    terminal.send(b"hello\r")
    terminal.expect(b"got-hello")
    assert terminal.end() == (0, True)


def test_the_size_of_the_window_follows(pinfold):
    terminal = Terminal(pinfold, "bash", "-c", "trap 'stty size' WINCH; echo on; while :; do read -t 0.05 x; [ \"$x\" ] && exit; done")
    terminal.expect(b"on")
    terminal.resize(44, 101)
    terminal.expect(b"44 101")
    terminal.send(b"x\r")
    assert terminal.end()[1]


def test_keys_are_signals_inside_and_not_outside(pinfold):
    terminal = Terminal(pinfold, "sh", "-c", "trap 'echo caught; exit 3' INT; echo on; while :; do sleep 0.05; done")
    terminal.expect(b"on")
    terminal.send(b"\x03")
    terminal.expect(b"caught")
    assert terminal.end() == (3, True)


ENDS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]


@pytest.mark.parametrize("number", ENDS, ids=[n.name for n in ENDS])
def test_the_terminal_is_restored_after_a_signal(each_io, number):
    terminal = Terminal(each_io, "sh", "-c", "trap '' TERM INT HUP; echo on; sleep 100 & wait; sleep 100",
                        options=["--timeout", "30s"])
    terminal.expect(b"on")
    assert terminal.is_raw()
    terminal.process.send_signal(number)
    code, restored = terminal.end()
    assert restored and code == 128 + number


@pytest.mark.parametrize("command, options, code", [
    (("sh", "-c", "kill -KILL $$"), (), 137), (("no-such-program",), (), 127), (("sh", "-c", "echo on; sleep 50"), ("--timeout", "300ms"), 124),
    (("sh", "-c", "printf '\\033[31m'; stty raw -echo; exit 4"), (), 4)])
def test_the_terminal_is_restored_however_the_command_ends(each_io, command, options, code):
    assert Terminal(each_io, *command, options=options).end() == (code, True)


def test_the_terminal_is_restored_when_init_is_killed(each_io):
    terminal = Terminal(each_io, "sh", "-c", "echo on; sleep 100")
    terminal.expect(b"on")
    with open(f"/proc/{terminal.process.pid}/task/{terminal.process.pid}/children") as children:
        os.kill(int(children.read().split()[0]), signal.SIGKILL)
    assert terminal.end() == (137, True)


FATAL = [signal.SIGKILL, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGSEGV, signal.SIGABRT, signal.SIGVTALRM]


def wait_restored(terminal, within=60):
    deadline = time.monotonic() + within
    while termios.tcgetattr(terminal.slave) != terminal.before:
        assert time.monotonic() < deadline, "the terminal is still raw"
        time.sleep(0.005)


@pytest.mark.parametrize("number", FATAL, ids=[n.name for n in FATAL])
def test_the_terminal_is_restored_when_pinfold_itself_is_killed(pinfold, number):
    terminal = Terminal(pinfold, "sh", "-c", "echo on; sleep 100")
    terminal.expect(b"on")
    assert terminal.is_raw()
    terminal.process.send_signal(number)
    assert terminal.process.wait(timeout=60) == -number
    wait_restored(terminal)


def test_the_terminal_is_restored_when_its_whole_foreground_group_is_killed(pinfold):
    terminal = Terminal(pinfold, "sh", "-c", "echo on; sleep 100")
    terminal.expect(b"on")
    os.killpg(terminal.process.pid, signal.SIGKILL)
    assert terminal.process.wait(timeout=60) == -signal.SIGKILL
    wait_restored(terminal)


def guardian_of(terminal):
    with open(f"/proc/{terminal.process.pid}/task/{terminal.process.pid}/children") as children:
        for pid in map(int, children.read().split()):
            with open(f"/proc/{pid}/comm") as comm:
                if comm.read() == "pinfold-tty\n":
                    return pid
    return None


def test_the_guardian_of_the_terminal_holds_nothing_else_and_goes_with_the_run(pinfold):
    terminal = Terminal(pinfold, "sh", "-c", "echo on; read x; exit 5")
    terminal.expect(b"on")
    guardian = guardian_of(terminal)
    assert sorted(os.listdir(f"/proc/{guardian}/fd")) == ["0", "1"]
    assert os.readlink(f"/proc/{guardian}/fd/0") == os.ttyname(terminal.slave)
    terminal.send(b"x\r")
    assert terminal.end() == (5, True)
    assert not os.path.exists(f"/proc/{guardian}")


def test_a_killed_guardian_harms_nobody(pinfold):
    terminal = Terminal(pinfold, "sh", "-c", "echo on; read x; exit 5")
    terminal.expect(b"on")
    os.kill(guardian_of(terminal), signal.SIGKILL)
    terminal.send(b"x\r")
    assert terminal.end() == (5, True)


def test_a_terminal_that_goes_away_ends_the_run(each_io):
    terminal = Terminal(each_io, "sh", "-c", "echo on; sleep 100", options=["--timeout", "30s"])
    terminal.expect(b"on")
    os.close(terminal.slave)
    os.close(terminal.master)  # SIGHUP to its session
    assert terminal.process.wait(timeout=60) == 128 + signal.SIGHUP


INJECT = """
import fcntl, os, termios
def attempt(name, number, argument):
    for fd in (0, 1, 2):
        try:
            fcntl.ioctl(fd, number, argument); print(name, 'INJECTED')
        except OSError as e: print(name, 'blocked', e.errno)
attempt('TIOCSTI', 0x5412, b'x')
attempt('TIOCLINUX', 0x541c, b'\\x02')
attempt('TIOCSETD', 0x5423, b'\\x00\\x00\\x00\\x00')
attempt('TIOCCONS', 0x541d, b'\\x00')
try:
    fd = os.open('/dev/tty', os.O_RDWR); print('tty', os.ttyname(fd) if os.isatty(fd) else '-')
except OSError as e: print('tty', e.errno)
print('end')
"""


def test_nothing_can_be_typed_into_a_terminal_from_inside(pinfold):
    terminal = Terminal(pinfold, "/usr/bin/python3", "-c", INJECT)
    terminal.expect(b"end")
    assert b"INJECTED" not in terminal.seen and terminal.seen.count(b"blocked") == 12
    assert terminal.end() == (0, True)


def test_without_a_terminal_the_hosts_is_out_of_reach(pinfold):
    """Not by its descriptors, for they are pipes, and not as the controlling terminal."""
    master, slave = pty.openpty()
    os.fchown(slave, pinfold.uid, pinfold.uid)
    argv = pinfold.argv("/usr/bin/python3", "-c", INJECT, options=["--stdin", "-"])
    process = pinfold.spawn(argv, stdin=slave, stdout=subprocess.PIPE, start_new_session=True,
                            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.write(master, b"\x04")
    out, _ = process.communicate(timeout=60)
    os.close(master), os.close(slave)
    assert b"INJECTED" not in out and b"tty 6\n" in out and b"end" in out  # ENXIO: there is none
    control = subprocess.run(["python3", "-c", "import os; os.open('/dev/tty', os.O_RDWR)"], capture_output=True)
    assert control.returncode in (0, 1)


def test_a_flood_on_a_terminal_ends_in_time(each_io):
    terminal = Terminal(each_io, "yes", options=["--timeout", "700ms"])
    code, restored = terminal.end()
    assert code == 124 and restored


def test_a_background_job_keeps_the_signals_that_it_is_to_ignore(each_io):
    """nohup, and sh for what runs in its background: a signal that was ignored when pinfold started stays ignored."""
    def ignore():
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    process = each_io.spawn(each_io.argv("sh", "-c", "echo on; read x; echo $x", options=["--stdin", "-"]), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, preexec_fn=ignore)
    assert process.stdout.readline() == b"on\n"
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(b"goes on\n", timeout=60)
    assert process.returncode == 0 and out == b"goes on\n"


def test_no_command_inherits_the_signals_that_the_caller_ignores(each_io):
    """All sixty-four: libc keeps some to itself, but a caller may ignore those, too."""
    code = ("import ctypes; libc = ctypes.CDLL(None)\n"
            "for number in range(1, 65): libc.syscall(SIGACTION, number, (ctypes.c_uint64 * 4)(1, 0, 0, 0), None, 8)")

    def ignored(argv):
        number = {"x86_64": 13, "aarch64": 134}[os.uname().machine]
        done = subprocess.run(argv, capture_output=True, text=True, preexec_fn=lambda: exec(code, {"SIGACTION": number}))
        return int(next(line.split()[1] for line in done.stdout.splitlines() if line.startswith("SigIgn")), 16)

    assert ignored(["cat", "/proc/self/status"]) == 2**64 - 1 - 2**(signal.SIGKILL - 1) - 2**(signal.SIGSTOP - 1)
    assert ignored(each_io.argv("cat", "/proc/self/status")) == 0


def test_a_file_that_the_command_is_to_read_comes_before_the_caller_s_terminal(each_io, tmp_path):
    """Both were named; what is typed at the terminal is for whoever reads there."""
    (tmp_path / "input").write_text("from the file\n")
    terminal = Terminal(each_io, "cat", options=["--stdin", str(tmp_path / "input")])
    terminal.send(b"typed\n")
    code, restored = terminal.end()
    assert (code, restored) == (0, True) and b"from the file" in terminal.seen, terminal.seen
    assert terminal.seen.count(b"typed") <= 1, terminal.seen  # the echo of its own terminal


@pytest.mark.parametrize("text", [b"", b"line\n", b"no end of a line", b"one\nand a half", b"\0"])
def test_the_end_of_a_file_is_the_end_of_what_a_terminal_gives(each_io, text):
    """Within a line, the character that ends a terminal's input only hands the line on."""
    done = each_io.run("sh", "-c", "cat >/tmp/got; echo; wc -c </tmp/got", options=["--tty", "--stdin", "-"], input=text)
    assert done.returncode == 0 and done.stdout.split()[-1] == str(len(text)).encode(), done
