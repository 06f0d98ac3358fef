"""Tools as people write them: source, arguments and what comes back; the function is always f."""
import textwrap


def tool(source, expected, **args):
    return textwrap.dedent(source).strip() + "\n", args, expected


PYTHON = {
    "zeros in keys and values": tool("def f(): return {'a\\0b': 'c\\0d'}", {"a\\0b": "c\0d"}),
    "a byte order mark": tool("\ufeffdef f(): return 1", 1),
    "csv": tool("""
        import csv, io
        def f(text):
            return list(csv.DictReader(io.StringIO(text)))
        """, [{"a": "1", "b": "x,y"}], text='a,b\n1,"x,y"\n'),
    "sqlite3": tool("""
        import sqlite3
        def f(rows):
            db = sqlite3.connect(":memory:")
            db.execute("create table t (n int, s text)")
            db.executemany("insert into t values (?, ?)", rows)
            return db.execute("select s, sum(n) from t group by s order by s").fetchall()
        """, [["a", 4], ["b", 2]], rows=[[1, "a"], [2, "b"], [3, "a"]]),
    "sqlite3 on disk": tool("""
        import sqlite3
        def f():
            with sqlite3.connect("/tmp/x.db") as db:
                db.execute("create table t (n)")
            return sqlite3.connect("/tmp/x.db").execute("select count(*) from t").fetchone()[0]
        """, 0),
    "json": tool("import json\ndef f(text): return json.loads(text)['a']", {"b": [None, True, 1.5]}, text='{"a": {"b": [null, true, 1.5]}}'),
    "asyncio": tool("""
        import asyncio
        async def one(n):
            await asyncio.sleep(0.01)
            return n * n
        async def f(numbers):
            return await asyncio.gather(*map(one, numbers))
        """, [1, 4, 9], numbers=[1, 2, 3]),
    "asyncio subprocess": tool("""
        import asyncio
        async def f():
            child = await asyncio.create_subprocess_exec("echo", "hi", stdout=asyncio.subprocess.PIPE)
            return (await child.communicate())[0].decode()
        """, "hi\n"),
    "a function that returns a coroutine": tool("""
        async def inner(): return 5
        def f(): return inner()
        """, 5),
    "multiprocessing": tool("""
        import multiprocessing
        def square(n): return n * n
        def f(n):
            with multiprocessing.Pool(2) as pool:
                return pool.map(square, range(n))
        """, [0, 1, 4, 9], n=4),
    "process pool": tool("""
        from concurrent.futures import ProcessPoolExecutor
        def double(n): return 2 * n
        def f():
            with ProcessPoolExecutor(2) as pool:
                return sum(pool.map(double, [1, 2, 3]))
        """, 12),
    "subprocess": tool("import subprocess\ndef f(a): return subprocess.run(['sort'], input=a, text=True, stdout=-1).stdout", "a\nb\n", a="b\na\n"),
    "shell pipeline": tool("import os\ndef f(): return os.popen('seq 5 | tail -1').read()", "5\n"),
    "dataclass out": tool("""
        from dataclasses import dataclass, field
        @dataclass
        class P:
            x: int
            tags: list = field(default_factory=list)
        def f(): return [P(1), P(2, ["a"])]
        """, [{"x": 1, "tags": []}, {"x": 2, "tags": ["a"]}]),
    "dataclass in": tool("""
        from __future__ import annotations
        from dataclasses import dataclass
        from typing import List, Optional
        @dataclass
        class P:
            x: int
        @dataclass
        class Line:
            ends: List[P]
            label: Optional[str] = None
        def f(line: Line, more: Optional[P] = None): return line.ends[1].x + more.x
        """, 9, line={"ends": [{"x": 1}, {"x": 2}]}, more={"x": 7}),
    "a model like pydantic's": tool("""
        class M:
            model_fields = {"n": int}
            def __init__(self, n): self.n = n
            @classmethod
            def model_validate(cls, v): return cls(int(v["n"]))
            def model_dump(self): return {"n": self.n}
        def f(m: M) -> M: return M(m.n + 1)
        """, {"n": 4}, m={"n": "3"}),
    "enum": tool("""
        import enum
        class Colour(enum.Enum):
            RED = "red"
        def f(c: Colour): return [c is Colour.RED, c]
        """, [True, "red"], c="red"),
    "decimal": tool("from decimal import Decimal\ndef f(a, b): return str(Decimal(a) + Decimal(b))", "0.3", a="0.1", b="0.2"),
    "decimal as it is": tool("from decimal import Decimal\ndef f(): return {'sum': Decimal('1.10')}", {"sum": "1.10"}),
    "fractions": tool("from fractions import Fraction\ndef f(): return [Fraction(1, 3)]", ["1/3"]),
    "datetime": tool("import datetime as d\ndef f(t): return d.datetime.fromisoformat(t) + d.timedelta(days=1)", "2024-02-29T10:00:00", t="2024-02-28T10:00:00"),
    "zoneinfo": tool("""
        from datetime import datetime
        from zoneinfo import ZoneInfo
        def f(zone): return datetime(2024, 7, 1, tzinfo=ZoneInfo(zone)).utcoffset().total_seconds()
        """, 7200, zone="Europe/Vienna"),
    "statistics": tool("import statistics\ndef f(xs): return [statistics.median(xs), round(statistics.stdev(xs), 3)]", [2, 1.0], xs=[1, 2, 3]),
    "math": tool("import math\ndef f(n): return math.comb(n, 2) + math.isqrt(n)", 48, n=10),
    "random": tool("import random\ndef f(seed): return random.Random(seed).randint(1, 6) in range(1, 7)", True, seed=4),
    "re": tool("import re\ndef f(t): return re.findall(r'(\\w+)@(\\w+)', t)", [["a", "b"], ["c", "d"]], t="a@b, c@d"),
    "html": tool("""
        from html.parser import HTMLParser
        class Links(HTMLParser):
            def __init__(self):
                super().__init__(); self.found = []
            def handle_starttag(self, tag, attrs):
                if tag == "a": self.found.append(dict(attrs).get("href"))
        def f(page):
            p = Links(); p.feed(page); return p.found
        """, ["/x", None], page="<a href='/x'>x</a><a>y"),
    "xml": tool("import xml.etree.ElementTree as t\ndef f(x): return {e.tag: e.text for e in t.fromstring(x)}", {"a": "1"}, x="<r><a>1</a></r>"),
    "zipfile": tool("""
        import io, zipfile
        def f(names):
            b = io.BytesIO()
            with zipfile.ZipFile(b, "w", zipfile.ZIP_DEFLATED) as z:
                for n in names: z.writestr(n, n * 100)
            return {i.filename: i.file_size for i in zipfile.ZipFile(b).infolist()}
        """, {"a": 100, "bc": 200}, names=["a", "bc"]),
    "tarfile and gzip": tool("""
        import io, tarfile
        def f():
            b = io.BytesIO()
            with tarfile.open(fileobj=b, mode="w:gz") as t:
                i = tarfile.TarInfo("x"); i.size = 3; t.addfile(i, io.BytesIO(b"abc"))
            b.seek(0)
            return tarfile.open(fileobj=b).extractfile("x").read()
        """, "abc"),
    "hashlib": tool("import hashlib\ndef f(t): return hashlib.sha256(t.encode()).hexdigest()[:8]", "ba7816bf", t="abc"),
    "hmac and secrets": tool("import hmac, secrets\ndef f(): return hmac.compare_digest('a', 'a') and len(secrets.token_hex(4))", 8),
    "base64": tool("import base64\ndef f(t): return base64.b64encode(t.encode()).decode()", "aGk=", t="hi"),
    "threading": tool("""
        import threading
        def f(n):
            out = []
            ts = [threading.Thread(target=out.append, args=(i,)) for i in range(n)]
            [t.start() for t in ts]; [t.join() for t in ts]
            return sorted(out)
        """, [0, 1, 2], n=3),
    "thread pool": tool("from concurrent.futures import ThreadPoolExecutor\ndef f():\n  with ThreadPoolExecutor(3) as p: return list(p.map(len, ['a', 'bb']))", [1, 2]),
    "a thread that goes on": tool("import threading, time\ndef f():\n  threading.Thread(target=time.sleep, args=(600,)).start()\n  return 1", 1),
    "tempfile and pathlib": tool("""
        import tempfile, pathlib
        def f():
            with tempfile.TemporaryDirectory() as d:
                p = pathlib.Path(d) / "a" / "b.txt"
                p.parent.mkdir(); p.write_text("ü")
                return [p.read_text(), [q.name for q in pathlib.Path(d).rglob("*.txt")]]
        """, ["ü", ["b.txt"]]),
    "itertools, functools": tool("""
        import functools, itertools
        @functools.lru_cache
        def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
        def f(n): return list(itertools.accumulate(fib(i) for i in range(n)))
        """, [0, 1, 2, 4], n=4),
    "collections": tool("from collections import Counter, OrderedDict, namedtuple\nP = namedtuple('P', 'a b')\ndef f(t): return [Counter(t), OrderedDict(x=1), P(1, 2)]",
                        [{"a": 2, "b": 1}, {"x": 1}, {"a": 1, "b": 2}], t="aab"),
    "textwrap and string": tool("import string, textwrap\ndef f(t): return textwrap.wrap(string.capwords(t), 6)", ["Hello", "World"], t="hello world"),
    "difflib": tool("import difflib\ndef f(a, b): return difflib.get_close_matches(a, b)", ["apple"], a="appel", b=["ape", "apple"][1:]),
    "configparser": tool("import configparser\ndef f(t):\n  c = configparser.ConfigParser(); c.read_string(t); return {s: dict(c[s]) for s in c.sections()}", {"a": {"k": "v"}}, t="[a]\nk=v\n"),
    "urllib.parse": tool("from urllib.parse import urlparse, parse_qs\ndef f(u): return [urlparse(u).hostname, parse_qs(urlparse(u).query)]", ["h.example", {"q": ["1", "2"]}],
                         u="http://h.example/p?q=1&q=2"),
    "email": tool("import email\ndef f(t): return email.message_from_string(t)['Subject']", "Hi", t="Subject: Hi\n\nbody"),
    "struct": tool("import struct\ndef f(): return struct.unpack('>IH', bytes([0, 0, 1, 0, 0, 2]))", [256, 2]),
    "uuid": tool("import uuid\ndef f(): return uuid.uuid5(uuid.NAMESPACE_DNS, 'x')", lambda got: len(got) == 36),
    "logging": tool("import logging\ndef f(): logging.warning('careful'); return 'ok'", "ok"),
    "unicodedata": tool("import unicodedata\ndef f(t): return unicodedata.normalize('NFC', t)", "é", t="e\u0301"),
    "sets and bytes": tool("def f(): return [{3, 1, 2}, b'ab', bytearray(b'\\xff'), frozenset('x')]", [[1, 2, 3], "ab", "/w==", ["x"]]),
    "what JSON can't say": tool("def f(): return [float('nan'), 2**70, complex(1, 2), object, '\\ud800', {1: 'a', None: 'b'}]",
                                ["nan", "1180591620717411303424", "(1+2j)", "<class 'object'>", "\\ud800", {"1": "a", "None": "b"}]),
    "keys outside Unicode, and long ones, with what needs a note": tool("def f(): return {'\\udfff': '\\udc80', 'x' * 1000000: {1}}", {"\\udfff": "\\udc80", "x" * 1000000: [1]}),
    "nested in itself": tool("def f():\n  a = []\n  a.append(a)\n  return a", "[[...]]"),
    "keyword-only and positional-only": tool("def f(a, /, b, *, c=3): return [a, b, c]", [1, 2, 3], a=1, b=2),
    "decorated": tool("import functools\ndef d(g):\n  @functools.wraps(g)\n  def w(*a, **k): return g(*a, **k) + 1\n  return w\n@d\ndef f(n): return n", 3, n=2),
    "from __future__": tool('"""A tool."""\nfrom __future__ import annotations\nclass A: pass\ndef f(a: NotDefined = 1) -> A: return a', 5, a=5),
    "defined in a branch": tool("try:\n  import numpy_that_is_not_here\nexcept ImportError:\n  def f(): return 'without'", "without"),
    "exit is there": tool("def f(): return type(exit).__name__", "Quitter"),
    "where packages are": tool("import sys\ndef f(): return [any('-packages' in p for p in sys.path), 'site' in sys.modules, sys.path[0]]", [True, True, ""]),
    "threads that import": tool("""
        import threading
        def f(names):
            ts = [threading.Thread(target=__import__, args=(n,)) for n in names]
            [t.start() for t in ts]; [t.join() for t in ts]
            return len(ts)
        """, 3, names=["csv", "sqlite3", "decimal"]),
    "closed stdout": tool("import sys\ndef f():\n  sys.stdout.close()\n  return 1", 1),
    "closed descriptors": tool("import os\ndef f():\n  os.close(1); os.close(2); os.close(0)\n  return 1", 1),
    "stdin is empty": tool("import sys\ndef f(): return sys.stdin.read()", ""),
    "prints of children": tool("import os\ndef f():\n  os.system('echo child')\n  return 1", 1),
    "megabytes": tool("def f(n): return 'x,' * n", lambda got: len(got) == 6000000, n=3000000),
    "many values": tool("def f(n): return list(range(n))", lambda got: got.startswith("[0, 1") or got[:3] == [0, 1, 2], n=300000),
}

BAD = {
    "raises": tool("def f(n):\n    return 10 / n", None, n=0)[:2] + ("ZeroDivisionError", "division by zero", "line 2, in f\n    return 10 / n"),
    "raises deep inside": tool("import json\ndef f(t):\n    return json.loads(t)", None, t="{")[:2] + ("JSONDecodeError", "line 1", "return json.loads(t)"),
    "wrong argument": tool("def f(a): pass", None, b=1)[:2] + ("TypeError", "unexpected keyword", ""),
    "no such function": tool("def g(): pass\nx = 1", None)[:2] + ("NameError", "it has: g", ""),
    "syntax": tool("def f(:\n  pass", None)[:2] + ("SyntaxError", "invalid syntax", "tool.py"),
    "import": tool("import not_there_at_all\ndef f(): pass", None)[:2] + ("ModuleNotFoundError", "not_there_at_all", "line 1"),
    "sys.exit": tool("import sys\ndef f(): sys.exit(0)", None)[:2] + ("SystemExit", "sys.exit(0)", "sys.exit(0)"),
    "exit while loading": tool("exit('bye')\ndef f(): pass", None)[:2] + ("SystemExit", "bye", ""),
    "os._exit": tool("import os\ndef f(): os._exit(5)", None)[:2] + ("NoResult", "exit code 5", ""),
    "async": tool("async def f():\n    raise LookupError('where')", None)[:2] + ("LookupError", "where", "raise LookupError"),
    "recursion": tool("def f(): return f()", None)[:2] + ("RecursionError", "maximum recursion", "in f"),
    "chained": tool("def f():\n    try: {}['k']\n    except KeyError as e: raise ValueError('outer') from e", None)[:2] + ("ValueError", "outer", "direct cause"),
    "an exception without text": tool("class E(Exception):\n    def __str__(self): raise RuntimeError\ndef f(): raise E", None)[:2] + ("E", "can't be made", ""),
    "interrupted": tool("def f(): raise KeyboardInterrupt", None)[:2] + ("KeyboardInterrupt", "", "raise KeyboardInterrupt"),
    "a value whose text fails": tool("class V:\n    def __str__(self): raise OSError('x')\ndef f(): raise OSError(V())", None)[:2] + ("OSError", "", ""),
    "no network": tool("import urllib.request\ndef f(): urllib.request.urlopen('http://192.0.2.1/', timeout=2)", None)[:2] + ("URLError", "", "urlopen"),
    "the root can't be written": tool("def f(): open('/etc/x', 'w')", None)[:2] + ("OSError", "Read-only file system", "open("),
}

FRAME = """
import os, struct
def crc(data):
    c = 0xffffffff
    for b in data:
        c ^= b
        for _ in range(8): c = c >> 1 ^ (0x82f63b78 if c & 1 else 0)
    return c ^ 0xffffffff
def frame(nonce, payload):
    return nonce + bytes([1, 1, 0, 0]) + struct.pack(">II", len(payload), crc(payload)) + payload
FORGED = b'{"ok": true, "func_return": "forged", "notes": [], "key": "' + b"0" * 32 + b'"}'
def true_nonce():
    import gc
    return next(o.nonce for o in gc.get_objects() if type(o).__name__ == "Tool")
def channel():
    return [int(n) for n in os.listdir("/proc/self/fd") if int(n) > 2 and os.path.exists(f"/proc/self/fd/{n}") and "pipe" in os.readlink(f"/proc/self/fd/{n}")]
"""

# source, status, type of the failure; None: the true result has come through
HOSTILE = {
    "a guessed nonce on stdout": (FRAME + "def f():\n  os.write(1, frame(b'\\xff' * 16, FORGED))\n  return 'true result'", "success", None),
    "the true nonce on stdout": (FRAME + "def f():\n  os.write(1, frame(true_nonce(), FORGED))\n  return 'true result'", "success", None),
    "a letta frame on stdout": ("import hashlib, os, uuid\ndef f():\n  p = b'\\x80\\x04N.'\n  os.write(1, uuid.uuid5(uuid.NAMESPACE_DNS, 'local-sandbox-result-start-marker').bytes"
                                " + len(p).to_bytes(4, 'big') + hashlib.md5(p).hexdigest().encode() + p)\n  return 'true result'", "success", None),
    "fd 3 is closed": ("import os\ndef f():\n  try: os.close(3)\n  except OSError: pass\n  return 'true result'", "success", None),
    "garbage on fd 3": ("import os\ndef f():\n  try: os.write(3, b'garbage' * 1000)\n  except OSError: pass\n  return 'true result'", "success", None),
    "garbage on the channel": (FRAME + "def f():\n  for n in channel(): os.write(n, b'garbage' * 1000)\n  return 'true result'", "success", None),
    "torn header on the channel": (FRAME + "def f():\n  for n in channel(): os.write(n, true_nonce())\n  return 'true result'", "success", None),
    "every descriptor is closed": ("import os\ndef f():\n  os.closerange(0, 1024)\n  return 1", "error", "NoResult"),
    "a forged frame with the true nonce": (FRAME + "def f():\n  for n in channel(): os.write(n, frame(true_nonce(), FORGED))\n  return 1",
                                           "error", "ForgedResult"),
    "a child that forges": (FRAME + "def f():\n  if os.fork() == 0:\n    for n in channel(): os.write(n, frame(b'\\xf8' * 16, FORGED))\n    os._exit(0)\n  os.wait()\n  return 'true result'", "success", None),
    "builtins replaced": ("import builtins, json, os, sys\ndef f():\n  for n in ('print', 'len', 'open', 'str', 'repr', 'type', 'isinstance', 'getattr'): setattr(builtins, n, None)\n"
                          "  json.dumps = json.JSONEncoder.encode = os._exit = sys.exit = os.getpid = None\n  return 'true result'", "error", "NoResult"),
    "json and os replaced": ("import json, os, sys\ndef f():\n  json.dumps = json.JSONEncoder = json.loads = os.write = os._exit = sys.exit = None\n  return 'true result'", "success", None),
    "os._exit in the middle": ("import os\ndef f():\n  print('x', flush=True)\n  os._exit(0)", "error", "NoResult"),
    "killed by itself": ("import os, signal\ndef f(): os.kill(os.getpid(), signal.SIGKILL)", "killed", "Killed"),
    "a crash": ("import os, signal\ndef f(): os.kill(os.getpid(), signal.SIGSEGV)", "killed", "Killed"),
    "a child that never ends": ("import os, time\ndef f():\n  if os.fork() == 0:\n    time.sleep(1000)\n  return 'true result'", "success", None),
    "a child returns too": ("import os\ndef f():\n  os.fork()\n  return 'true result'", "success", None),
    "signals ignored": ("import signal\ndef f():\n  for s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n    except OSError: pass\n  return 'true result'", "success", None),
    "atexit and __del__": ("import atexit, time\ndef f():\n  atexit.register(time.sleep, 1000)\n  return 'true result'", "success", None),
    "sys.modules emptied": ("import sys\ndef f():\n  sys.modules.clear()\n  return 'true result'", "success", None),
    "stdout is an object": ("import sys\nclass S:\n  def __getattr__(self, n): raise SystemExit(9)\ndef f():\n  sys.stdout = sys.stderr = S()\n  return 'true result'", "success", None),
    "a return value that runs code": ("class L(list):\n  def __iter__(self): raise SystemExit(1)\ndef f(): return L([1])", "error", "SystemExit"),
    "a mapping that lies about itself": ("class D(dict):\n  def items(self): raise MemoryError\n  def __iter__(self): raise SystemExit\n  def keys(self): raise SystemExit\n"
                                         "def f(): return D(a=1)", "error", "SystemExit"),
}

NODE = {
    "a value that throws when it is read": ("const f = () => ({ get a() { throw new Error('no'); } });", {}, "[object Object]"),
    "a proxy that throws": ("const f = () => new Proxy({}, { ownKeys() { throw new Error('no'); } });", {}, "[object Object]"),
    "toJSON throws": ("const f = () => [{ toJSON() { throw null; } }];", {}, "[object Object]"),
    "toJSON of everything": ("Object.prototype.toJSON = Array.prototype.toJSON = () => 'evil';\nconst f = () => 1;", {}, 1),
    "nothing of the runner's is there": ("const f = () => ['nonce', 'key', 'request', 'fd', 'writeAll', 'table', 'transpile'].filter((n) => (0, eval)(`typeof ${n}`) !== 'undefined');", {}, []),
    "sum": ("function f(a, b) { return a + b; }", {"a": 1, "b": 2}, 3),
    "async": ("async function f(n) { await new Promise((r) => setTimeout(r, 5)); return n * 2; }", {"n": 4}, 8),
    "arrow": ("const f = (s) => s.split(',').map(Number);", {"s": "1,2"}, [1, 2]),
    "exported": ("export function f(o) { return Object.keys(o); }", {"o": {"x": 1, "y": 2}}, ["x", "y"]),
    "default export": ("export default async function f() { return 'd'; }", {}, "d"),
    "top-level await": ("const n = await Promise.resolve(6);\nfunction f() { return n; }", {}, 6),
    "node modules": ("import { createHash } from 'node:crypto';\nimport path from 'path';\nexport const f = (s) => [createHash('md5').update(s).digest('hex').slice(0, 6), path.basename('/a/b')];",
                     {"s": "x"}, ["9dd4e4", "b"]),
    "require": ("const os = require('os');\nfunction f() { return typeof os.cpus; }", {}, "function"),
    "child process": ("import { execSync } from 'child_process';\nfunction f() { return execSync('echo hi').toString(); }", {}, "hi\n"),
    "files": ("import fs from 'fs';\nfunction f(t) { fs.writeFileSync('/tmp/x', t); return fs.readFileSync('/tmp/x', 'utf8'); }", {"t": "ü€😀"}, "ü€😀"),
    "maps, sets, dates": ("function f() { return [new Map([['a', 1]]), new Set([1, 2]), new Date(0), 10n, undefined, NaN, new Uint8Array([1, 2])]; }", {},
                          [{"a": 1}, [1, 2], "1970-01-01T00:00:00.000Z", "10", None, "NaN", [1, 2]]),
    "nothing": ("function f() {}", {}, None),
    "class": ("class P { constructor(x) { this.x = x; } get y() { return 1; } }\nfunction f(x) { return new P(x); }", {"x": 3}, {"x": 3}),
    "prints": ("function f() { for (let i = 0; i < 1000; i++) console.log('x'.repeat(100)); return 'p'; }", {}, "p"),
    "process and JSON replaced": ("function f() { JSON.stringify = Buffer.from = process.exit = null; return 's'; }", {}, "s"),
    "every form of import": ("import fs, { readFileSync as read } from 'fs';\nimport * as path from 'node:path';\nimport equal from 'node:assert/strict';\nimport process from 'process';\nimport { EventEmitter } from 'events';\nexport { sep } from 'path';\n"
                             "const f = () => [fs.readFileSync === read, path.default.sep + path.sep, typeof equal.equal, process === globalThis.process, typeof EventEmitter];", {}, [True, "//", "function", True, "function"]),
    "imports while it runs": ("const f = async () => [(await import('node:path')).sep, (await import('data:text/javascript,export default 7')).default, await import('./none.mjs').catch((e) => e.code), await import('node:none').catch((e) => e.code)];",
                              {}, ["/", 7, "ERR_MODULE_NOT_FOUND", "ERR_UNKNOWN_BUILTIN_MODULE"]),
    "an import of what Node hasn't": ("import seven from 'data:text/javascript,export default 7';\nconst f = () => seven;", {}, 7),
    "import.meta": ("import fs from 'fs';\nimport { fileURLToPath } from 'url';\nconst f = () => fs.readFileSync(fileURLToPath(import.meta.url), 'utf8').includes('import.meta.url');", {}, True),
    "no option of ours is handed on": ("import { fork } from 'child_process';\nimport fs from 'fs';\nconst f = async () => { fs.writeFileSync('/tmp/child.js', 'process.send(process.execArgv)');\n"
                                       "  const child = fork('/tmp/child.js'), said = await new Promise((r) => child.on('message', r)); return [said, process.execArgv.includes('--experimental-vm-modules')]; };", {}, [[], False]),
    "timers left": ("function f() { setInterval(() => {}, 1000); return 1; }", {}, 1),
}
