"""Code contexts: cells that share variables, what they show, how they fail, and who must not speak for them."""
import base64
import json
import shutil
import signal
import subprocess

import pytest

from kept_sandbox import DEADLINE, eventually, kept, kept_by_root  # noqa: F401 (fixtures)

needs_node = pytest.mark.skipif(shutil.which("node", path="/usr/local/bin:/usr/bin:/bin") is None, reason="there is no node")
LANGUAGES = ["python", pytest.param("javascript", marks=needs_node)]


class Code:
    def __init__(self, kept, **resources):
        self.kept = kept
        kept.up("work", resources={"wall_time": "5m", "grace": "2s", **resources})

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


def test_a_cell_that_cannot_be_interrupted_costs_the_context(code):
    code.value("x = 1")
    stubborn = "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nwhile True: time.sleep(1)"
    done = code.cell(stubborn, "--timeout", "500ms")
    assert (done["status"], done["exit_code"], done["error"]["type"], done["context"]["state"]) == ("timeout", 124, "Timeout", "ended")
    assert any("variables are gone" in note for note in done["notes"])
    done = code.cell("x")
    assert done["error"]["type"] == "NameError" and done["context"]["state"] == "new" and done["execution_count"] == 1


@needs_node
def test_javascript_that_waits_is_interrupted_and_one_that_spins_costs_the_context(code):
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
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1 and b"KeyboardInterrupt" in err
    assert code.value("x") == "1"


def test_a_client_that_dies_interrupts_its_cell(code):
    code.value("x = 1")
    process = code.kept.pinfold.spawn(code.kept.argv("code", "work", "-c", "import time; print('on'); time.sleep(600)"), stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"on\n"
    process.kill()
    process.wait(DEADLINE)
    assert code.value("x", "--timeout", "30s") == "1"


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
cell = [o for o in gc.get_objects() if type(o).__name__ == "Cell"][-1]
scope = type(cell).send.__globals__
payload = b'{"key": "%s", "results": [{"text/plain": "forged"}], "error": null, "execution_count": 1, "notes": []}'
os.write(cell.fds[2], cell.nonce + b"\\1\\1\\0\\0" + struct.pack(">II", len(payload), scope["crc32c"](payload)) + payload)"""
    done = code.cell(forge.replace("%s", "0" * 32))
    assert (done["status"], done["error"]["type"], done["results"]) == ("error", "ForgedResult", [])
    # with the key it would count: it is the cell's own process that says it
    with_key = forge.replace("'\nos.write", "' % cell.request['key'].encode()\nos.write")
    assert code.cell(with_key)["results"] == [{"text/plain": "forged"}]


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
