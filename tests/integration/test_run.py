"""pinfold run: the contracts of the command line, as a caller sees them."""
import base64
import json
import os
import re
import resource
import signal
import subprocess
import time

import pytest

with open("/proc/self/status", encoding="ascii") as status:
    HAS_SYS_RESOURCE = bool(int(next(line for line in status if line.startswith("CapEff"))[7:], 16) >> 24 & 1)

RESULT_KEYS = ["status", "exit_code", "signal", "stdout", "stderr", "encoding", "truncated", "result", "frames", "usage",
               "missing", "sandbox", "fingerprint", "labels"]


def test_output_and_exit_code_pass_through(pinfold):
    done = pinfold.run("sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


@pytest.mark.parametrize("command, code", [
    (["true"], 0), (["false"], 1), (["sh", "-c", "exit 255"], 255), (["sh", "-c", "kill -TERM $$"], 128 + 15),
    (["sh", "-c", "kill -KILL $$"], 128 + 9), (["/etc/passwd"], 126), (["no-such-program"], 127), (["/no/such"], 127)])
def test_exit_codes_are_the_contract(pinfold, command, code):
    assert pinfold.run(*command).returncode == code


def test_json_has_exactly_the_documented_keys_in_their_order(pinfold):
    result = pinfold.json("sh", "-c", "echo hello")
    assert list(result) == RESULT_KEYS
    assert result["status"] == "success" and result["stdout"] == "hello\n" and result["encoding"] == "utf-8"
    assert list(result["usage"]) == ["wall_ms", "cpu_ms", "memory_peak_bytes", "pids_peak", "egress"]
    assert result["fingerprint"].startswith("sha256:") and len(result["fingerprint"]) == 71


def test_output_that_is_not_utf8_comes_as_base64_and_is_said_to(pinfold):
    result = pinfold.json("printf", r"\377\000x")
    assert result["encoding"] == "base64"
    assert base64.b64decode(result["stdout"]) == b"\xff\x00x"


def test_stream_tells_the_same_facts_while_they_happen(each_io):
    done = each_io.run("sh", "-c", "echo one; echo two >&2; exit 3", options=["--stream"])
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 3
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    assert "".join(e["data"] for e in events if e["type"] == "stdout") == "one\n"
    assert "".join(e["data"] for e in events if e["type"] == "stderr") == "two\n"
    assert events[-1]["type"] == "exit" and events[-1]["exit_code"] == 3


def test_standard_input_is_empty_a_file_or_the_callers(each_io, tmp_path):
    text = tmp_path / "text"
    text.write_bytes(b"from a file")
    assert each_io.run("cat").stdout == b""
    assert each_io.run("cat", options=["--stdin", str(text)]).stdout == b"from a file"
    assert each_io.run("cat", options=["--stdin", "-"], input=b"x" * 300000).stdout == b"x" * 300000


def test_a_command_that_never_reads_its_input_does_not_hang_the_run(each_io):
    done = each_io.run("sh", "-c", "exec <&-; echo done", options=["--stdin", "-"], input=b"y" * 4000000)
    assert done.stdout == b"done\n"


def test_an_input_that_can_not_be_read_is_no_end_of_it(each_io):
    """Half of a script is none. The controls: the file's end, and an input that isn't open for reading, as nohup(1) leaves it."""
    with open("/proc/self/mem", "rb") as broken, open("/dev/null", "rb") as ended, open("/dev/null", "wb") as closed:
        argv = each_io.argv("sh", "-c", "cat; echo end", options=["--stdin", "-"])
        lost, *whole = [subprocess.run(argv, stdin=file, capture_output=True, env=each_io.environment()) for file in (broken, ended, closed)]
    assert lost.returncode == 125 and b"end" not in lost.stdout and b"read the command's input: " in lost.stderr and b"(EIO)" in lost.stderr, lost
    assert [(one.returncode, one.stdout) for one in whole] == [(0, b"end\n")] * 2


def test_the_environment_is_the_policys_and_the_requests_alone(pinfold):
    env = pinfold.environment(SECRET_TOKEN="host-secret", LD_PRELOAD="")
    result = pinfold.call(pinfold.argv("env", options=["--env", "MINE=1"]), env=env)
    names = dict(line.split("=", 1) for line in result.stdout.decode().splitlines())
    assert names["MINE"] == "1" and "SECRET_TOKEN" not in names and "PINFOLD_STATE" not in names


def test_a_refused_name_of_the_environment_is_refused_whole(pinfold):
    done = pinfold.run("true", options=["--env", "LD_PRELOAD=/tmp/x.so"])
    assert done.returncode == 125 and b"LD_PRELOAD" in done.stderr


def test_a_read_write_workspace_holds_files_that_belong_to_the_caller(pinfold, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    os.chown(work, pinfold.uid, pinfold.uid)
    (work / "in").write_text("before")
    os.chown(work / "in", pinfold.uid, pinfold.uid)
    done = pinfold.run("sh", "-c", "pwd; cat in; echo after >out; echo more >>in", options=["--workspace", str(work)])
    assert (done.returncode, done.stdout) == (0, b"/workspace\nbefore"), done.stderr
    assert (work / "out").read_text() == "after\n" and (work / "in").read_text() == "beforemore\n"
    assert (work / "out").stat().st_uid == pinfold.uid


def test_a_workspace_that_a_bundle_is_given_at_its_run_can_be_written(pinfold, tmp_path):
    work, bundle = tmp_path / "work", tmp_path / "bundle"
    work.mkdir()
    for path in (tmp_path, work):
        os.chown(path, pinfold.uid, pinfold.uid)
    policy, command = pinfold.policy(), ["--", "sh", "-c", "echo made >/workspace/out"]
    assert pinfold.call([str(pinfold.program), "bundle", "export", "--policy", policy, str(bundle), *command]).returncode == 0
    argv = [str(pinfold.program), "run", "--policy", policy, "--bundle", str(bundle), "--workspace"]
    done = pinfold.call([*argv, str(work)])
    assert done.returncode == 0, done.stderr
    assert (work / "out").read_text() == "made\n"
    assert pinfold.call([*argv, f"{work}:ro"]).returncode != 0


def test_a_file_of_the_workspace_never_gets_a_set_id_bit(pinfold, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    os.chown(work, pinfold.uid, pinfold.uid)
    source = ("import os\n"
              "def attempt(f):\n"
              "    try: f()\n"
              "    except OSError as e: print(e.errno)\n"
              "open('a','w').close()\n"
              "attempt(lambda: os.chmod('a', 0o4755))\n"
              "attempt(lambda: os.open('b', os.O_CREAT | os.O_WRONLY, 0o4755))\n"
              "attempt(lambda: os.mknod('c', 0o104755))\n")
    pinfold.run("/usr/bin/python3", "-c", source, options=["--workspace", str(work)])
    assert (work / "a").exists()
    assert not any(f.stat().st_mode & 0o6000 for f in work.iterdir())


def test_a_read_only_workspace_cant_be_written(pinfold, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    os.chown(work, pinfold.uid, pinfold.uid)
    done = pinfold.run("touch", "planted", options=["--workspace", f"{work}:ro"])
    assert done.returncode != 0 and not list(work.iterdir())


def changed(result):
    return {c["path"]: c["change"] for c in result["changes"]["list"]}


COW_SCRIPT = "echo new >added; echo x >>kept; rm gone; mkdir d; echo y >d/inner"


@pytest.fixture
def cow(pinfold, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    for name in ("kept", "gone"):
        (work / name).write_text("1\n")
    for path in (work, work / "kept", work / "gone"):
        os.chown(path, pinfold.uid, pinfold.uid)
    return work


def test_a_copy_on_write_workspace_lists_its_changes_and_discards_them(pinfold, cow):
    result = pinfold.json("sh", "-c", COW_SCRIPT, options=["--workspace", f"{cow}:cow"])
    assert result["exit_code"] == 0, result
    assert changed(result) == {"added": "added", "kept": "modified", "gone": "removed", "d": "added", "d/inner": "added"}
    assert sorted(p.name for p in cow.iterdir()) == ["gone", "kept"] and (cow / "kept").read_text() == "1\n"


def test_a_copy_on_write_workspace_can_be_merged(pinfold, cow):
    pinfold.json("sh", "-c", COW_SCRIPT, options=["--workspace", f"{cow}:cow", "--on-exit", "merge"])
    assert sorted(p.name for p in cow.iterdir()) == ["added", "d", "kept"]
    assert (cow / "kept").read_text() == "1\nx\n" and (cow / "d/inner").read_text() == "y\n"
    assert (cow / "added").stat().st_uid == pinfold.uid


def test_a_copy_on_write_workspace_can_be_kept_beside(pinfold, cow):
    result = pinfold.json("sh", "-c", COW_SCRIPT, options=["--workspace", f"{cow}:cow", "--on-exit", "keep"])
    kept = result["changes"]["kept"]
    assert sorted(os.listdir(kept)) == ["added", "d", "kept"]
    assert sorted(p.name for p in cow.iterdir()) == ["gone", "kept"]


def test_what_is_not_merged_is_told_on_a_terminal_as_well(pinfold, cow):
    """The list names a pipe as added; that it stays out is said, and not left to be found out."""
    done = pinfold.run("sh", "-c", "mkfifo pipe; echo x > file", options=["--workspace", f"{cow}:cow", "--on-exit", "merge"])
    assert done.stderr == b"A file\nA pipe\nleft out: 1 (sockets, pipes and devices)\n", done
    assert (cow / "file").exists() and not (cow / "pipe").exists()


def test_a_copy_on_write_workspace_has_a_size(pinfold, cow):
    policy = pinfold.policy(filesystem={"workspace": {"access": "read-write", "size": "4MiB"}})
    result = pinfold.json("dd", "if=/dev/zero", "of=big", "bs=1M", "count=8", policy=policy, options=["--workspace", f"{cow}:cow"])
    assert result["exit_code"] == 1 and "No space left" in result["stderr"]


DEEP = "i=0; while [ $i -lt 230 ]; do mkdir d && cd d || exit 9; i=$((i + 1)); done; echo output; echo more >&2; exit $1"


@pytest.mark.parametrize("on_exit", ["discard", "keep", "merge"])
def test_changes_beyond_the_limits_cost_nobody_the_result(pinfold, cow, on_exit):
    """What the command printed is given; that its changes can't be listed is an error beside it."""
    options = ["--workspace", f"{cow}:cow", "--on-exit", on_exit]
    result = pinfold.json("sh", "-c", DEEP, "sh", "0", options=options)
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("output\n", "more\n", 125)
    assert "deep" in result["error"]["message"] and "changes" not in result
    passed = pinfold.run("sh", "-c", DEEP, "sh", "7", options=options)
    assert (passed.returncode, passed.stdout) == (7, b"output\n") and b"deep" in passed.stderr
    stream = pinfold.run("sh", "-c", DEEP, "sh", "0", options=[*options, "--stream"])
    last = json.loads(stream.stdout.splitlines()[-1])
    assert last["exit_code"] == 125 and "deep" in last["error"]["message"] and b"output" in stream.stdout
    assert sorted(p.name for p in cow.iterdir()) == ["gone", "kept"]


def test_the_size_of_a_workspace_is_that_of_its_copy_on_write(pinfold, cow):
    """A read-write one is the host's own directory, which is held to no size: the same policy serves both."""
    policy = pinfold.policy(filesystem={"workspace": {"access": "read-write", "size": "4MiB"}})
    write = ("sh", "-c", "head -c 8M /dev/zero >/workspace/large && rm /workspace/large")
    assert pinfold.run(*write, policy=policy, options=["--workspace", str(cow)]).returncode == 0
    done = pinfold.run(*write, policy=policy, options=["--workspace", f"{cow}:cow"])
    assert done.returncode != 0 and b"No space left" in done.stderr


def test_more_files_than_the_caller_itself_may_open_are_refused(pinfold):
    """Not lowered in silence. (Root raises them where it has CAP_SYS_RESOURCE.)"""
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
    done = pinfold.run("sh", "-c", "ulimit -Hn", preexec_fn=few)
    if pinfold.rootless or not HAS_SYS_RESOURCE:
        assert done.returncode == 125 and b"hard limit is 200" in done.stderr and b"/resources/files" in done.stderr
    else:
        assert (done.returncode, done.stdout) == (0, b"1024\n")
    lower = pinfold.policy(resources={"files": 150})
    assert pinfold.run("sh", "-c", "ulimit -Hn", policy=lower, preexec_fn=few).stdout == b"150\n"


def test_a_workspace_that_is_a_symbolic_link_is_refused(pinfold, tmp_path):
    work, link = tmp_path / "work", tmp_path / "link"
    work.mkdir()
    link.symlink_to(work)
    for spelling in (link, f"{link}/", f"{link}/."):
        done = pinfold.run("true", options=["--workspace", str(spelling)])
        assert done.returncode == 125 and b"symbolic link" in done.stderr


@pytest.mark.parametrize("mode", ["", ":ro", ":cow"])
def test_a_workspace_that_is_no_directory_is_refused(pinfold, tmp_path, mode):
    file = tmp_path / "file"
    file.write_text("not shown")
    os.chown(file, pinfold.uid, pinfold.uid)
    for source in (file, "/dev/null"):
        done = pinfold.run("true", options=["--workspace", f"{source}{mode}"])
        assert done.returncode == 125 and f"'{source}' is not a directory".encode() in done.stderr, done.stderr


def test_a_limit_of_one_process_is_inits_own_and_the_refusal_says_so(as_root):
    done = as_root.run("true", options=["--pids", "1"])
    assert done.returncode == 125 and b"resources.pids" in done.stderr, done.stderr
    assert as_root.run("true", options=["--pids", "2"]).returncode == 0


def test_a_workspace_above_pinfolds_own_state_is_refused(pinfold):
    done = pinfold.run("true", options=["--workspace", str(pinfold.home)])
    assert done.returncode == 125 and b"own state" in done.stderr


def test_a_run_over_its_time_ends_with_124(each_io):
    start = time.monotonic()
    result = each_io.json("sleep", "60", options=["--timeout", "300ms"])
    assert result["status"] == "timeout" and result["exit_code"] == 124
    assert time.monotonic() - start < 25


def test_a_tree_that_ignores_signals_is_dead_after_the_grace(each_io):
    policy = each_io.policy(resources={"grace": "200ms"})
    script = "trap '' TERM; for i in 1 2 3 4 5; do setsid sleep 60 & done; echo on; while :; do sleep 60; done"
    start = time.monotonic()
    result = each_io.json("sh", "-c", script, policy=policy, options=["--timeout", "2s"])  # enough to begin beside much else
    assert result["status"] == "timeout" and "on\n" in result["stdout"]
    assert time.monotonic() - start < 25


def test_a_grandchild_that_holds_the_output_open_does_not_hang_the_run(each_io):
    start = time.monotonic()
    done = each_io.run("sh", "-c", "(setsid sleep 300 &) ; echo done")
    assert done.stdout == b"done\n" and time.monotonic() - start < 25


def test_output_beyond_the_cap_is_cut_and_said_to_be(each_io):
    policy = each_io.policy(resources={"stdout": "64KiB"})
    result = each_io.json("head", "-c", "1000000", "/dev/zero", policy=policy)
    assert result["truncated"] == {"stdout": True, "stderr": False} and result["exit_code"] == 0
    assert len(result["stdout"]) == 65536 and result["status"] == "success"


def test_output_beyond_the_cap_kills_where_the_policy_says_so(each_io):
    policy = each_io.policy(resources={"stdout": "64KiB", "on_output_cap": "kill"})
    result = each_io.json("yes", policy=policy)
    assert result["status"] == "output" and result["truncated"]["stdout"]


def test_a_letta_frame_becomes_the_result_and_the_text_around_it_stays(each_io):
    done = each_io.json("/usr/bin/python3", "summarise.py", "climate.csv",
                        options=["--workspace", f"{os.getcwd()}/examples/csv-summary:ro"])
    assert done["stdout"] == "reading climate.csv\ndone\n"
    assert done["result"]["results"]["rows"] == 12 and done["frames"][0]["kind"] == "result"


def test_a_request_beyond_the_policy_is_refused_whole_with_every_field_named(pinfold):
    done = pinfold.run("true", options=["--json", "--memory", "900GiB", "--pids", "100000", "--timeout", "100h"])
    error = json.loads(done.stdout)["error"]
    text = json.dumps(error)
    assert done.returncode == 125
    assert "/resources/memory" in text and "/resources/pids" in text and "/resources/wall_time" in text


def test_an_error_is_one_line_with_place_and_mend(pinfold):
    policy = pinfold.policy(resources={"memroy": "1GiB"})
    done = pinfold.run("true", policy=policy)
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 125 and len(lines) == 1
    assert "memroy" in lines[0] and "/resources/memroy" in lines[0] and "memory" in lines[0].split("memroy")[-1]


@pytest.mark.parametrize("options", [["--no-such"], ["--memory", "lots"], ["--memory"], ["--env", "X"], ["--on-exit", "merge"],
                                     ["--workspace", ":ro"], ["--frames", "everywhere"], ["--tty=yes"]])
def test_a_wrong_command_line_is_refused_with_125(pinfold, options):
    done = pinfold.run("true", options=options)
    assert done.returncode == 125 and len(done.stderr.splitlines()) == 1


def test_egress_and_secrets_are_refused_and_never_ignored(pinfold):
    for options in (["--egress", "example.com:443"], ["--secret", "TOKEN"]):
        done = pinfold.run("true", options=options)
        assert done.returncode == 125 and done.stderr


def test_a_signal_for_pinfold_ends_the_run_with_its_tree(each_io):
    process = each_io.spawn(each_io.argv("sh", "-c", "echo on; sleep 100"), stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"on\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 128 + 15


def test_labels_come_back_in_the_result(pinfold):
    result = pinfold.json("true", options=["--label", "tenant=a", "--label", "run=7"])
    assert result["labels"] == {"tenant": "a", "run": "7"}


def test_standard_descriptors_that_the_caller_closed_stay_harmless(as_root):
    argv = as_root.argv("sh", "-c", "ls /proc/self/fd | wc -l; echo err >&2")
    done = as_root.call(["sh", "-c", 'exec "$@" <&- 2>&-', "sh", *argv])
    assert done.returncode == 0 and done.stdout.strip().isdigit()


def test_the_plan_of_a_run_is_printed_and_nothing_is_built(pinfold):
    policy = pinfold.policy()
    done = pinfold.call([str(pinfold.program), "plan", "--json", "--policy", policy, "--", "true"])
    plan = json.loads(done.stdout)
    assert plan["namespaces"] == ["user", "mount", "pid", "network", "ipc", "uts", "cgroup", "time"]
    assert plan["steps"][-1] == "seccomp" and plan["capabilities"]["bounding"] == "0x0"
    assert plan["seccomp"]["allowed_calls"] <= 150


def test_make_builds_under_the_policy_build(pinfold, tmp_path):
    """It starts its commands by posix_spawn with its own ids set again, which is a system call."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "Makefile").write_text("all: a b\na b:\n\t@echo built $@\n")
    os.chown(work, pinfold.uid, pinfold.uid)
    done = pinfold.run("make", "-j2", policy=pinfold.policy(extends=["build"]), options=["--workspace", f"{work}:ro"])
    assert sorted(done.stdout.split(b"\n")) == [b"", b"built a", b"built b"], done.stderr


EXAMPLES = [
    (["--stdin", "{e}/shell-pipeline/text.txt", "--workspace", "{e}/shell-pipeline:ro"], ["sh", "words.sh"], "the"),
    (["--workspace", "{e}/c-program:ro"], ["sh", "build-and-run.sh", "1000"], "168 primes below 1000"),
    (["--workspace", "{e}/node-script:ro"], ["node", "outline.js", "page.md"], '"title":"Pinfolds"'),
    (["--workspace", "{e}/csv-summary:ro"], ["/usr/bin/python3", "summarise.py", "climate.csv"], "reading climate.csv"),
]


@pytest.mark.parametrize("options, command, expected", EXAMPLES, ids=["shell", "c", "node", "python"])
def test_the_examples_run(pinfold, options, command, expected):
    folder = f"{os.getcwd()}/examples"
    policy = pinfold.policy(extends=["build"]) if command[0] == "sh" else pinfold.policy()
    result = pinfold.json(*command, policy=policy, options=[o.replace("{e}", folder) for o in options])
    assert result["status"] == "success", result
    assert expected in result["stdout"]


def test_every_verb_has_a_page_and_a_completion(as_root, tmp_path):
    def lines(*arguments):
        return subprocess.run([as_root.program, *arguments], capture_output=True, text=True).stdout

    def verbs_of(*words):
        listed = lines(*words, "--help").split("verbs:\n")[1].split("\n\n")[0]
        return [re.split("  +", line.strip())[0] for line in listed.splitlines()]

    completion = lines("completion")
    families = {name for name in verbs_of() if "verbs:\n" in lines(name, "--help")}
    names = [name for name in verbs_of() if name not in families]
    names += [f"{family} {name}" for family in sorted(families) for name in verbs_of(family)]
    assert len(names) > 40
    for name in names:
        assert f"['{name}']='--help" in completion, name
        page = lines("man", *name.split())
        assert page.startswith(f".TH pinfold-{name.replace(' ', '-')} 1\n") and ".SH EXIT STATUS" in page, name
    for family in [*families, "bundle"]:  # "bundle" is a family of the program that all the others are links of
        page = lines("man", family)
        assert page.startswith(f".TH pinfold-{family} 1\n") and f".B {verbs_of(family)[0]}\n" in page, family
    assert lines("man", "pinfold").startswith(".TH pinfold 1\n")
    assert subprocess.run(["bash", "-n"], input=completion, text=True).returncode == 0
