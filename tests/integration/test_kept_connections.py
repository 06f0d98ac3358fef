"""The control socket of a kept sandbox: clients that are slow, dead or hostile, and connections that are lent."""
import socket
import struct
import subprocess
import time

import pytest

from kept_sandbox import DEADLINE, eventually, kept, kept_by_root, message, reply  # noqa: F401 (fixtures)


@pytest.mark.parametrize("bytes_sent", [
    b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x00\x00\x00\x05hello", message(verb="exec"), message(verb="nonsense"),
    message(verb="exec", args=["true"], stdout=True), message(verb="exec", args=["true"], wrong=1),
    message(verb="signal", exec=99, signal=9), message(verb="end", exec=4294967295), struct.pack(">I", 100) + b"half"])
def test_a_hostile_client_harms_nobody_else(kept, bytes_sent):
    kept.up("work")
    with kept.connect("work") as client:
        client.sendall(bytes_sent)
        assert kept.exec("work", "echo", "alive").stdout == b"alive\n"


def test_clients_that_never_read_or_never_finish_block_nobody(kept):
    kept.up("work", resources={"stdout": "16MiB"})
    silent = [kept.connect("work") for _ in range(20)]
    for client in silent[:10]:
        client.sendall(b"\x00")
    for client in silent[10:]:
        client.setblocking(False)
        try:
            for _ in range(20000):
                client.send(message(verb="show"))
        except BlockingIOError:
            pass
    slow = kept.pinfold.spawn(kept.argv("exec", "work", "--", "sh", "-c", "head -c 8000000 /dev/zero"), stdout=subprocess.PIPE)
    started = time.monotonic()
    assert kept.exec("work", "echo", "alive").stdout == b"alive\n" and time.monotonic() - started < 25
    assert len(slow.stdout.read()) == 8000000 and slow.wait(DEADLINE) == 0
    for client in silent:
        client.close()


def test_descriptors_that_were_not_announced_are_refused(kept):
    kept.up("work")
    with kept.connect("work") as client:
        text = message(verb="exec", args=["true"])
        socket.send_fds(client, [text], [0, 1, 2])
        assert reply(client)["error"]["kind"] == "invalid"
        client.sendall(message(verb="exec", args=["true"], output="capture"))
        assert reply(client)["event"] == "started" and reply(client)["result"]["exit_code"] == 0


def lend(kept, name):
    """A connection that has become a descriptor, and its number."""
    client = kept.connect(name)
    client.sendall(message(verb="lend"))
    return client, reply(client)["ok"]["lent"]


def test_a_connection_that_is_lent_is_a_descriptor(kept):
    kept.up("work")
    (stdin, first), (stdout, second) = lend(kept, "work"), lend(kept, "work")
    with kept.connect("work") as client:
        client.sendall(message(verb="exec", args=["tr", "a-z", "A-Z"], stdin=True, stdout=True, lent=[first, second]))
        assert reply(client)["event"] == "started"
        stdin.sendall(b"hello" * 100000)
        stdin.shutdown(socket.SHUT_WR)
        assert stdout.makefile("rb").read() == b"HELLO" * 100000
        assert reply(client)["result"]["exit_code"] == 0


def test_an_input_that_was_lent_and_has_ended_can_still_be_taken(kept):
    """Whoever writes and ends it before the command is asked for need not wait for anybody."""
    kept.up("work")
    stdin, number = lend(kept, "work")
    stdin.sendall(b"hello")
    stdin.shutdown(socket.SHUT_WR)
    with kept.connect("work") as client:
        for _ in range(20):  # the supervisor has been around meanwhile
            client.sendall(message(verb="show"))
            assert "ok" in reply(client)
        client.sendall(message(verb="exec", args=["cat"], stdin=True, lent=[number], output="capture"))
        assert reply(client)["event"] == "started" and reply(client)["result"]["stdout"] == "hello"


def test_what_is_lent_is_taken_once_and_ends_with_its_client(kept):
    kept.up("work")
    (used, first), (gone, second) = lend(kept, "work"), lend(kept, "work")
    gone.close()
    eventually(lambda: kept.show("work")["clients"] == 2, "the connection stays")
    with kept.connect("work") as client:
        client.sendall(message(verb="exec", args=["true"], stdin=True, stdout=True, lent=[first, first]))
        assert reply(client)["error"]["pointer"] == "/lent/1"
        for number in (first, second, 0, 77):
            client.sendall(message(verb="exec", args=["true"], stdout=True, lent=[number]))
            assert reply(client)["error"]["pointer"] == "/lent/0"
        client.sendall(message(verb="exec", args=["true"], stdin=True, lent=[]))
        assert reply(client)["error"]["kind"] == "invalid"
    assert used.recv(1) == b""


def test_a_hold_ends_with_its_connection_and_commands_wait_for_that(kept_by_root):
    kept_by_root.up("work")
    with kept_by_root.connect("work") as holder, kept_by_root.connect("work") as other:
        holder.sendall(message(verb="pause", hold=True))
        assert reply(holder)["ok"] == {}
        other.sendall(message(verb="exec", args=["true"]))
        other.settimeout(0.3)
        with pytest.raises(TimeoutError):
            other.recv(1)
        other.settimeout(DEADLINE)
        holder.close()
        assert reply(other)["event"] == "started" and reply(other)["result"]["exit_code"] == 0
