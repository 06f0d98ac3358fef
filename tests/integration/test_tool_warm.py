"""Calls in sandboxes that are there already: what a call leaves, the next one doesn't find."""
import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import time

import pytest

from conftest import build_directory, needs
from kept_sandbox import Kept, message, reply
from tool_serve import Server
from tool_sources import BAD, HOSTILE, NODE, PYTHON


def prepare(pinfold, language="python", reuse="fingerprint", options=(), **fields):
    request = {"language": language, "name": "f", "source": "", "reuse": reuse, **fields}
    done = pinfold.call([str(pinfold.program), "tool", "prepare", *options], input=json.dumps(request).encode())
    assert done.returncode == 0, done.stdout + done.stderr


def pool(pinfold):
    done = pinfold.call([str(pinfold.program), "pool", "show", "--json"])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def clear(pinfold):
    """Nothing more is started, what is being started behind an answer comes, and all of it goes."""
    pinfold.call([str(pinfold.program), "pool", "set", "--most", "0"])
    empty, end = 0, time.monotonic() + 60
    while empty < 5:
        assert time.monotonic() < end, pool(pinfold)
        done = pinfold.call([str(pinfold.program), "pool", "clear", "--json"])
        assert done.returncode == 0, done.stdout
        busy = json.loads(done.stdout)["sandboxes"] or any(g.name.isdigit() for g in pinfold.groups())
        empty = 0 if busy else empty + 1
        time.sleep(0.15)


@pytest.fixture
def warm(as_root):
    """A server, and one sandbox that waits."""
    as_root.call([str(as_root.program), "pool", "set", "--ahead", "1", "--json"])
    prepare(as_root)
    server = Server(as_root)
    server.pinfold = as_root
    yield server
    server.close()
    clear(as_root)


def test_calls_of_one_fingerprint_share_a_sandbox_and_no_process(warm):
    first, second = (warm.value("import os\ndef f(): return [os.getpid(), os.getppid(), os.stat('/tmp').st_dev]") for _ in range(2))
    assert first[0] != second[0] and first[1:] == second[1:] and first[1] == 2
    assert [place["kind"] for place in pool(warm.pinfold)["sandboxes"]] == ["warm"]


def test_every_python_tool_gives_the_same_warm(warm):
    for name, (source, args, expected) in PYTHON.items():
        got = warm.value(source, args)
        assert got == expected if not callable(expected) else expected(got), name


def test_every_tool_that_fails_says_the_same_warm(warm):
    for name, (source, args, kind, message, line) in BAD.items():
        answer = warm.call(source, args)
        fault = answer["result"]["func_return"]
        assert answer["exit_code"] != 0 and fault["type"] == kind and message in fault["message"], name
        assert line in (fault["traceback"] or "") and "pinfold" not in (fault["traceback"] or ""), name


def test_a_hostile_tool_ends_with_its_call(warm):
    for name, (source, _, _) in HOSTILE.items():
        answer = warm.call(source)
        assert answer["result"]["func_return"] != "forged", (name, answer)
        assert warm.value("import os\ndef f(): return [sorted(p for p in os.listdir('/proc') if p.isdigit() and int(p) > 2) == [str(os.getpid())], os.listdir('/tmp')]") == [True, []], name


# what one call does, and what the next one sees
POISON = {
    "a module": ("import sys, types\ndef f():\n  sys.modules['evil'] = types.ModuleType('evil')\n  sys.modules['json'].loads = None",
                 "import sys, json\ndef f(): return ['evil' in sys.modules, json.loads('1')]", [False, 1]),
    "monkeypatching": ("import builtins, os, json, asyncio\ndef f():\n  builtins.sum = lambda x: 7\n  os.getcwd = None\n  json.dumps = None\n  asyncio.run = None",
                       "import os, json, asyncio\nasync def f(): return [sum([]), os.getcwd() != '', json.dumps([])]", [0, True, "[]"]),
    "the runner's own module": ("import sys, gc\ndef f():\n  for o in gc.get_objects():\n    if type(o) is dict and 'crc_step' in o: o['loads'] = o['encode'] = o['crc_step'] = None",
                                "def f(): return 'sound'", "sound"),
    "the environment": ("import os\ndef f():\n  os.environ['EVIL'] = '1'\n  os.environ['PATH'] = '/tmp'\n  os.putenv('LD_PRELOAD', '/tmp/x.so')",
                        "import os, subprocess\ndef f(): return ['EVIL' in os.environ, os.environ['PATH'] != '/tmp', b'LD_PRELOAD' in subprocess.run(['env'], stdout=-1).stdout]",
                        [False, True, False]),
    "files in /tmp and /dev/shm": ("import os\ndef f():\n  for d in ('/tmp', '/dev/shm'):\n    open(d + '/json.py', 'w').write('x')\n    os.makedirs(d + '/a/b/c'); os.mkfifo(d + '/p')\n    os.symlink('/', d + '/root'); os.chmod(d + '/a', 0)",
                                   "import os\ndef f(): return [os.listdir('/tmp'), os.listdir('/dev/shm')]", [[], []]),
    "a deep tree": ("import os\ndef f():\n  os.chdir('/tmp')\n  for i in range(2000):\n    os.mkdir('d'); os.chdir('d')", "import os\ndef f(): return os.listdir('/tmp')", []),
    "many files": ("def f():\n  for i in range(5000): open('/tmp/%d' % i, 'w').close()", "import os\ndef f(): return os.listdir('/tmp')", []),
    "symbolic links out": ("import os\ndef f():\n  os.symlink('/proc/1/root', '/tmp/l'); os.symlink('/usr', '/tmp/u'); os.symlink('..', '/tmp/x')",
                           "import os\ndef f(): return [os.listdir('/tmp'), os.path.exists('/usr/bin/env')]", [[], True]),
    "threads": ("import threading, time\ndef f():\n  for i in range(5): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
                "import threading\ndef f(): return threading.active_count()", 1),
    "processes": ("import os, time\ndef f():\n  for i in range(5):\n    if os.fork() == 0:\n      os.setsid()\n      if os.fork() == 0: time.sleep(1000)\n      os._exit(0)",
                  "import os\ndef f(): return [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, 2, os.getpid())]", []),
    "all pids": ("import os, time\ndef f():\n  n = 0\n  try:\n    while True:\n      if os.fork() == 0: time.sleep(1000)\n      n += 1\n  except OSError: return n > 20",
                 "import subprocess\ndef f(): return subprocess.run(['echo', 'x'], stdout=-1, text=True).stdout", "x\n"),
    "signals to the zygote": ("import os, signal\ndef f():\n  got = set()\n  for pid in (2, -2, -1, 0):\n    for s in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM):\n      if pid: \n        try: os.kill(pid, s); got.add('sent %d' % pid)\n"
                              "        except PermissionError: pass\n  assert not got, got", "import os\ndef f(): return os.getppid()", 2),
    "signals by other doors": ("import ctypes, signal, os\ndef f():\n  c = ctypes.CDLL(None, use_errno=True)\n  got = [c.syscall(n, 2, 9, 0, 0) for n in (200, 62)] + [c.syscall(234, 2, 2, 9)] + [c.syscall(434, 2, 0)]\n"
                               "  r, w = os.pipe()\n  got += [c.fcntl(r, 8, 2), c.fcntl(r, 10, 9)]\n  assert got[-1] == -1 and set(got[:4]) == {-1}, got", "import os\ndef f(): return os.getppid()", 2),
    "the zygote's memory": ("import os\ndef f():\n  for n in ('mem', 'environ', 'maps', 'fd', 'cwd', 'root', 'exe', 'oom_score_adj', 'clear_refs'):\n    p = '/proc/2/' + n\n"
                            "    for do in (lambda: open(p, 'rb+'), lambda: os.listdir(p), lambda: os.readlink(p), lambda: open(p, 'w')):\n"
                            "      try: do()\n      except OSError: continue\n      raise AssertionError(p)", "import os\ndef f(): return os.getppid()", 2),
    "ptrace": ("import ctypes\ndef f():\n  c = ctypes.CDLL(None, use_errno=True)\n  assert c.ptrace(16, 2, 0, 0) == -1 and c.syscall(310, 2, 0, 0, 0, 0, 0) == -1 and c.syscall(311, 2, 0, 0, 0, 0, 0) == -1",
               "import os\ndef f(): return os.getppid()", 2),
    "the zygote's limits": ("import resource\ndef f():\n  for p in (1, 2):\n    for r in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_CPU, resource.RLIMIT_AS):\n      try: resource.prlimit(p, r, (1, 1))\n      except PermissionError: continue\n"
                            "      raise AssertionError((p, r))\n  resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))",
                            "import resource\ndef f(): return resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 10", True),
    "its own descriptors": ("import os\ndef f():\n  for n in range(3, 1024):\n    try: os.close(n)\n    except OSError: pass", "def f(): return 'sound'", "sound"),
    "umask, directory and signals": ("import os, signal\ndef f():\n  os.umask(0o777); os.chdir('/usr'); signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}); signal.signal(signal.SIGINT, signal.SIG_IGN); signal.alarm(1)",
                                     "import os, signal, time\ndef f():\n  m = os.umask(0); time.sleep(1.1); return [m, os.getcwd(), len(signal.pthread_sigmask(signal.SIG_BLOCK, ())), signal.getsignal(signal.SIGINT) is signal.default_int_handler]",
                                     [0o22, "/tmp", 0, True]),
    "queues and shared memory": ("import ctypes\ndef f():\n  c = ctypes.CDLL(None)\n  assert c.shmget(1, 4096, 0o1666) == c.semget(1, 1, 0o1666) == c.msgget(1, 0o1666) == -1", "def f(): return 1", 1),
    "a shared memory segment": ("from multiprocessing import shared_memory\ndef f(): shared_memory.SharedMemory('evil', True, 4096); return 1",
                                "import os\ndef f(): return os.listdir('/dev/shm')", []),
    "a socket in the abstract": ("import os, socket, time\ndef f():\n  s = socket.socket(socket.AF_UNIX); s.bind('\\0evil'); s.listen()\n  if os.fork() == 0: time.sleep(1000)\n  return 1",
                                 "import socket\ndef f():\n  s = socket.socket(socket.AF_UNIX)\n  try: s.connect('\\0evil')\n  except OSError: return 'nobody'", "nobody"),
    "what the interpreter keeps": ("import atexit, sys\ndef f():\n  sys.evil = []\n  atexit.register(sys.evil.append, 1)\n  sys.settrace(None); sys.setrecursionlimit(200)",
                          "import sys\ndef f(): return [hasattr(sys, 'evil'), sys.getrecursionlimit() > 900]", [False, True]),
    "hooks of imports": ("import sys\nclass Evil:\n  def find_spec(self, name, *_):\n    if name == 'colorsys': raise SystemExit('evil')\ndef f():\n  sys.meta_path.insert(0, Evil()); sys.path.insert(0, '/tmp'); sys.path_importer_cache.clear()",
                         "import sys\ndef f():\n  import colorsys\n  return [type(m).__name__ for m in sys.meta_path if type(m).__name__ == 'Evil'] + [p for p in sys.path if p == '/tmp']", []),
    "a watch of files": ("import ctypes, os\ndef f():\n  c = ctypes.CDLL(None)\n  fd = c.inotify_init1(0)\n  assert fd < 0 or c.inotify_add_watch(fd, b'/tmp', 0x100) >= 0\n  os.dup2(fd if fd >= 0 else 0, 77)",
                         "import os\ndef f(): return os.path.exists('/proc/self/fd/77')", False),
    "a method of the library": ("import json\ndef f(): json.JSONEncoder.default = lambda self, o: 'evil'",
                                "import json\ndef f():\n  try: return json.dumps(object())\n  except TypeError: return 'sound'", "sound"),
    "a crash": ("import ctypes\ndef f(): ctypes.string_at(0)", "def f(): return 'sound'", "sound"),
}


@pytest.mark.parametrize("name", POISON)
def test_a_call_cant_poison_the_next(warm, name):
    poison, probe, expected = POISON[name]
    clean = warm.value(probe)
    assert clean == expected, "the probe itself"
    answer = warm.call(poison)
    assert name in ("a crash", "its own descriptors") or answer["result"]["status"] == "success", answer
    assert warm.value(probe) == expected
    if name != "a deep tree":  # more than 32 levels: that sandbox ends
        assert len(pool(warm.pinfold)["sandboxes"]) == 1


# what of these a process can do to itself, and to what it shares with another: without a fork for each call, and what
# is removed after it, the next one would find it
REACHES = ["a module", "monkeypatching", "the runner's own module", "the environment", "files in /tmp and /dev/shm", "many files", "symbolic links out", "threads",
           "processes", "umask, directory and signals", "a shared memory segment", "a socket in the abstract", "the zygote's limits", "what the interpreter keeps",
           "hooks of imports", "a watch of files", "a method of the library"]


@pytest.mark.parametrize("name", REACHES)
def test_without_a_process_of_its_own_the_next_call_is_poisoned(as_root, name):
    """The control: both calls in one process."""
    poison, probe, expected = POISON[name]
    source = f"import asyncio, inspect\nA, B = {{}}, {{}}\nexec({poison!r}, A)\nexec({probe!r}, B)\ndef f():\n  A['f']()\n  got = B['f']()\n  return asyncio.run(got) if inspect.isawaitable(got) else got"
    request = {"language": "python", "name": "f", "source": source, "args": {}}
    done = as_root.call([str(as_root.program), "tool", "call"], input=json.dumps(request).encode())
    result = json.loads(done.stdout)
    assert result["status"] != "success" or result["func_return"] != expected, result


def test_without_the_shield_the_first_process_can_be_killed(as_root):
    """The same signal, to a process of the same number, in a sandbox whose filter is the policy's alone."""
    def run(*arguments):
        return as_root.call([str(as_root.program), *arguments])
    assert run("up", "plain", "--policy", as_root.policy()).returncode == 0
    assert run("exec", "plain", "--detach", "--", "sleep", "1000").returncode == 0
    done = run("exec", "plain", "--", "/usr/bin/python3", "-c", "import os\nassert open('/proc/2/comm').read() == 'sleep\\n'\nos.kill(2, 9)\nprint('sent')")
    assert done.stdout == b"sent\n", done.stderr
    assert run("rm", "--force", "plain").returncode == 0


def test_secrets_of_one_call_are_in_no_memory_of_the_next(warm):
    secret = "s3cret-" + os.urandom(8).hex()
    assert warm.value("def f(x): return len(x)", {"x": secret}) == len(secret)
    probe = ("def f(half, rest):\n  needle = (half + rest).encode()\n  seen = 0\n  for line in open('/proc/self/maps'):\n    a, b = (int(x, 16) for x in line.split()[0].split('-'))\n"
             "    if 'rw' in line.split()[1]:\n      try: m = open('/proc/self/mem', 'rb', 0); m.seek(a); seen += m.read(b - a).count(needle)\n      except (OSError, ValueError, OverflowError): pass\n  return seen")
    assert warm.value(probe, {"half": secret[:9], "rest": secret[9:]}) <= 1  # the needle itself


def test_a_pool_ends_one_whose_supervisor_is_stopped(warm):
    gone = os.pidfd_open(supervisor_of(warm.pinfold, pool(warm.pinfold)["sandboxes"][0]["name"]))
    signal.pidfd_send_signal(gone, signal.SIGSTOP)
    assert warm.pinfold.call([str(warm.pinfold.program), "pool", "clear"]).returncode == 0
    assert select.select([gone], [], [], 0)[0]
    os.close(gone)


def supervisor_of(pinfold, place):
    return json.loads(pinfold.call([str(pinfold.program), "show", place, "--json"]).stdout)["supervisor"]


@contextlib.contextmanager
def held(pinfold, place):
    """Frozen for as long as this lasts, as `cp` and `commit` do it."""
    with Kept(pinfold).connect(place) as holder:
        holder.sendall(message(verb="pause", hold=True))
        assert reply(holder)["ok"] == {}
        yield
        holder.sendall(message(verb="resume"))
        assert reply(holder)["ok"] == {}


def test_a_call_that_finds_its_sandbox_frozen_goes_elsewhere(warm):
    place, = (place["name"] for place in pool(warm.pinfold)["sandboxes"])
    supervisor = supervisor_of(warm.pinfold, place)
    warm.pinfold.call([str(warm.pinfold.program), "pool", "set", "--most", "1"])
    with held(warm.pinfold, place):
        assert warm.value("import os\ndef f(): return os.getppid()") != 2  # no fork of the zygote
        assert [(p["name"], p["state"]) for p in pool(warm.pinfold)["sandboxes"]] == [(place, "busy")]
    assert warm.value("import os\ndef f(): return os.getppid()") == 2
    assert supervisor_of(warm.pinfold, place) == supervisor


def test_what_ends_as_soon_as_it_is_started_is_not_started_for_ever(as_root):
    as_root.call([str(as_root.program), "pool", "set", "--ahead", "2", "--idle-timeout", "1ms"])
    request = json.dumps({"language": "python", "name": "f", "source": "", "reuse": "never"}).encode()
    done = as_root.call([str(as_root.program), "tool", "prepare"], input=request, timeout=60)
    assert done.returncode == 0 or b"has gone again" in done.stdout + done.stderr, done
    clear(as_root)


def test_a_timeout_ends_the_call_and_leaves_the_sandbox(warm):
    answer = warm.call("import time\ndef f(): time.sleep(100)", timeout=0.3)
    assert (answer["exit_code"], answer["result"]["status"]) == (124, "timeout")
    assert warm.value("import os\ndef f(): return os.getppid()") == 2
    assert len(pool(warm.pinfold)["sandboxes"]) == 1


def test_a_dead_zygote_is_replaced(warm):
    place = pool(warm.pinfold)["sandboxes"][0]["name"]
    shown = json.loads(warm.pinfold.call([str(warm.pinfold.program), "show", place, "--json"]).stdout)
    children = open(f"/proc/{shown['supervisor']}/task/{shown['supervisor']}/children").read().split()
    zygote = open(f"/proc/{children[0]}/task/{children[0]}/children").read().split()[0]
    gone = os.pidfd_open(int(zygote))
    signal.pidfd_send_signal(gone, signal.SIGKILL)
    assert select.select([gone], [], [], 60)[0]  # until then its fork may take a call, which dies with it
    os.close(gone)
    assert warm.value("def f(): return 1") == 1
    assert warm.value("def f(): return 2") == 2


def test_memory_that_runs_out_is_the_call_s_own_end(as_root):
    policy = as_root.policy(resources={"memory": "100MiB"})
    prepare(as_root, options=["--policy", policy])
    server = Server(as_root, "--policy", policy)
    answer = server.call("def f(): return len(bytearray(300 << 20))")
    assert answer["result"]["status"] == "memory" and answer["exit_code"] == 137, answer
    assert server.value("def f(): return 1") == 1
    server.close()
    clear(as_root)


def test_what_waits_with_the_runners_of_another_release_is_replaced(warm, programs, tmp_path):
    """An upgrade: the same programs but for the digest of the runners that one of them carries."""
    pinfold, digest = warm.pinfold, re.search(rb'_digest\[\] = "([0-9a-f]{64})"', (build_directory() / "generated/pin_tool_runners.c").read_bytes())[1]
    other = shutil.copytree(programs, tmp_path / "upgraded")
    carried = (other / "pinfold-tool").read_bytes()
    assert carried.count(digest) == 1
    (other / "pinfold-tool").write_bytes(carried.replace(digest, digest[::-1]))

    def names():
        return {place["name"].rsplit("-", 3)[0]: place["name"] for place in pool(pinfold)["sandboxes"]}

    def run(program, verb):
        request = {"language": "python", "name": "f", "source": "import os\ndef f(): return os.getppid()", "reuse": "fingerprint"}
        done = pinfold.call([str(program), "tool", verb], input=json.dumps(request).encode())
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)["func_return"] if verb == "call" else None
    before = names()
    run(other / "pinfold", "prepare")
    after = names()
    assert len(before) == len(after) == 1 and before.keys() == after.keys() and before != after
    assert run(other / "pinfold", "call") == 2 and names() == after  # by the new one's fork
    assert warm.value("def f(): return 1") == 1  # a server of the release before has nothing that waits, and answers


def test_other_variables_are_another_fingerprint(warm):
    source = "import os\ndef f(): return os.environ.get('A')"
    assert [warm.value(source, env={"call": {"A": a}}) for a in ("1", "2", "1")] == ["1", "2", "1"]


def test_never_is_a_sandbox_for_one_call(warm):
    prepare(warm.pinfold, reuse="never")
    source = "import os\ndef f():\n  seen = os.listdir('/tmp')\n  open('/tmp/x', 'w').close()\n  return [seen, open('/proc/1/stat').read().split()[21], os.environ.get('A')]"
    first = warm.value(source, reuse="never", env={"call": {"A": "1"}})
    prepare(warm.pinfold, reuse="never")
    second = warm.value(source, reuse="never", env={"call": {"A": "2"}})
    assert first[0] == second[0] == [] and first[1] != second[1] and (first[2], second[2]) == ("1", "2")


@needs("strace")
def test_what_a_call_of_its_own_sandbox_leaves_runs_no_further_than_its_answer(warm):
    """Its processes write as fast as they can. Nobody waits for them to be gone, but they have been killed: each can at most end the write that it was in.
    What would kill them a moment later, the end of the sandbox, comes only half a second behind the answer."""
    folder = warm.pinfold.home / "beats"
    folder.mkdir()
    folder.chmod(0o777)
    server = Server(warm.pinfold, "--workspace", str(folder))
    prepare(warm.pinfold, reuse="never", options=("--workspace", str(folder)))
    place, = (place["name"] for place in pool(warm.pinfold)["sandboxes"] if place["kind"] == "ahead")
    tracer = subprocess.Popen(["strace", "-o", "/dev/null", "-p", str(supervisor_of(warm.pinfold, place)), "-e", "trace=sendto", "-e", "inject=sendto:delay_exit=500000"],
                              stderr=subprocess.PIPE)
    assert b"attached" in tracer.stderr.readline()
    source = """import os
def f():
  for n in range(4):
    if os.fork() == 0:
      fd = os.open('/workspace/beats', os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
      os.write(1, b'%d' % n + b'y' * 30000 + b'\\n')
      while True: os.write(fd, b'%d' % n)
  seen = b''
  while len(set(seen)) < 4:
    seen = open('/workspace/beats', 'rb').read() if os.path.exists('/workspace/beats') else b''
  print('x' * 200000)
  return True"""
    answer = server.call(source, reuse="never")["result"]
    size = (folder / "beats").stat().st_size
    assert answer["func_return"] is True and not any("sandbox of its own" in note for note in answer["notes"]), answer
    said = "".join(answer["stdout"])  # long writes into one pipe come in pieces
    assert [said.count(sign) for sign in "0123yx"] == [1] * 4 + [4 * 30000, 200000]
    server.close()
    clear(warm.pinfold)  # returns when no group of a sandbox is there
    assert (folder / "beats").stat().st_size - size <= 4
    tracer.wait(60)
    tracer.stderr.close()


def test_a_variable_that_interpreters_read_when_they_start_needs_a_cold_call(warm):
    answer = warm.call("import sys\ndef f(): return sys.flags.optimize", reuse="never", env={"call": {"PYTHONOPTIMIZE": "2"}})
    assert answer["result"]["func_return"] == 2 and "PYTHONOPTIMIZE" in answer["result"]["notes"][-1]


def test_a_workspace_that_is_copied_needs_a_cold_call(as_root, tmp_path):
    (as_root.home / "w").mkdir()
    request = {"language": "python", "name": "f", "source": "def f(): return 1", "reuse": "fingerprint"}
    done = as_root.call([str(as_root.program), "tool", "call", "--workspace", f"{as_root.home}/w:cow"], input=json.dumps(request).encode())
    assert "copied on write" in json.loads(done.stdout)["notes"][-1]


@pytest.mark.skipif(shutil.which("node", path="/usr/bin:/usr/local/bin") is None, reason="the host has no node")
def test_javascript_tools_in_a_process_that_waited(warm):
    for name, (source, args, expected) in NODE.items():
        fields = {"json_schema": {"name": "f", "parameters": {"type": "object", "properties": {key: {} for key in args}}}}
        prepare(warm.pinfold, language="javascript", **fields)
        assert warm.value(source, args, language="javascript", **fields) == expected, name


HAS_NODE = shutil.which("node", path="/usr/bin:/usr/local/bin") is not None
TYPED = "export async function f<T extends number>(n: T): Promise<number> { return n + 1; }"


@pytest.mark.skipif(not HAS_NODE or shutil.which("esbuild", path="/usr/bin:/bin") is None, reason="the host has no node, or no esbuild")
def test_typescript_is_stripped_by_a_service_that_waited_and_is_gone_when_the_tool_runs(warm):
    fields = {"language": "typescript", "json_schema": {"parameters": {"type": "object", "properties": {"n": {}}}}}
    gone = """import fs from 'node:fs';
const names = (): string[] => fs.readdirSync('/proc').filter((p) => Number(p)).flatMap((p) => { try { return [fs.readFileSync(`/proc/${p}/comm`, 'utf8').trim()]; } catch { return []; } });
export async function f(n: number): Promise<boolean> { for (let i = 0; i < 500 && names().includes('esbuild'); i++) await new Promise((r) => setTimeout(r, 10)); return !names().includes('esbuild'); }"""
    for source, expected in [(TYPED, 2), (TYPED.replace("n + 1", "n + 2 /* \u00fc€😀 */"), 3), ("enum E { A = 7 }\nexport const f = (): E => E.A;", 7), (gone, True), ("export const f = () => '" + "x" * 300000 + "' as string;", "x" * 300000)]:
        prepare(warm.pinfold, **fields)
        answer = warm.call(source, {"n": 1}, **fields)["result"]
        assert (answer["func_return"], answer["notes"]) == (expected, []), answer
    prepare(warm.pinfold, **fields)
    fault = warm.call("export function f(n: number {", {"n": 1}, **fields)["result"]["func_return"]
    assert fault["type"] == "SyntaxError" and "<stdin>:1:28" in fault["message"], fault


@pytest.mark.skipif(not HAS_NODE, reason="the host has no node")
@pytest.mark.parametrize("service", ["echo nonsense; cat > /dev/null", "exit 1", "printf '\\377\\377\\377\\377'; cat > /dev/null", "printf '\\001\\0\\0\\0x\\005\\0\\0\\0\\001\\0\\0\\0\\006'; cat > /dev/null", "exec cat", ":"])
def test_an_esbuild_that_has_no_such_service_is_used_as_a_program(as_root, tmp_path, service):
    program = tmp_path / "work/esbuild"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncase $1 in\n--version) echo 9.9 ;;\n--service=9.9) {service} ;;\n*) exec sed 's/: number//g' ;;\nesac\n")
    program.chmod(0o755)
    policy = as_root.policy(environment={"set": {"PATH": "/workspace:/usr/bin:/bin"}})
    options = ["--policy", policy, "--workspace", f"{program.parent}:ro"]
    prepare(as_root, language="typescript", reuse="never", options=options)
    server = Server(as_root, *options)
    answer = server.call("export function f(): number { return 4; }", language="typescript", reuse="never")["result"]
    assert (answer["func_return"], answer["notes"]) == (4, []), answer
    server.close()
    clear(as_root)


@pytest.mark.skipif(not HAS_NODE, reason="the host has no node")
def test_what_two_kinds_of_calls_have_used_is_both_started_anew(warm):
    for language in ("python", "javascript"):
        prepare(warm.pinfold, language=language, reuse="never")
    before = {place["name"].rsplit("-", 1)[0] for place in pool(warm.pinfold)["sandboxes"] if place["kind"] == "ahead"}
    assert len(before) == 2
    for language, source in (("python", "def f(): return 1"), ("javascript", "const f = () => 1")):  # at once: both are missing one then
        warm.send({"id": language, "call": {"language": language, "name": "f", "source": source, "args": {}, "reuse": "never"}})
    assert all(warm.receive()["result"]["func_return"] == 1 for _ in range(2))
    end = time.monotonic() + 60
    while {place["name"].rsplit("-", 1)[0] for place in pool(warm.pinfold)["sandboxes"] if place["kind"] == "ahead" and place["state"] == "idle"} != before:
        assert time.monotonic() < end, pool(warm.pinfold)
        time.sleep(0.05)


def test_calls_at_the_same_time_never_wait_for_each_other(warm):
    for number in range(6):
        warm.send({"id": f"c{number}", "call": {"language": "python", "name": "f", "reuse": "fingerprint", "args": {"n": number},
                                                "source": "import time\ndef f(n):\n  time.sleep(0.5)\n  return n"}})
    answers = [warm.receive() for _ in range(6)]
    assert sorted((a["id"], a["result"]["func_return"]) for a in answers) == [(f"c{n}", n) for n in range(6)]


def test_the_lines_of_a_server(warm):
    for line, kind in [(b"{", "syntax"), (b"[]", "syntax"), (b'{"id": 1}', "invalid"), (b'{"id": [1], "call": {}}', "invalid"), (b'{"id": 1, "call": {}, "x": 1}', "invalid")]:
        warm.send(line)
        answer = warm.receive()
        assert (answer["exit_code"], answer["error"]["kind"]) == (125, kind)
    assert warm.call("def f(a): return a", {"b": 1}, json_schema={"properties": {"a": {"type": "integer"}}})["error"]["pointer"] == "/args/b"
    warm.send({"id": "long", "call": {"language": "python", "name": "f", "reuse": "fingerprint", "source": "import time\ndef f(): time.sleep(100)"}})
    time.sleep(0.2)
    warm.send({"cancel": "long"})
    assert warm.receive() == {"id": "long", "exit_code": 143, "cancelled": True}
    assert warm.value("def f(): return 'x' * 3000000") == "x" * 3000000


def test_where_there_is_no_cgroup_calls_are_cold(pinfold):
    request = {"language": "python", "name": "f", "source": "def f(): return 1", "reuse": "fingerprint"}
    options = ["--policy", pinfold.policy()]
    done = pinfold.call([str(pinfold.program), "tool", "prepare", *options], input=json.dumps(request).encode())
    assert done.returncode == (125 if pinfold.rootless and not pinfold.groups() else 0), done.stdout
    done = pinfold.call([str(pinfold.program), "tool", "call", *options], input=json.dumps(request).encode())
    assert json.loads(done.stdout)["func_return"] == 1
    clear(pinfold)


def test_the_pool_has_bounds(as_root):
    as_root.call([str(as_root.program), "pool", "set", "--most", "2", "--ahead", "1"])
    for a in "123":
        prepare(as_root, env={"call": {"A": a}})
    assert len(pool(as_root)["sandboxes"]) == 2  # the longest unused went
    as_root.call([str(as_root.program), "pool", "set", "--memory", "1", "--ahead", "2"])
    done = as_root.call([str(as_root.program), "tool", "prepare"], input=json.dumps({"language": "python", "name": "f", "source": "", "reuse": "never"}).encode())
    assert done.returncode == 125 and "bounds" in json.loads(done.stdout)["error"]["message"]
    assert [place["kind"] for place in pool(as_root)["sandboxes"]] == ["ahead"]
    clear(as_root)
