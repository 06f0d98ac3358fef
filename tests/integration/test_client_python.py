"""The Python clients, plain and asyncio, against the real runtime."""
import asyncio
import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from conftest import has_module

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tools/clients/python"
sys.path.insert(0, str(PACKAGE))

import pinfold as plain  # noqa: E402
from pinfold import aio  # noqa: E402


def eventually(check, deadline=60):
    until = time.monotonic() + deadline
    while not check():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture
def where(as_root):
    return {"program": as_root.program, "state": as_root.state}


@pytest.fixture
def client(where):
    client = plain.SandboxClient(**where)
    yield client
    for sandbox in client.list():
        client.remove(sandbox["name"])


@pytest.fixture
def sandbox(client):
    with client.create(name="work", labels={"tenant": "a"}) as sandbox:
        yield sandbox


def run_async(where, body):
    """`body(sandbox)` in a sandbox of its own."""

    async def whole():
        client = aio.SandboxClient(**where)
        async with await client.create(name="work", labels={"tenant": "a"}) as sandbox:
            await body(sandbox)
        assert await client.list() == []

    asyncio.run(whole(), debug=True)


def test_a_result_has_all_that_the_runtime_tells(sandbox):
    result = sandbox.exec(["sh", "-c", "cat; echo $A >&2; pwd; exit 3"], env={"A": "ä"}, cwd="/usr", stdin="in ")
    assert (result.status, result.exit_code, result.signal, result.ok) == ("error", 3, None, False)
    assert (result.stdout, result.stderr, result.truncated) == ("in /usr\n", "ä\n", False)
    assert result.labels == {"tenant": "a"} and result.sandbox == "work" and result.fingerprint.startswith("sha256:")
    assert result.exec_id > 0 and result.usage.wall_ms >= 0
    with pytest.raises(plain.ExecFailed) as failed:
        result.check()
    assert failed.value.result is result


def test_bytes_that_are_no_text_come_whole(sandbox):
    result = sandbox.exec(["cat"], stdin=bytes(range(256)))
    assert result.stdout_bytes == bytes(range(256)) and "\ufffd" in result.stdout


def test_python_and_shell_sources_run_however_long(sandbox):
    assert sandbox.run_shell("echo one | tr a-z A-Z").stdout == "ONE\n"
    assert sandbox.run_python("import sys; print(sys.argv[1:])", ["a", "b c"]).stdout == "['a', 'b c']\n"
    assert sandbox.run_python("#" * 300_000 + "\nimport sys; print(len(sys.argv))", ["x"]).stdout == "2\n"


def test_a_command_over_its_time_ends_with_its_tree(sandbox):
    assert sandbox.shell("sleep 100 & sleep 100", timeout=0.2).status == "timeout"
    assert sandbox.show()["execs"] == []


def test_output_comes_while_the_command_runs(sandbox):
    with sandbox.start(["sh", "-c", "echo one; read x; echo $x >&2"], stdin=True) as process:
        chunks = iter(process)
        assert next(chunks) == ("stdout", b"one\n")
        process.write("two\n")
        assert list(chunks) == [("stderr", b"two\n")]
        assert process.wait().ok


def test_much_goes_in_and_out_at_once(client):
    data = os.urandom(1000) * 3000
    with client.create() as sandbox, sandbox.start(["sh", "-c", "head -c 3000000 | sha256sum; head -c 900000 /dev/zero"], stdin=True) as process:
        process.write(data)
        result = process.wait()
        assert result.stdout.split()[0] == hashlib.sha256(data).hexdigest()
        assert len(result.stdout_bytes) > 900_000 and not result.truncated


def test_what_is_cut_is_said(client):
    with client.create() as sandbox:
        result = sandbox.shell("head -c 50000000 /dev/zero")
        assert result.truncated and result.truncated_streams == {"stdout": True, "stderr": False}


def test_a_wait_may_be_given_up_and_signals_reach_the_command(sandbox):
    with sandbox.start(["sh", "-c", "trap 'echo caught; exit 7' USR1; echo ready; while :; do sleep 0.02; done"]) as process:
        assert next(iter(process)) == ("stdout", b"ready\n")
        with pytest.raises(TimeoutError):
            process.wait(0.1)
        process.signal("USR1")
        result = process.wait(60)
        assert (result.exit_code, result.stdout) == (7, "caught\n")


def test_closing_a_process_ends_its_tree(sandbox):
    with sandbox.start(["sh", "-c", "sleep 1000 & echo up; wait"]) as process:
        assert next(iter(process)) == ("stdout", b"up\n")
    eventually(lambda: sandbox.show()["execs"] == [])
    last = list(sandbox.logs(exec_id=process.exec_id))[-1]
    assert last.kind == "end" and last.facts["status"] == "killed"


def test_a_process_that_was_closed_says_so(client, where):
    with client.create() as sandbox:
        with sandbox.start(["sleep", "1000"]) as process:
            pass
        with pytest.raises(plain.PinfoldError, match="closed"):
            process.wait()
        with sandbox.start(["true"]) as process:
            assert process.wait().ok
        assert process.wait().ok

    async def body(sandbox):
        async with await sandbox.start(["sleep", "1000"]) as process:
            pass
        with pytest.raises(plain.PinfoldError, match="closed"):
            await process.wait()

    run_async(where, body)


def test_a_terminal_has_a_size_that_can_change(sandbox):
    script = "stty size; trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done"
    with sandbox.start(["sh", "-c", script], tty=(30, 99)) as process:
        seen = b""
        chunks = iter(process)
        while b"ready" not in seen:
            seen += next(chunks)[1]
        process.resize(40, 120)
        seen += b"".join(data for _, data in chunks)
        assert seen.split() == [b"30", b"99", b"ready", b"40", b"120"]


def test_a_detached_command_outlives_its_client(client, sandbox):
    number = client.get("work").detach(["sh", "-c", "sleep 0.2; echo done; exit 4"])
    assert client.get("work").wait(number)["exit_code"] == 4
    records = list(sandbox.logs(exec_id=number))
    assert [record.kind for record in records] == ["start", "stdout", "end"] and records[1].data == b"done\n"
    assert list(sandbox.logs(since=records[1].seq)) == records[2:]
    with pytest.raises(plain.SandboxNotFound):
        sandbox.detach(["no-such-program"])


def test_output_is_read_on_where_a_client_left_off(sandbox):
    number = sandbox.detach(["sh", "-c", "echo one; read x; echo got $x; exit 5"], interactive=True)
    first = sandbox.attach(number)
    assert next(iter(first)) == ("stdout", b"one\n")
    first.close()  # as if the connection had broken
    seen = max(record.seq for record in sandbox.logs(exec_id=number))
    with sandbox.attach(number, since=seen, stdin=True) as again:
        again.write("two\n")
        result = again.wait()
    assert (result.stdout, result.exit_code, again.missed) == ("got two\n", 5, 0)
    assert sandbox.attach(number).wait().stdout == "one\ngot two\n"


def test_secrets_are_handed_to_a_command_by_name_alone(client, as_root):
    policy = as_root.policy(secrets=["token"])
    with client.create(policy=policy, secret_values={"token": "s3cr3t-value"}) as sandbox:
        result = sandbox.shell("echo ${#TOKEN} $TOKEN", secrets=["token:env=TOKEN"])
        assert result.stdout.startswith("12 ") and "s3cr3t" not in result.stdout
        assert sandbox.shell("echo ${TOKEN-none}").stdout == "none\n"


def test_a_log_is_followed_until_the_sandbox_ends(client):
    sandbox = client.create()
    seen = []
    reader = threading.Thread(target=lambda: seen.extend(sandbox.logs(follow=True)))
    reader.start()
    sandbox.exec(["echo", "hello"])
    sandbox.kill()
    reader.join(60)
    assert b"hello\n" in [record.data for record in seen]
    with pytest.raises(plain.SandboxNotFound):
        list(plain.SandboxHandle(client, "no-such-name").logs())


def test_files_go_in_and_out(sandbox, tmp_path):
    (tmp_path / "file").write_bytes(b"\x00data")
    sandbox.copy_in(tmp_path / "file", "/tmp/copy")
    assert sandbox.read_file("/tmp/copy") == b"\x00data"
    sandbox.write_file("/tmp/made", "text")
    sandbox.copy_out("/tmp/made", tmp_path / "out")
    assert (tmp_path / "out").read_text() == "text"
    with pytest.raises(plain.SandboxNotFound):
        sandbox.copy_in(tmp_path / "missing", "/tmp/x")
    with pytest.raises(plain.ExecFailed):
        sandbox.read_file("/tmp/missing")


def test_errors_have_types_and_say_where(client, sandbox):
    with pytest.raises(plain.SandboxExists):
        client.create(name="work")
    with pytest.raises(plain.PolicyRefused) as refused:
        client.create(memory="1TiB")
    assert refused.value.pointer.endswith("/resources/memory") and "512MiB" in refused.value.hint
    for name in ("no name", "--help"):
        with pytest.raises(plain.InvalidRequest):
            client.create(name=name)
        with pytest.raises(plain.InvalidRequest):
            client.remove(name)
    with pytest.raises(plain.InvalidRequest):
        sandbox.exec("a text")
    with pytest.raises(plain.InvalidRequest):
        sandbox.exec(["true"], cwd="relative")
    with pytest.raises(plain.SandboxNotFound):
        client.get("nobody")
    with pytest.raises(plain.InvalidRequest):
        client.get("../work")
    with pytest.raises(plain.SandboxBusy):
        sandbox.remove(force=False)
    result = sandbox.exec(["no-such-program"])
    assert result.exit_code == 127 and result.error.kind == "not_found"
    with pytest.raises(plain.SandboxNotFound):
        result.check()


def test_without_a_runtime_it_is_unavailable(tmp_path, monkeypatch):
    with pytest.raises(plain.SandboxUnavailable):
        plain.SandboxClient(program=tmp_path / "pinfold")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PINFOLD", raising=False)
    with pytest.raises(plain.SandboxUnavailable):
        aio.SandboxClient()
    (tmp_path / "pinfold").write_text("#!/no/such/interpreter\n")
    (tmp_path / "pinfold").chmod(0o755)
    with pytest.raises(plain.SandboxUnavailable):
        plain.SandboxClient(state=tmp_path).list()


def test_a_paused_sandbox_is_busy_and_a_killed_one_is_gone(sandbox):
    sandbox.pause()
    with pytest.raises(plain.SandboxBusy):
        sandbox.exec(["true"])
    sandbox.resume()
    process = sandbox.start(["sleep", "1000"])
    os.kill(sandbox.show()["supervisor"], signal.SIGKILL)
    with pytest.raises(plain.SandboxGone):
        process.wait()
    process.close()
    with pytest.raises((plain.SandboxGone, plain.SandboxNotFound)):
        sandbox.exec(["true"])


def test_sandboxes_are_found_by_label(client):
    for tenant in ("a", "b", "b"):
        client.create(labels={"tenant": tenant})
    assert len(client.list()) == 3 and len(client.list({"tenant": "b"})) == 2 and len(client.list({"tenant": None})) == 3
    assert client.list({"tenant": "c"}) == []


def test_times_are_renewed(client):
    sandbox = client.create(lifetime=600)
    sandbox.renew(lifetime=0.2)
    assert sandbox.wait()["why"] == "lifetime"


def test_a_handle_serves_many_threads(sandbox):
    results = {}

    def one(number):
        results[number] = sandbox.shell(f"echo {number}; sleep 0.05").stdout

    threads = [threading.Thread(target=one, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: f"{number}\n" for number in range(24)}


def test_a_connection_that_was_given_up_is_replaced(sandbox):
    """The supervisor closes the idlest where there is no room; here its end is shut down as it would be."""
    assert sandbox.exec(["true"]).ok
    idle = sandbox._idle.take()
    assert idle is not None
    idle.socket.shutdown(socket.SHUT_RDWR)
    sandbox._idle.give(idle)
    assert sandbox.exec(["true"]).ok


def test_who_finds_no_room_is_told(client, sandbox):
    hoard = []
    try:
        for _ in range(384):
            connection = plain.client.Connection(client.program.state, sandbox.name)
            connection.send({"verb": "wait", "id": 1})
            connection.send({"verb": "stats", "id": 2})
            hoard.append(connection)
            assert connection.receive()["id"] == 2  # then the first has been heard as well
        with pytest.raises(plain.SandboxExhausted):
            sandbox.exec(["true"])
    finally:
        for connection in hoard:
            connection.close()
    assert sandbox.exec(["true"]).ok


def supervisor_of(client, name):
    return next(one["supervisor"] for one in client.list() if one["name"] == name)


def test_a_supervisor_that_is_stopped_is_told_and_ended(where):
    client = plain.SandboxClient(**where, answer_timeout=0.2)
    sandbox = client.create(name="work")
    process = sandbox.start(["sleep", "1000"])
    os.kill(supervisor_of(client, "work"), signal.SIGSTOP)
    for ask in (sandbox.show, sandbox.stats, sandbox.pause, sandbox.renew, process.kill, lambda: sandbox.signal("TERM")):
        with pytest.raises(plain.SandboxExhausted, match="doesn't answer"):
            ask()
    sandbox.kill()
    process.close()
    with pytest.raises(plain.SandboxNotFound):
        sandbox.show()
    client.remove("work")


def test_asyncio_tells_and_ends_a_supervisor_that_is_stopped(where):
    async def body():
        client = aio.SandboxClient(**where, answer_timeout=0.2)
        sandbox = await client.create(name="work")
        process = await sandbox.start(["sleep", "1000"])
        os.kill((await client.list())[0]["supervisor"], signal.SIGSTOP)
        for ask in (sandbox.show, sandbox.pause, process.kill):
            with pytest.raises(plain.SandboxExhausted, match="doesn't answer"):
                await ask()
        await sandbox.kill()
        process.close()
        await client.remove("work")

    asyncio.run(body(), debug=True)


def test_asyncio_runs_many_at_once(where):
    async def body(sandbox):
        results = await asyncio.gather(*(sandbox.shell(f"echo {number}") for number in range(40)))
        assert [result.stdout for result in results] == [f"{number}\n" for number in range(40)]

    run_async(where, body)


def test_asyncio_cancelling_ends_the_command(where):
    async def body(sandbox):
        task = asyncio.ensure_future(sandbox.shell("sleep 1000 & sleep 1000"))
        while not (await sandbox.show())["execs"]:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while (await sandbox.show())["execs"]:
            await asyncio.sleep(0.01)

    run_async(where, body)


def test_asyncio_streams_both_ways(where):
    async def body(sandbox):
        async with await sandbox.start(["sh", "-c", "cat; echo end >&2"], stdin=True) as process:

            async def feed():
                for _ in range(50):
                    await process.write(b"x" * 10_000)
                process.close_stdin()

            feeding = asyncio.ensure_future(feed())
            sizes = {"stdout": 0, "stderr": 0}
            async for name, data in process:
                sizes[name] += len(data)
            await feeding
            assert sizes == {"stdout": 500_000, "stderr": 4} and (await process.wait()).ok

    run_async(where, body)


def test_asyncio_signals_refusals_and_ends_are_told(where):
    async def body(sandbox):
        async with await sandbox.start(["sleep", "1000"]) as process:
            with pytest.raises(plain.InvalidRequest):
                await process.resize(1, 1)
            await process.signal(signal.SIGTERM)
            assert (await process.wait()).signal == "SIGTERM"
        async with await sandbox.start(["sleep", "1000"]) as process:
            await process.kill()
            assert (await process.wait()).signal == "SIGKILL"
        with pytest.raises(plain.InvalidRequest):
            async with await sandbox.start(["true"], cwd="relative"):
                pass
        await sandbox.write_file("/tmp/x", "y")
        assert await sandbox.read_file("/tmp/x") == b"y"
        assert [record.kind async for record in sandbox.logs(tail=1)] == ["end"]
        number = await sandbox.detach(["sh", "-c", "read x; echo got $x"], interactive=True)
        async with await sandbox.attach(number, stdin=True) as process:
            await process.write("it\n")
            assert (await process.wait()).stdout == "got it\n"
        process = await sandbox.start(["sleep", "1000"])
        os.kill((await sandbox.show())["supervisor"], signal.SIGKILL)
        with pytest.raises(plain.SandboxGone):
            await process.wait()
        process.close()

    run_async(where, body)


ADD = "def add(a: int, b: int):\n    print('adding')\n    return a + b"
SLOW = "import time\ndef slow():\n    time.sleep(1000)"


def remove_all(client):
    """Also what calls are having started behind them."""
    quiet = 0
    while quiet < 5:
        found = client.list()
        quiet = 0 if found else quiet + 1
        for sandbox in found:
            with contextlib.suppress(plain.SandboxNotFound):  # the pool removes its own as well
                client.remove(sandbox["name"])
        time.sleep(0.1)


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


def test_a_published_port_is_reached_where_the_handle_says(client, as_root):
    policy = as_root.policy(network={"publish": ["3000=127.0.0.1:0", "4000=127.0.0.1:0"]})
    with client.create(policy=policy, publish=["3000"]) as sandbox:
        one, = sandbox.show()["published"]
        host, port = one["at"].rsplit(":", 1)
        server = ("import socket; s = socket.create_server(('127.0.0.1', 3000)); print('up', flush=True)\n"
                  "c, _ = s.accept(); c.sendall(c.recv(9).upper())")
        with sandbox.start(["python3", "-c", server]) as process:
            assert next(iter(process)) == ("stdout", b"up\n")
            with socket.create_connection((host, int(port)), timeout=60) as connection:
                connection.sendall(b"hello")
                assert connection.recv(9) == b"HELLO"
    with pytest.raises(plain.PolicyRefused):
        client.create(policy=policy, publish=["5000"])


def documented(language):
    text = (ROOT / "docs/clients.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


@pytest.mark.parametrize("language", ["python", "js"])
def test_the_examples_of_the_documentation_run(as_root, tmp_path, language):
    interpreter, suffix = (sys.executable, ".py") if language == "python" else (shutil.which("node"), ".mjs")
    if interpreter is None:
        pytest.skip("needs node")
    place = tmp_path / "place"  # beside the state, which no workspace may hold
    (place / "node_modules").mkdir(parents=True)
    (place / "node_modules/pinfold").symlink_to(ROOT / "tools/clients/javascript")
    (place / "Makefile").write_text("all:\n\t@echo made\n")
    examples = documented(language)
    assert len(examples) == 2
    env = {**os.environ, "PINFOLD": str(as_root.program), "PINFOLD_STATE": str(as_root.state), "PYTHONPATH": str(PACKAGE)}
    printed = []
    before = "import {SandboxClient, ToolSandbox} from 'pinfold';\n"
    for i, example in enumerate(examples):
        file = place / f"example{i}{suffix}"
        file.write_text(example if language == "python" or "import" in example else before + example)
        done = subprocess.run([interpreter, str(file)], cwd=place, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    remove_all(plain.SandboxClient(program=as_root.program, state=as_root.state))  # what the pool has started ahead
    assert ("42" in printed[0] and "made" in printed[0]) if language == "python" else printed[0].strip().isdigit(), printed
    assert printed[1].startswith("3"), printed


def test_the_package_installs_and_needs_nothing_but_the_standard_library(tmp_path):
    target = tmp_path / "site"
    if not has_module("pip") or not has_module("setuptools"):
        pytest.skip("needs Debian's python3-pip and python3-setuptools")
    copy = tmp_path / "package"
    subprocess.run(["cp", "-r", PACKAGE, copy], check=True)
    command = ["/usr/bin/python3", "-m", "pip", "install", "--no-index", "--no-build-isolation", "--no-deps", "--target", target, copy]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check = "import pinfold, pinfold.aio; print(pinfold.SandboxSpec().workspace_mode)"
    assert subprocess.check_output(["/usr/bin/python3", "-I", "-c", f"import sys; sys.path.insert(0, {str(target)!r}); {check}"]) == b"rw\n"
    assert (target / "pinfold/py.typed").exists()


def test_the_types_hold():
    if not has_module("mypy"):
        pytest.skip("needs Debian's mypy")
    command = ["/usr/bin/python3", "-m", "mypy", "--strict", "--cache-dir=/dev/null", "pinfold"]
    done = subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
