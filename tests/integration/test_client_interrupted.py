"""The Python clients where somebody stops in the middle: who iterates, waits, makes or writes, and who forks."""
import asyncio
import contextlib
import os
import signal

import pytest

from client_python import ADD, aio, client, eventually, plain, remove_all, run_async, sandbox, where  # noqa: F401 (fixtures)

READY = "echo ready; echo warning >&2; read x; echo done; echo error >&2"
TWICE = "echo one; until test -e /tmp/go; do sleep 0.05; done; echo two"


def test_who_stops_to_iterate_finds_the_rest_later(sandbox):
    with sandbox.start(["sh", "-c", READY], stdin=True) as process:
        got = b""
        for _, data in process:
            got += data
            if b"ready" in got and b"warning" in got:
                break
        process.write("\n")
        result = process.wait()
    assert (result.stdout, result.stderr) == ("done\n", "error\n")


def test_asyncio_who_stops_to_iterate_finds_the_rest_later(where):
    async def body(sandbox):
        async with await sandbox.start(["sh", "-c", READY], stdin=True) as process:
            async for _, data in process:
                if b"ready" in data:
                    break
            await process.write("\n")
            result = await process.wait()
        assert result.stdout == "done\n" and result.stderr.endswith("error\n")

    run_async(where, body)


def test_asyncio_a_wait_that_is_cancelled_loses_no_output(where):
    async def body(sandbox):
        async with await sandbox.start(["sh", "-c", TWICE]) as process:
            for _ in range(3):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(process.wait(), 0.2)
            await sandbox.write_file("/tmp/go", "")
            assert (await process.wait()).stdout == "one\ntwo\n"
            assert (await process.wait()).stdout == "one\ntwo\n"

    run_async(where, body)


def test_asyncio_what_is_asked_of_a_command_that_just_ends_is_answered(where):
    async def body(sandbox):
        for _ in range(30):
            async with await sandbox.start(["true"]) as process:
                with contextlib.suppress(plain.SandboxNotFound):
                    await process.kill()
                await process.wait()

    run_async(where, body)


def test_input_that_nobody_takes_is_told(sandbox):
    with sandbox.start(["true"], stdin=True) as process:
        sandbox.wait(process.exec_id)
        with pytest.raises(plain.PinfoldError, match="takes no more input"):
            process.write(b"x" * 1_000_000)
        assert process.wait().ok
    with sandbox.start(["true"]) as process, pytest.raises(plain.PinfoldError, match="no standard input"):
        process.write(b"x")
    with pytest.raises(plain.PinfoldError, match="was closed"):
        process.kill()


def test_asyncio_input_that_nobody_takes_is_told(where):
    async def body(sandbox):
        async with await sandbox.start(["true"], stdin=True) as process:
            await sandbox.wait(process.exec_id)
            with pytest.raises(plain.PinfoldError, match="takes no more input"):
                await process.write(b"x" * 1_000_000)
        with pytest.raises(plain.PinfoldError, match="was closed"):
            await process.kill()

    run_async(where, body)


@pytest.mark.parametrize("name", ["", "a\0b", "a b", "a/b", "..", "a..b", "-a", "a" * 64, "ä"])
def test_what_is_no_name_is_refused_before_anything_is_opened(where, name):
    with pytest.raises(plain.InvalidRequest):
        plain.SandboxClient(**where).get(name)


@pytest.mark.parametrize("fields", [{"labels": {"a=b": "c"}}, {"env": {"A=B": "c"}}, {"env": {"A": "b\0c"}}, {"labels": {"a": "b\0"}}])
def test_what_a_command_line_cannot_say_is_refused_and_not_bent(client, fields):
    """`--label=a=b=c` would be the label `a`."""
    with pytest.raises(plain.InvalidRequest):
        client.create(**fields)
    assert client.list() == []


@pytest.mark.parametrize("time", [-1, float("nan"), float("inf"), -float("inf")])
def test_what_is_no_time_is_refused(client, sandbox, time):
    for ask in (lambda: sandbox.exec(["true"], timeout=time), lambda: sandbox.renew(idle=time), lambda: sandbox.stop(time),
                lambda: client.create(lifetime=time), lambda: client.create(idle_timeout=time), lambda: client.create(timeout=time)):
        with pytest.raises(plain.InvalidRequest):
            ask()


def test_what_a_command_line_cannot_list_is_refused(client):
    with pytest.raises(plain.InvalidRequest):
        client.list({"a=b": None})


@pytest.mark.parametrize("turn", range(3))
def test_asyncio_a_cancelled_create_leaves_no_sandbox(where, turn):
    async def whole():
        client = aio.SandboxClient(**where)
        for step in range(4):
            making = asyncio.ensure_future(client.create())
            await asyncio.sleep(0.004 * (4 * turn + step))
            making.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await (await making).remove()  # it was done sooner
        while await client.list():  # one whose maker was killed in the middle ends when it is up
            await asyncio.sleep(0.05)

    asyncio.run(whole())


def test_an_interrupted_create_leaves_no_sandbox(client, monkeypatch):
    """The interruption comes when the sandbox is up, and before anybody knows its name."""
    call = client.program.call

    def interrupted(arguments, *more, **options):
        done = call(arguments, *more, **options)
        if arguments[0] == "up":
            raise KeyboardInterrupt
        return done
    monkeypatch.setattr(client.program, "call", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.create()
    assert client.list() == []
    with pytest.raises(KeyboardInterrupt):
        client.create(name="named")  # a name that is known may be another's, older sandbox
    assert [sandbox["name"] for sandbox in client.list()] == ["named"]


def in_a_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return child


def has_succeeded(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_processes_that_were_forked_never_read_each_others_answers(sandbox):
    def work(tag):
        for number in range(20):
            assert sandbox.exec(["echo", f"{tag}-{number}"]).stdout == f"{tag}-{number}\n"
    work("before")
    children = [in_a_child(lambda tag=tag: work(tag)) for tag in range(3)]
    work("parent")
    assert [has_succeeded(child) for child in children] == [True] * 3


def test_a_command_ends_with_its_process_though_a_forked_child_lives(sandbox):
    process = sandbox.start(["sleep", "1000"])
    child = in_a_child(signal.pause)
    try:
        process.close()
        eventually(lambda: sandbox.show()["execs"] == [])
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_forked_child_that_lets_go_ends_nothing_of_its_parent(sandbox):
    with sandbox.start(["sh", "-c", "read x; echo $x"], stdin=True) as process:
        assert has_succeeded(in_a_child(process.close))
        process.write("still here\n")
        assert process.wait().stdout == "still here\n"


def test_a_forked_child_calls_tools_by_a_server_of_its_own(where):
    with plain.ToolSandbox(**where) as tools:
        def work(first):
            for number in range(3):
                assert tools.run(ADD, "add", {"a": first, "b": number}).func_return == first + number
        work(0)

        def in_child():
            work(1000)
            tools.close()
        child = in_a_child(in_child)
        work(2000)
        assert has_succeeded(child)
        work(3000)
    remove_all(plain.SandboxClient(**where))
