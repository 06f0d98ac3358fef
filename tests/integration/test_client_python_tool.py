"""Tool calls by the Python clients against the real runtime."""
import asyncio
import gc
import os
import select
import threading
import time

import pytest

from client_python import ADD, aio, eventually, plain, remove_all, where  # noqa: F401 (fixtures)


SLOW = "import time\ndef slow():\n    time.sleep(1000)"


@pytest.fixture
def tools(where):
    with plain.ToolSandbox(**where) as tools:
        yield tools
    remove_all(plain.SandboxClient(**where))


@pytest.mark.parametrize("reuse", ["cold", "never", "fingerprint"])
def test_a_tool_is_called_and_its_value_comes_back(tools, reuse):
    for _ in range(3):
        result = tools.run(ADD, "add", {"a": 1, "b": 2}, reuse=reuse)
        assert (result.status, result.func_return, result.stdout) == ("success", 3, ["adding"])
        assert result.check() is result and result.sandbox_config_fingerprint.startswith("sha256:")


def test_what_a_tool_does_wrong_is_a_result_and_what_is_asked_wrong_an_error(tools):
    result = tools.run("def f():\n    raise ValueError('no')", "f")
    assert result.status == "error" and result.func_return["message"] == "no"
    with pytest.raises(plain.ToolFailed) as failed:
        result.check()
    assert (failed.value.kind, failed.value.message) == ("ValueError", "no")
    with pytest.raises(plain.InvalidRequest) as refused:
        schema = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
        tools.run(ADD, "add", {"a": "x"}, json_schema=schema)
    assert refused.value.pointer == "/args/a"
    assert tools.run(SLOW, "slow", timeout=0.5).status == "timeout"


def test_agent_state_goes_in_and_out(tools):
    source = "def f(agent_state):\n    agent_state['n'] += 1\n    return agent_state['n']"
    result = tools.run(source, "f", agent_state={"n": 1})
    assert (result.func_return, result.agent_state) == (2, {"n": 2})


def test_many_threads_call_tools_at_once(tools):
    results = {}

    def one(number):
        results[number] = tools.run(ADD, "add", {"a": number, "b": 1}).func_return

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: number + 1 for number in range(8)}


def test_calls_fail_when_their_server_ends_and_the_next_one_starts_another(tools):
    assert tools.run(ADD, "add", {"a": 1, "b": 1}).ok
    server = tools._server

    def kill_once_it_is_called():
        eventually(lambda: tools._waiting)
        server.kill()
    threading.Thread(target=kill_once_it_is_called).start()
    with pytest.raises(plain.SandboxGone):
        tools.run(SLOW, "slow")
    assert tools.run(ADD, "add", {"a": 1, "b": 1}).ok and tools._server is not server


def test_what_a_call_leaves_never_costs_the_next_one(tools):
    deep = "import os\ndef f():\n    os.chdir('/tmp')\n    for i in range(3000):\n        os.mkdir('d' * 200)\n        os.chdir('d' * 200)"
    for _ in range(3):
        assert tools.run(deep, "f").ok
        assert tools.run("import os\ndef f(): return os.listdir('/tmp')", "f").func_return == []


def test_what_a_call_says_is_not_said_for_all(where):
    with pytest.raises(plain.InvalidRequest):
        plain.ToolSandbox(labels={"a": "b"}, **where)
    with plain.ToolSandbox(memory="1TiB", **where) as tools, pytest.raises(plain.PolicyRefused):
        tools.run(ADD, "add", {"a": 1, "b": 1})


# ends in the middle of its answer, as one does that is killed
HALF = """#!/bin/sh
read call
printf '{"id": 1, "exit_code": 0, "result": {"status": "succ'
"""


@pytest.fixture
def half(tmp_path):
    program = tmp_path / "pinfold"
    program.write_text(HALF)
    program.chmod(0o755)
    return program


def test_the_half_of_an_answer_is_an_end_and_nobody_waits_for_the_rest(half):
    with plain.ToolSandbox(program=half) as tools:
        for _ in range(2):
            with pytest.raises(plain.SandboxGone):
                tools.run(ADD, "add", {"a": 1, "b": 1})

    async def whole():
        async with aio.ToolSandbox(program=half) as tools:
            with pytest.raises(plain.SandboxGone):
                await asyncio.wait_for(tools.run(ADD, "add", {"a": 1, "b": 1}), 60)

    asyncio.run(whole(), debug=True)


def test_what_was_closed_may_be_used_again_at_once(where):
    tools = plain.ToolSandbox(**where)
    for number in range(5):
        assert tools.run(ADD, "add", {"a": number, "b": 1}, reuse="cold").func_return == number + 1
        tools.close()
        tools.close()
    remove_all(plain.SandboxClient(**where))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # asyncio's own, of transports whose loop is gone
def test_asyncio_calls_tools_in_one_loop_after_the_other(where):
    tools = aio.ToolSandbox(**where)
    servers = []

    async def call(number):
        result = await asyncio.wait_for(tools.run(ADD, "add", {"a": number, "b": 1}, reuse="cold"), 60)
        servers.append(os.pidfd_open(tools._server.pid))
        return result.func_return

    assert [asyncio.run(call(number)) for number in range(3)] == [1, 2, 3]
    asyncio.run(tools.close())
    gc.collect()
    for server in servers:  # each has ended with the next loop's first call, or with close()
        assert select.select([server], [], [], 60)[0]
        os.close(server)
    remove_all(plain.SandboxClient(**where))


def test_asyncio_calls_tools_and_ends_what_is_cancelled(where):
    async def whole():
        async with aio.ToolSandbox(**where) as tools:
            results = await asyncio.gather(*(tools.run(ADD, "add", {"a": number, "b": 1}) for number in range(8)))
            assert [result.func_return for result in results] == list(range(1, 9))
            call = asyncio.ensure_future(tools.run(SLOW, "slow", reuse="cold"))
            await asyncio.sleep(0.3)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            with pytest.raises(plain.InvalidRequest):
                await tools.run(ADD, "add", reuse="sometimes")

    started = time.monotonic()
    asyncio.run(whole(), debug=True)
    assert time.monotonic() - started < 60
    remove_all(plain.SandboxClient(**where))
