"""Tools of what a host may have besides: TypeScript through esbuild, pydantic, numpy, pandas, matplotlib; and the runners' own sources."""
import ast
import importlib.util
import json
import pathlib
import shutil
import subprocess

import pytest

from conftest import has_module
from test_tool_warm import clear

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RUNNERS = sorted((ROOT / "tools/runners/python").glob("*.py")) + [ROOT / "tools/runners/code/code.py"]
ESBUILD = shutil.which("esbuild", path="/usr/local/bin:/usr/bin:/bin")


def call(pinfold, **request):
    done = pinfold.call([str(pinfold.program), "tool", "call", "--policy", pinfold.policy()], input=json.dumps({"name": "f", "args": {}, **request}).encode())
    return done.returncode, json.loads(done.stdout)


def needs_module(name):
    return pytest.mark.skipif(not has_module(name), reason=f"not installed: python3-{name}")


@pytest.mark.parametrize("path", RUNNERS, ids=lambda path: path.name)
def test_runners_are_python_3_8(path):
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))


@pytest.mark.parametrize("path", RUNNERS, ids=lambda path: path.name)
def test_runners_need_the_standard_library_alone(path):
    own = {"_json", "_signal", "fcntl", "marshal", "select", "time"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for name in [alias.name for alias in node.names] if isinstance(node, ast.Import) else []:
            assert name in own or importlib.util.find_spec(name.split(".")[0]) is not None, name


# source, arguments, what comes back; types that a transpiler has to take out
TYPED = {
    "types": ("export function f(a: number, b: number = 2): number { return a * b; }", {"a": 4}, 8),
    "interfaces": ("interface P { x: number; y?: string }\nexport function f(p: P): string { return `${p.x}${p.y ?? '-'}`; }", {"p": {"x": 1}}, "1-"),
    "generics": ("function first<T, K extends keyof T>(o: T, k: K): T[K] { return o[k]; }\nexport const f = (o: { a: number }): number => first<{ a: number }, 'a'>(o, 'a');", {"o": {"a": 7}}, 7),
    "enums": ("enum Colour { Red = 1, Green }\nexport function f(n: number): string { return Colour[n]; }", {"n": 2}, "Green"),
    "top-level await": ("const base: number = await Promise.resolve(40);\nexport async function f(n: number): Promise<number> { return base + n; }", {"n": 2}, 42),
    "unions and guards": ("type S = { kind: 'a'; n: number } | { kind: 'b'; t: string };\nexport function f(s: S): unknown { return s.kind === 'a' ? s.n : (s as { t: string }).t!; }", {"s": {"kind": "b", "t": "x"}}, "x"),
    "classes": ("abstract class A<T> { constructor(protected readonly v: T) {} abstract get(): T }\nclass B extends A<string> { override get(): string { return this.v; } }\nexport function f(): string { return new B('v').get(); }", {}, "v"),
    "imports": ("import type { Stats } from 'fs';\nimport { statSync } from 'node:fs';\nexport function f(p: string): boolean { const s: Stats = statSync(p); return s.isDirectory(); }", {"p": "/tmp"}, True),
    "namespaces": ("namespace N { export const k = 3 as const; }\nexport function f(): number { return N.k satisfies number; }", {}, 3),
}


@pytest.mark.skipif(ESBUILD is None or shutil.which("node") is None, reason="the host has no esbuild, or no node")
@pytest.mark.parametrize("reuse", ["cold", "never"])
@pytest.mark.parametrize("name", TYPED)
def test_typescript_tools(as_root, name, reuse):
    source, args, expected = TYPED[name]
    schema = {"name": "f", "parameters": {"type": "object", "properties": {key: {} for key in args}}}
    code, result = call(as_root, language="typescript", source=source, args=args, json_schema=schema, reuse=reuse)
    assert (code, result["func_return"]) == (0, expected), result
    if reuse != "cold":
        clear(as_root)


@pytest.mark.skipif(ESBUILD is None or shutil.which("node") is None, reason="the host has no esbuild, or no node")
def test_typescript_that_is_none_says_where(as_root):
    code, result = call(as_root, language="typescript", source="export function f(a: number { return a; }")
    assert code == 1 and result["func_return"]["type"] == "SyntaxError" and "esbuild" in result["func_return"]["message"], result


THROWS = "interface P {\n  x: number\n}\n\n// what is thrown stands in line 8\nexport async function f(p?: P): Promise<number> {\n\n  throw new TypeError('here')\n}\n"


@pytest.mark.skipif(ESBUILD is None or shutil.which("node") is None, reason="the host has no esbuild, or no node")
@pytest.mark.parametrize("change, line", [({}, "at f (tool:8:9)"), ({"reuse": "never"}, "at f (tool:8:9)"),
                                          ({"source": THROWS + "import.meta;"}, "at f (tool:8:9)")])  # the last by Node's own loader
def test_typescript_that_throws_is_told_by_the_lines_of_its_source(as_root, change, line):
    code, result = call(as_root, **{"language": "typescript", "source": THROWS, **change})
    assert code == 1 and line in result["func_return"]["traceback"], result
    if "reuse" in change:
        clear(as_root)


def loads_site(pinfold, source):
    """Whether the interpreter has run site by the end; asked in a way that doesn't make it."""
    source += "\nimport os\ndef f(): return 'site' in getattr(os.sys, 'modules')"
    code, result = call(pinfold, language="python", source=source)
    assert code == 0, result
    return result["func_return"]


def test_site_runs_where_a_call_can_see_it(as_root):
    assert not loads_site(as_root, "import json, re, subprocess, csv")
    assert loads_site(as_root, "try:\n  import no_such_package\nexcept ImportError: pass")
    assert loads_site(as_root, "import importlib.metadata")
    assert loads_site(as_root, "def g(): return lambda: exit")


def test_variables_of_the_interpreter_are_heard_from_the_start(as_root):
    work = as_root.home / "work"
    work.mkdir()
    (work / "sitecustomize.py").write_text("import sys\nsys.customized = True\n")
    request = {"language": "python", "name": "f", "source": "import os\ndef f(): return hasattr(os.sys, 'customized')", "args": {}}
    for env, expected in (({"PYTHONPATH": "/workspace"}, True), ({}, False)):
        done = as_root.call([str(as_root.program), "tool", "call", "--workspace", f"{work}:ro"], input=json.dumps({**request, "env": {"call": env}}).encode())
        assert json.loads(done.stdout)["func_return"] is expected, done.stdout


def test_an_environment_of_the_image_is_itself(as_root):
    """The interpreter of a virtual environment that nothing names but PATH."""
    venv = as_root.home / "venv"
    made = subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], capture_output=True)
    if made.returncode != 0:
        pytest.skip("the host's Python makes no virtual environments")
    packages = next(venv.glob("lib/python3*/site-packages"))
    (packages / "only_here.py").write_text("HERE = 1\n")
    policy = as_root.policy(filesystem={"mounts": [{"source": str(venv), "target": str(venv), "access": "read-only"}]},
                            environment={"set": {"PATH": f"{venv}/bin:/usr/bin:/bin"}})
    for source in ("import only_here, sys\ndef f(): return [only_here.HERE, sys.prefix]", "import sys\ndef f():\n  import only_here\n  return [only_here.HERE, sys.prefix]"):
        request = {"language": "python", "name": "f", "source": source, "args": {}}
        done = as_root.call([str(as_root.program), "tool", "call", "--policy", policy], input=json.dumps(request).encode())
        assert json.loads(done.stdout)["func_return"] == [1, str(venv)], done.stdout


MODELS = """
from typing import List, Optional
from pydantic import BaseModel
class Point(BaseModel):
    x: int
    y: Optional[float] = None
class Line(BaseModel):
    name: str
    points: List[Point]
def f(line: Line, first: Point) -> Line:
    assert isinstance(line, Line) and isinstance(line.points[0], Point) and isinstance(first, Point)
    return Line(name=line.name.upper(), points=[first] + line.points)
"""


@needs_module("pydantic")
def test_pydantic_models_in_and_out(as_root):
    args = {"line": {"name": "a", "points": [{"x": "1"}]}, "first": {"x": 2, "y": 0.5}}
    code, result = call(as_root, language="python", source=MODELS, args=args)
    assert (code, result["func_return"]) == (0, {"name": "A", "points": [{"x": 2, "y": 0.5}, {"x": 1, "y": None}]}), result
    code, result = call(as_root, language="python", source=MODELS, args={**args, "first": {"x": "none"}})
    assert code == 1 and result["func_return"]["type"] == "ValidationError", result


@needs_module("numpy")
def test_numpy(as_root):
    source = "import numpy as np\ndef f(rows):\n  a = np.array(rows, dtype=float)\n  return {'mean': a.mean(axis=0), 'dot': a @ a.T, 'n': a.size, 'top': a.max()}"
    code, result = call(as_root, language="python", source=source, args={"rows": [[1, 2], [3, 4]]})
    assert (code, result["func_return"]) == (0, {"mean": [2.0, 3.0], "dot": [[5.0, 11.0], [11.0, 25.0]], "n": 4, "top": 4.0}), result
    code, result = call(as_root, language="python", source=source, args={"rows": [[1, 2], ["x", 4]]})
    assert code == 1 and result["func_return"]["type"] == "ValueError"


@needs_module("pandas")
def test_pandas(as_root):
    source = "import io, pandas as pd\ndef f(text): return pd.read_csv(io.StringIO(text)).groupby('k')['v'].sum().to_dict()"
    code, result = call(as_root, language="python", source=source, args={"text": "k,v\na,1\nb,2\na,3\n"})
    assert (code, result["func_return"]) == (0, {"a": 4, "b": 2}), result
    code, result = call(as_root, language="python", source=source, args={"text": "x\n1\n"})
    assert code == 1 and result["func_return"]["type"] == "KeyError"


@needs_module("matplotlib")
def test_a_picture_of_matplotlib(as_root):
    source = ("import base64, io, os\nos.environ.update(MPLCONFIGDIR='/tmp', MATPLOTLIBRC='/tmp/rc')\nopen('/tmp/rc', 'w').close()  # Debian's is in /etc\nimport matplotlib\nmatplotlib.use('Agg')\nfrom matplotlib import pyplot\n"
              "def f(xs):\n  pyplot.plot(xs); out = io.BytesIO(); pyplot.savefig(out, format='png'); return base64.b64encode(out.getvalue()).decode()")
    code, result = call(as_root, language="python", source=source, args={"xs": [1, 3, 2]})
    assert code == 0 and result["func_return"].startswith("iVBORw0KGgo"), result
    code, result = call(as_root, language="python", source=source, args={"xs": [[1, 2], [3]]})
    assert code == 1 and result["func_return"]["type"] == "ValueError"
