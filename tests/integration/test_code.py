"""Code contexts: cells that share variables, what they show, how they fail, and who must not speak for them."""
import base64
import json
import shutil
import signal
import subprocess
import time

import pytest

from kept_sandbox import DEADLINE, eventually, kept, kept_by_root, message, paced, reply  # noqa: F401 (fixtures)

needs_node = pytest.mark.skipif(shutil.which("node", path="/usr/local/bin:/usr/bin:/bin") is None, reason="there is no node")
LANGUAGES = ["python", pytest.param("javascript", marks=needs_node)]


class Code:
    def __init__(self, kept, **resources):
        self.kept = kept
        kept.up("work", resources={"wall_time": "5m", "grace": "20s", **resources})

    def cell(self, code, *options, **kwargs):
        done = self.kept.call("code", "work", "--json", *options, "-c", code, **kwargs)
        result = json.loads(done.stdout)
        result["exit_code"] = done.returncode
        return result

    def value(self, code, *options):
        result = self.cell(code, *options)
        assert result["status"] == "success" and result["exit_code"] == 0, result
        return result["results"][-1]["text/plain"] if result["results"] else None


@pytest.fixture
def code(kept):
    return Code(kept)


@pytest.mark.parametrize("language, first, second", [
    ("python", "import math\nx = 20", "x + math.floor(1.5)"),
    pytest.param("javascript", "const x = 20; let y = 1", "x + y", marks=needs_node)])
def test_variables_live_between_cells_and_the_last_expression_is_the_result(code, language, first, second):
    done = code.cell(first, "--language", language)
    assert (done["status"], done["results"], done["error"], done["execution_count"]) == ("success", [], None, 1)
    assert done["context"] == {"name": language, "language": language, "state": "new"}
    done = code.cell(second, "--context", language)
    assert done["results"] == [{"text/plain": "21"}] and done["execution_count"] == 2
    assert done["context"]["state"] == "kept"


@pytest.mark.parametrize("language", LANGUAGES)
def test_contexts_of_a_sandbox_have_variables_of_their_own(code, language):
    for name in ("one", "two"):
        code.value(f"var_ = '{name}'", "--language", language, "--context", name)
    assert code.value("var_", "--context", "one") == "'one'" and code.value("var_", "--context", "two") == "'two'"


def test_output_comes_as_it_was_printed_also_from_programs_that_a_cell_starts(code):
    done = code.cell("import os, sys\nprint('out')\nprint('err', file=sys.stderr)\nos.system('echo child')\nNone")
    assert (done["stdout"], done["stderr"], done["results"]) == ("out\nchild\n", "err\n", [])
    done = code.kept.call("code", "work", "-c", "print('seen'); 6 * 7")
    assert (done.stdout, done.stderr, done.returncode) == (b"seen\n42\n", b"", 0)


def test_a_cell_that_closes_its_output_leaves_that_of_the_next_one(code):
    code.value("import sys\nsys.stdout.close()\nsys.stderr = None")
    done = code.cell("import sys\nprint('a\\ud800é')\nprint('b', file=sys.stderr)\nNone")
    assert (done["status"], done["stdout"], done["stderr"]) == ("success", "a\\ud800é\n", "b\n")


def test_the_cell_is_a_file_or_standard_input(code):
    path = code.kept.pinfold.home / "cell.py"
    path.write_text("6 * 7")
    path.chmod(0o644)
    assert code.kept.ok("code", "work", str(path)) == "42\n"
    assert code.kept.ok("code", "work", input="'é' * 2".encode()) == "'éé'\n"
    both = code.kept.call("code", "-c", "1", "work", str(path))
    assert both.returncode == 125 and b"both a FILE and --code" in both.stderr
    assert code.kept.call("code", "work", input=b"'\xff'").returncode == 125


def test_an_error_shows_the_lines_of_the_cells_and_none_of_ours(code):
    code.value("def half(n):\n    return n / 0")
    done = code.cell("def f():\n    half(1)\n\nf()")
    assert (done["status"], done["exit_code"], done["error"]["type"]) == ("error", 1, "ZeroDivisionError")
    assert done["error"]["message"] == "division by zero"
    trace = done["error"]["traceback"]
    for line in ('File "cell-2", line 4, in <module>', "    half(1)", 'File "cell-1", line 2, in half', "    return n / 0"):
        assert line in trace
    assert "<string>" not in trace
    broken = code.cell("x = = 1")["error"]
    assert broken["type"] == "SyntaxError" and "cell-3" in broken["traceback"] and "x = = 1" in broken["traceback"]
    assert code.cell("import sys; sys.exit(3)")["error"]["type"] == "SystemExit"
    assert code.cell("1")["execution_count"] == 5  # and the context lives
    people = code.kept.call("code", "work", "-c", "1 / 0")
    assert people.returncode == 1 and b"cell-6" in people.stderr and people.stdout == b""


@needs_node
def test_an_error_of_javascript_shows_the_lines_of_its_cell(code):
    done = code.cell("function f() {\n  throw new TypeError('no');\n}\nf()", "--language", "javascript")
    assert (done["error"]["type"], done["error"]["message"], done["exit_code"]) == ("TypeError", "no", 1)
    assert "at f (cell-1:2:9)" in done["error"]["traceback"] and "[eval]" not in done["error"]["traceback"]
    assert code.cell("x = = 1", "--context", "javascript")["error"]["type"] == "SyntaxError"
    late = code.cell("setTimeout(() => { throw new Error('late') }, 5); await new Promise((r) => setTimeout(r, 2000))", "--context", "javascript")
    assert late["error"]["message"] == "late"
    assert code.value("1 + 1", "--context", "javascript") == "2"


@pytest.mark.parametrize("language, first, second", [
    ("python", "import asyncio\nx = await asyncio.sleep(0.01, 5)", "x"),
    pytest.param("javascript", "const x = await new Promise((done) => setTimeout(() => done(5), 10))", "x", marks=needs_node)])
def test_await_works_at_the_top(code, language, first, second):
    code.value(first, "--language", language)
    assert code.value(second, "--context", language) == "5"


def test_results_are_rich(code):
    made = code.cell("""
class Rich:
    def _repr_html_(self): return "<b>html</b>"
    def _repr_png_(self): return b"\\x89PNG"
    def _repr_json_(self): return {"a": [1, None]}
    def __repr__(self): return "rich"
class Broken:
    def _repr_html_(self): raise ValueError("no html")
    def __repr__(self): raise ValueError("no text")
display(Rich(), {"b": float("nan")}, [1, "\\ud800"])
display(Broken())
{"k": [1, 2.5, "é", True]}""")
    assert made["status"] == "success"
    rich, nan, surrogate, broken, plain = made["results"]
    assert rich == {"text/plain": "rich", "text/html": "<b>html</b>", "application/json": {"a": [1, None]},
                    "image/png": base64.b64encode(b"\x89PNG").decode()}
    assert nan == {"text/plain": "{'b': nan}"} and list(surrogate) == ["text/plain"]
    assert broken == {"text/plain": "<Broken: its repr() raises ValueError>"}
    assert plain["application/json"] == {"k": [1, 2.5, "é", True]}
    assert any("no html" in note for note in made["notes"])


@needs_node
def test_results_of_javascript_are_rich(code):
    made = code.cell("display({_repr_html_: () => '<i>', _repr_png_: () => Buffer.from('png')});\n({a: [1, null]})", "--language", "javascript")
    first, second = made["results"]
    assert first["text/html"] == "<i>" and first["image/png"] == base64.b64encode(b"png").decode()
    assert second == {"text/plain": "{ a: [ 1, null ] }", "application/json": {"a": [1, None]}}


def test_figures_of_matplotlib_are_results(code):
    # distributions keep its settings in /etc, of which the sandbox has nothing
    done = code.cell("import os\nos.environ['MATPLOTLIBRC'] = os.environ['MPLCONFIGDIR'] = '/tmp'\n"
                     "open('/tmp/matplotlibrc', 'w').close()\nimport matplotlib", timeout=120)
    if done["status"] != "success":
        pytest.skip(f"the sandbox's Python has no matplotlib: {done['error']['message']}")
    made = code.cell("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.title('t')\nNone", timeout=120)
    assert base64.b64decode(made["results"][-1]["image/png"]).startswith(b"\x89PNG"), made
    assert not any("image/png" in result for result in code.cell("1")["results"])


def test_time_over_interrupts_the_cell_and_the_context_lives_on(code):
    code.value("x = 1")
    done = code.cell("import time\nx = 2\nprint('before')\ntime.sleep(60)", "--timeout", "1s")
    assert (done["status"], done["exit_code"], done["stdout"]) == ("timeout", 124, "before\n")
    assert done["error"]["type"] == "KeyboardInterrupt" and "time.sleep(60)" in done["error"]["traceback"]
    assert done["context"]["state"] == "kept" and code.value("x") == "2"
    done = code.cell("while True: pass", "--timeout", "500ms")
    assert done["error"]["type"] == "KeyboardInterrupt" and code.value("x") == "2"


def running(kept):
    return sum(command["state"] == "running" for command in kept.show("work")["execs"])


def test_a_context_outlives_the_time_of_a_command_and_a_cell_does_not(kept_by_root):
    code = Code(kept_by_root, wall_time="3s", grace="1s")
    code.value("x = 1")
    time.sleep(3.2)
    assert code.cell("x + 1")["results"] == [{"text/plain": "2"}]
    assert code.cell("import time\ntime.sleep(30)")["status"] == "timeout"
    done = code.cell("x + 2")
    assert (done["results"], done["context"]["state"]) == ([{"text/plain": "3"}], "kept")
    assert b"the policy grants a command 3000 ms" in code.kept.call("code", "work", "--json", "-t", "4s", "-c", "1").stdout


def test_a_context_ends_when_it_is_idle_or_old(code):
    code.value("x = 1", "--context", "young")

    def busy_for_longer(span):
        """A cell that runs is no idleness; a machine that takes that long to begin one is."""
        begun = time.monotonic()
        done = code.cell(f"import time\nx = 1\ntime.sleep({0.6 * span})", "--context", "idle", "--idle-timeout", f"{300 * span}ms")
        in_time = time.monotonic() - begun < 0.9 * span
        assert done["status"] == "success" or not in_time, done
        if not in_time:
            eventually(lambda: running(code.kept) == 1, "the idle context")
        return in_time

    paced(busy_for_longer)
    code.cell("x = 1", "--context", "old", "--lifetime", "2s")
    eventually(lambda: running(code.kept) == 1, "contexts that are left")
    assert code.value("x", "--context", "young") == "1"
    for name in ("idle", "old"):
        done = code.cell("x", "--context", name)
        assert done["error"]["type"] == "NameError" and done["context"]["state"] == "new" and "had ended" in done["notes"][0]


def test_a_context_that_computes_with_nobody_asking_is_ended(kept_by_root):
    """Between cells it may use as much of the processor as a command may have of time; during cells the cell's time counts."""
    code = Code(kept_by_root, wall_time="2s", grace="100ms")
    code.value("import threading, time\ndef spin():\n  while True: pass\nthreading.Thread(target=spin, daemon=True).start()\nx = 1")
    code.value("x = 1", "--context", "calm")
    eventually(lambda: running(code.kept) == 1, "the context that spins", within=120)
    assert code.cell("x")["error"]["type"] == "NameError" and code.value("x", "--context", "calm") == "1"


def test_contexts_in_the_protocol_are_detached_and_cells_name_one_that_runs(code):
    code.value("x = 1")
    with code.kept.connect("work") as client:
        plain = code.kept.exec("work", "sleep", "1000", options=["--detach"])
        assert plain.returncode == 0
        command = code.kept.show("work")["execs"][-1]["exec"]
        for fields, kind in (({"context": True}, "invalid"), ({"idle_ms": 5}, "invalid"), ({"lifetime_ms": 5}, "invalid"), ({"cell_of": 4000000}, "not_found"),
                             ({"cell_of": command}, "not_found"), ({"hand": True, "cell_of": 1}, "invalid"), ({"hand": True, "cell_of": 1, "frames": "fd", "tty": True}, "invalid"), ({"cell_of": -1}, "invalid"), ({"context": 1, "detach": True}, "invalid"),
                             ({"context": True, "detach": True, "idle_ms": "1s"}, "invalid")):
            client.sendall(message(verb="exec", args=["true"], **fields))
            assert reply(client)["error"]["kind"] == kind, fields
        # many cells at once, of which some end with their client: the count comes back to none
        client.sendall(b"".join(message(verb="exec", args=["sleep", "1000"], cell_of=1) for _ in range(5)))
        for _ in range(5):
            assert reply(client)["event"] == "started"
    assert code.value("x") == "1"


def test_a_context_that_waits_keeps_no_idle_sandbox(kept):
    def one_cell(span):
        begun = time.monotonic()
        kept.up(f"short{span}", "--idle-timeout", f"{400 * span}ms")
        code = kept.call("code", f"short{span}", "-c", "1").returncode
        in_time = time.monotonic() - begun < 0.4 * span
        assert code == 0 or not in_time
        eventually(lambda: all(sandbox["state"] != "running" for sandbox in kept.list()), "the sandbox")
        return code == 0

    paced(one_cell)


def test_a_cell_that_cannot_be_interrupted_costs_the_context(kept):
    code = Code(kept, grace="1s")
    code.value("x = 1")
    stubborn = "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nwhile True: time.sleep(1)"
    done = code.cell(stubborn, "--timeout", "500ms")
    assert (done["status"], done["exit_code"], done["error"]["type"], done["context"]["state"]) == ("timeout", 124, "Timeout", "ended")
    assert any("variables are gone" in note for note in done["notes"])
    done = code.cell("x")
    assert done["error"]["type"] == "NameError" and done["context"]["state"] == "new" and done["execution_count"] == 1


@needs_node
def test_javascript_that_waits_is_interrupted_and_one_that_spins_costs_the_context(kept):
    code = Code(kept, grace="4s")
    code.value("const x = 1", "--language", "javascript")
    waits = code.cell("await new Promise(() => {})", "--context", "javascript", "--timeout", "1s")
    assert (waits["status"], waits["error"]["type"]) == ("timeout", "Interrupted")
    assert code.value("x", "--context", "javascript") == "1"
    spins = code.cell("console.log('before'); for (;;);", "--context", "javascript", "--timeout", "1s")
    assert (spins["status"], spins["stdout"], spins["context"]["state"]) == ("timeout", "before\n", "ended")
    assert code.cell("x", "--language", "javascript")["error"]["type"] == "ReferenceError"


def test_the_callers_signal_interrupts_the_cell(code):
    code.value("x = 1")
    process = code.kept.pinfold.spawn(code.kept.argv("code", "work", "-c", "import time; print('on'); time.sleep(60)"),
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"on\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and b"KeyboardInterrupt" in err
    assert code.value("x") == "1"


def test_a_client_that_dies_interrupts_its_cell(code):
    code.value("x = 1")
    process = code.kept.pinfold.spawn(code.kept.argv("code", "work", "-c", "import time; print('on'); time.sleep(600)"), stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"on\n"
    process.kill()
    process.wait(DEADLINE)
    assert code.value("x", "--timeout", "30s") == "1"


@needs_node
@pytest.mark.parametrize("first, second, third, expected", [
    ("const a = 1", "const a = 2", "a", "2"),
    ("let a = 1; class C {}", "let a = 3; class C { static b = a }", "C.b", "3"),
    ("const { a, b } = { a: 1, b: 2 }", "const [a, b] = [3, 4]", "a + b", "7"),
    ("const a = await Promise.resolve(1)", "const a = await new Promise((done) => setTimeout(() => done(5), 5))", "a", "5"),
    ("const fs = require('fs')", "const fs = require('fs'), packet = 1, path = 2, table = 3", "typeof fs.readFileSync + packet", "'function1'"),
    ("var a = 1; function f() { return 1 }", "var a = 2; function f() { return 2 }", "a + f()", "4"),
    ("const os = await import('os')", "const os = await import('node:os')", "typeof os.cpus", "'function'"),
    ("function f() { return import('path').then((m) => m.sep) }", "1", "await f()", "'/'"),
], ids=lambda text: text if text.isidentifier() else "")
def test_a_name_of_javascript_can_be_declared_again_by_a_later_cell(code, first, second, third, expected):
    for cell in (first, second, first, second):
        code.value(cell, "--language", "javascript", "--context", "javascript")
    assert code.value(third, "--context", "javascript") == expected


@needs_node
@pytest.mark.parametrize("cell, expected", [
    ("const a = 1; const a = 2", "SyntaxError"), ("const b = 1; b = 2", "TypeError"), ("import fs from 'fs'", "SyntaxError"), ("await import('node:nowhere')", "Error"),
    ("throw undefined", "undefined"), ("throw null", "object"), ("throw 7n", "bigint"), ("await Promise.reject(new RangeError('r'))", "RangeError"),
    ("`unfinished", "SyntaxError"), ("/* unfinished", "SyntaxError"), ("import(", "SyntaxError"), ("JSON.parse('{')", "SyntaxError"), ("return 1", "SyntaxError")])
def test_what_is_wrong_with_a_cell_of_javascript_is_its_own_error(code, cell, expected):
    done = code.cell(f"1;\n{cell}", "--language", "javascript")
    assert (done["status"], done["error"]["type"]) == ("error", expected), done
    trace = done["error"]["traceback"] or ""
    assert not any(ours in trace for ours in ("(node:", "[eval]", "Session", "acorn")), trace
    if expected == "SyntaxError" and "JSON" not in cell:
        assert trace.startswith("cell-1:") and "^" in trace, trace
    assert code.value("1 + 1", "--context", "javascript") == "2"


@needs_node
@pytest.mark.parametrize("cell, expected", [
    ("NaN", "NaN"), ("-0", "-0"), ("10n ** 20n", "100000000000000000000n"), ("Symbol('s')", "Symbol(s)"), ("Infinity", "Infinity"), ("null", "null"), ("'text'", "'text'"),
    ("({ then(done) { done(1) } })", "{ then: [Function: then] }"), ("(() => 1)", "[Function (anonymous)]"), ("Promise.resolve(5)", "Promise { 5 }"), ("'import(1)'", "'import(1)'"), ("`${await import('os') && 'import(2)'}`", "'import(2)'"),
    ("/import(1)/.source", "'import(1)'"), ("globalThis.x = {}; x.self = x", "<ref *1> { self: [Circular *1] }"), ("for (const i of [1, 2]) i", "2"), ("1 // end", "1")])
def test_values_of_javascript_are_themselves(code, cell, expected):
    assert code.value(cell, "--language", "javascript") == expected


@needs_node
def test_a_cell_of_javascript_finds_nothing_of_ours_and_one_that_breaks_its_context_is_answered(code):
    found = code.value("['packet', 'request', 'writeAll', 'table', 'now', 'nonce', 'key', '__pinfold_hand'].filter((name) => name in globalThis || eval(`typeof ${name}`) !== 'undefined')", "--language", "javascript")
    assert found == "[]"
    code.cell("Promise.prototype.then = () => { throw 1 }; Function.prototype.call = null; Array.prototype.push = null; 1", "--context", "javascript")
    assert code.cell("1 + 1", "--timeout", "2s", "--context", "javascript")["status"] in ("success", "error", "timeout", "killed")
    assert code.value("1 + 1", "--restart", "--context", "javascript", "--language", "javascript") == "2"


def test_hostile_cells_are_answered_and_the_next_one_finds_a_context(kept_by_root):
    code = Code(kept_by_root, pids=24, memory="128MiB", stdout="64KiB")
    cells = {
        "import os\nwhile True: os.fork()": (("error", "memory"), {"BlockingIOError", "ContextEnded", "MemoryLimit"}),
        "print('after')": (("success", "refused", "error"), {None, "NotStarted", "ContextEnded"}),  # its children may be in the way
        "b = bytearray(400 << 20)": (("memory", "error"), {"MemoryLimit", "MemoryError"}),
        "import os\nos.kill(os.getpid(), 9)": (("error",), {"ContextEnded"}),
        "import os\nos.closerange(3, 300)": (("error",), {"ContextEnded"}),
        "import ctypes\nctypes.string_at(0)": (("error",), {"ContextEnded"}),
        "import os\nos.write(1, b'x' * 10000000)": (("output", "success"), {"OutputLimit", None}),
        "import os\nos._exit(0)": (("error",), {"ContextEnded"}),
        "import sys\nsys.exit(3)": (("error",), {"SystemExit"}),
    }
    for source, (statuses, types) in cells.items():
        done = code.cell(source)
        kind = (done["error"] or {}).get("type")
        assert done["status"] in statuses and kind in types, (source, done)
        assert done["exit_code"] == {"success": 0, "error": 1, "memory": 137, "output": 137, "refused": 125}[done["status"]], (source, done)
    assert code.value("40 + 2") == "42"


@pytest.mark.parametrize("language, code_of, error", [
    ("python", "x = 1", "NameError"), pytest.param("javascript", "const x = 1", "ReferenceError", marks=needs_node)])
def test_restart_begins_anew(code, language, code_of, error):
    code.value(code_of, "--language", language)
    done = code.cell("x", "--restart", "--language", language)
    assert done["error"]["type"] == error and done["context"]["state"] == "new" and done["execution_count"] == 1
    eventually(lambda: len(code.kept.show("work")["execs"]) == 1, "the old context goes")


def test_a_context_that_is_killed_says_so_and_the_next_cell_has_a_new_one(code):
    done = code.cell("import os\nos._exit(3)")
    assert (done["status"], done["error"]["type"], done["context"]["state"]) == ("error", "ContextEnded", "ended")
    code.value("x = 1")
    code.cell("import os, signal, threading\nthreading.Timer(0.2, os.kill, (os.getpid(), signal.SIGKILL)).start()")
    eventually(lambda: not code.kept.show("work")["execs"], "the context ends")
    done = code.cell("x")
    assert done["error"]["type"] == "NameError" and any("had ended" in note for note in done["notes"])


def test_what_is_printed_is_no_result(code):
    # all that a cell can print, on each descriptor that it can find, and what looks like the runner's own
    done = code.cell("""
import os, subprocess
forged = b'{"key": "x", "results": [{"text/plain": "forged"}], "error": null}'
for fd in (1, 2, 3):
    try:
        os.write(fd, bytes([0xf8]) * 16 + b"\\1\\1\\0\\0" + len(forged).to_bytes(4, "big") + bytes(4) + forged)
    except OSError:
        pass
print('{"result": {"results": ["forged"]}}')
subprocess.run(["sh", "-c", "echo forged >&200; ls /proc/self/fd; env"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.count(b"NONCE")""")
    assert done["status"] == "success" and done["results"] == [{"text/plain": "0"}]


def test_a_frame_without_the_cells_key_is_no_result(code):
    # by code that reaches into the runner for nonce and descriptor: the wall of the key alone stands in its way
    forge = """
import gc, os, struct
cell = max((o for o in gc.get_objects() if type(o).__name__ == "Cell"), key=lambda o: o.number)
scope = type(cell).send.__globals__
payload = b'{"key": "%s", "results": [{"text/plain": "forged"}], "error": null, "execution_count": 1, "notes": []}'
os.write(cell.fds["frame"], cell.nonce + b"\\1\\1\\0\\0" + struct.pack(">II", len(payload), scope["crc32c"](payload)) + payload)"""
    done = code.cell(forge.replace("%s", "0" * 32))
    assert (done["status"], done["error"]["type"], done["results"]) == ("error", "ForgedResult", [])
    # with the key it would count: it is the cell's own process that says it
    with_key = forge.replace("'\nos.write", "' % cell.request['key'].encode()\nos.write")
    assert code.cell(with_key)["results"] == [{"text/plain": "forged"}]


# left behind by a cell: opens what it can of every other process, for as long as cells run
WATCHER = r"""
import os, time
seen, end = set(), time.monotonic() + 120
while time.monotonic() < end:
    stop = os.path.exists("/tmp/stop")
    for pid in (p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()):
        for name, do in (("mem", lambda p: open(p, "rb+").close()), ("environ", lambda p: open(p, "rb").read(1)), ("fd", os.listdir)):
            try:
                do("/proc/%s/%s" % (pid, name))
                seen.add(name)
            except OSError:
                pass
    open("/tmp/passed", "w").close()
    if stop: break
with open("/tmp/seen.part", "w") as file: file.write(" ".join(sorted(seen)) or "nothing")
os.rename("/tmp/seen.part", "/tmp/seen")
"""
LEAVE = {"python": "import ctypes, subprocess\n%s\nw = subprocess.Popen(['python3', '-c', {w!r}], stdin=-3, stdout=-3, stderr=-3)\nimport os, time\nwhile not os.path.exists('/tmp/passed'): time.sleep(0.02)",
         "javascript": "const w = require('child_process').spawn('python3', ['-c', {w}], {{ stdio: 'ignore' }}); while (!require('fs').existsSync('/tmp/passed')) await new Promise((r) => setTimeout(r, 20))"}
SEEN = {"python": "import os, time\nopen('/tmp/stop', 'w').close()\nwhile not os.path.exists('/tmp/seen'): time.sleep(0.02)\n[open('/tmp/seen').read(), os.listdir('/tmp')]",
        "javascript": "const fs = require('fs'); fs.writeFileSync('/tmp/stop', ''); while (!fs.existsSync('/tmp/seen')) await new Promise((r) => setTimeout(r, 20)); `${fs.readFileSync('/tmp/seen')} ${fs.readdirSync('/tmp').sort()}`"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_program_that_a_cell_leaves_finds_nothing_to_make_a_result_with(code, language):
    """Neither of the context nor of a cell on its way: no other process has it, and no name leads to it."""
    watcher = json.dumps(WATCHER) if language == "javascript" else WATCHER
    code.value((LEAVE[language] % "" if language == "python" else LEAVE[language]).format(w=watcher), "--language", language)
    for number in range(5):
        assert code.value(f"{number} + 40", "--context", language) == str(number + 40)
    found = code.value(SEEN[language], "--context", language)
    assert found.replace("[", "").replace("'", "").startswith("nothing"), found
    assert not any(name in found for name in ("pinfold", "code-", "tool-")), found


@pytest.mark.parametrize("language", LANGUAGES)
def test_others_cannot_keep_a_context_open_by_what_they_do_to_its_files(code, language):
    """What closes its memory comes from the supervisor: a file of it in /tmp could be replaced by others of the same user, or, as here, find no room."""
    fill = "import os\nfile = open('/tmp/full', 'wb', buffering=0)\ntry:\n  while True: file.write(b'x' * 65536)\nexcept OSError: print(sum(1 for _ in os.scandir('/tmp')))"
    assert code.kept.exec("work", "python3", "-c", fill).stdout == b"1\n"
    owner = {"python": "import os\nos.stat('/proc/self/mem').st_uid != os.getuid()", "javascript": "fs = require('fs'); fs.statSync('/proc/self/mem').uid !== process.getuid()"}[language]
    first = code.cell(owner, "--language", language)
    assert (first["results"][0]["text/plain"].lower(), first["notes"]) == ("true", []), first
    assert code.kept.exec("work", "ls", "/tmp").stdout == b"full\n"


def test_the_memory_of_others_is_not_written_even_where_it_is_open(code):
    """So a context that is starting, and isn't closed yet, takes nothing from others of its user: Landlock, and the filter for all that needs no file."""
    attempt = """
import ctypes, os, subprocess
child = subprocess.Popen(['sleep', '100'])
got = []
for name, mode in (('environ', 'rb'), ('mem', 'rb+'), ('mem', 'wb'), ('oom_score_adj', 'w')):
    try: got.append((name, open('/proc/%d/%s' % (child.pid, name), mode).close()))
    except PermissionError: pass
c = ctypes.CDLL(None, use_errno=True)
got += [n for n in (101, 310, 311, 434, 438) if c.syscall(n, 16 if n == 101 else child.pid, child.pid, 0, 0, 0, 0) != -1]
child.kill()
print(got)"""
    done = code.kept.exec("work", "python3", "-c", attempt)
    assert done.stdout == b"[('environ', None)]\n", done


def test_a_program_reads_a_context_that_can_be_opened(code):
    """The control: a cell may open its context; it is the context's own process that does it."""
    code.value((LEAVE["python"] % "assert ctypes.CDLL(None).prctl(4, 1, 0, 0, 0) == 0").format(w=WATCHER))
    found = code.value(SEEN["python"])
    assert "environ fd" in found, found  # and its memory, where the host has no Yama


def test_results_are_bounded_and_only_known_types_pass(kept):
    code = Code(kept, frame="64KiB")
    done = code.cell("'x' * 100000")
    assert (done["status"], done["error"]["type"], done["context"]["state"]) == ("error", "ResultTooLarge", "new")
    assert code.value("1") == "1"
    done = code.cell("class R:\n  def _repr_png_(self): return '<script>'\nR()")
    assert "image/png" not in done["results"][0]


def test_a_child_that_comes_to_the_cells_end_answers_nothing(code):
    assert code.value("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n'parent' if pid else 'child'") == "'parent'"
    assert code.value("1") == "1"


def test_two_clients_are_served_one_after_the_other(code):
    code.value("n, log = 0, []")
    cell = "import time\nlog.append('in')\ntime.sleep(0.3)\nlog.append('out')\nn += 1"
    both = [code.kept.pinfold.spawn(code.kept.argv("code", "work", "-c", cell)) for _ in range(3)]
    assert [process.wait(60) for process in both] == [0, 0, 0]
    assert code.value("n, log") == "(3, ['in', 'out', 'in', 'out', 'in', 'out'])"


def test_two_first_cells_share_one_context(code):
    both = [code.kept.pinfold.spawn(code.kept.argv("code", "work", "-c", "n = globals().get('n', 0) + 1")) for _ in range(2)]
    assert [process.wait(60) for process in both] == [0, 0]
    assert code.value("n") == "2" and len(code.kept.show("work")["execs"]) == 1


def test_refusals(code):
    done = code.kept.call("code", "nobody", "--json", "-c", "1")
    assert done.returncode == 125 and json.loads(done.stdout)["error"]["kind"] == "not_found"
    assert code.kept.call("code", "work", "--context", "../x", "-c", "1").returncode == 125
    code.value("1")
    other = code.kept.call("code", "work", "--context", "python", "--language", "javascript", "-c", "1")
    assert other.returncode == 125 and b"is of python" in other.stderr


def test_cells_run_as_root_on_groups(kept_by_root):
    code = Code(kept_by_root)
    code.value("x = 41")
    assert code.value("x + 1") == "42"
    done = code.cell("import time\ntime.sleep(60)", "--timeout", "500ms")
    assert done["error"]["type"] == "KeyboardInterrupt" and code.value("x") == "41"
