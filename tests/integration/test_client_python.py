"""The plain Python client against the real runtime, its package and its documentation."""
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading

import pytest

from client_python import PACKAGE, aio, client, eventually, plain, remove_all, run_async, sandbox, supervisor_of, where  # noqa: F401 (fixtures)
from conftest import has_module

ROOT = PACKAGE.parents[2]


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
