"""Tools of what a host may have besides: TypeScript through esbuild, pydantic, numpy, pandas, matplotlib; and the runners' own sources."""
import ast
import importlib.util
import json
import pathlib
import shutil
import subprocess

import pytest

from test_tool_warm import clear

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RUNNERS = sorted((ROOT / "tools/runners/python").glob("*.py"))
ESBUILD = shutil.which("esbuild", path="/usr/local/bin:/usr/bin:/bin")


def call(pinfold, **request):
    done = pinfold.call([str(pinfold.program), "tool", "call", "--policy", pinfold.policy()], input=json.dumps({"name": "f", "args": {}, **request}).encode())
    return done.returncode, json.loads(done.stdout)


def needs(module):
    """Debian's Python is the sandbox's, and need not be the one that runs the tests."""
    found = subprocess.run(["/usr/bin/python3", "-c", f"import {module}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return pytest.mark.skipif(found.returncode != 0, reason=f"the host has no python3-{module}")


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


@needs("pydantic")
def test_pydantic_models_in_and_out(as_root):
    args = {"line": {"name": "a", "points": [{"x": "1"}]}, "first": {"x": 2, "y": 0.5}}
    code, result = call(as_root, language="python", source=MODELS, args=args)
    assert (code, result["func_return"]) == (0, {"name": "A", "points": [{"x": 2, "y": 0.5}, {"x": 1, "y": None}]}), result
    code, result = call(as_root, language="python", source=MODELS, args={**args, "first": {"x": "none"}})
    assert code == 1 and result["func_return"]["type"] == "ValidationError", result


@needs("numpy")
def test_numpy(as_root):
    source = "import numpy as np\ndef f(rows):\n  a = np.array(rows, dtype=float)\n  return {'mean': a.mean(axis=0), 'dot': a @ a.T, 'n': a.size, 'top': a.max()}"
    code, result = call(as_root, language="python", source=source, args={"rows": [[1, 2], [3, 4]]})
    assert (code, result["func_return"]) == (0, {"mean": [2.0, 3.0], "dot": [[5.0, 11.0], [11.0, 25.0]], "n": 4, "top": 4.0}), result
    code, result = call(as_root, language="python", source=source, args={"rows": [[1, 2], ["x", 4]]})
    assert code == 1 and result["func_return"]["type"] == "ValueError"


@needs("pandas")
def test_pandas(as_root):
    source = "import io, pandas as pd\ndef f(text): return pd.read_csv(io.StringIO(text)).groupby('k')['v'].sum().to_dict()"
    code, result = call(as_root, language="python", source=source, args={"text": "k,v\na,1\nb,2\na,3\n"})
    assert (code, result["func_return"]) == (0, {"a": 4, "b": 2}), result
    code, result = call(as_root, language="python", source=source, args={"text": "x\n1\n"})
    assert code == 1 and result["func_return"]["type"] == "KeyError"


@needs("matplotlib")
def test_a_picture_of_matplotlib(as_root):
    source = ("import base64, io, os\nos.environ.update(MPLCONFIGDIR='/tmp', MATPLOTLIBRC='/tmp/rc')\nopen('/tmp/rc', 'w').close()  # Debian's is in /etc\nimport matplotlib\nmatplotlib.use('Agg')\nfrom matplotlib import pyplot\n"
              "def f(xs):\n  pyplot.plot(xs); out = io.BytesIO(); pyplot.savefig(out, format='png'); return base64.b64encode(out.getvalue()).decode()")
    code, result = call(as_root, language="python", source=source, args={"xs": [1, 3, 2]})
    assert code == 0 and result["func_return"].startswith("iVBORw0KGgo"), result
    code, result = call(as_root, language="python", source=source, args={"xs": [[1, 2], [3]]})
    assert code == 1 and result["func_return"]["type"] == "ValueError"
