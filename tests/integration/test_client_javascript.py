"""The JavaScript client: its own tests run by Node, its package by npm, its types by tsc."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import build_directory

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tools/clients/javascript"

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")


def test_every_test_of_the_client_passes(as_root):
    environment = {**os.environ, "PINFOLD": str(as_root.program), "PINFOLD_STATE": str(as_root.state)}
    command = ["node", "--test", ROOT / "tests/integration/client_javascript.mjs"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"pass (\d+)", done.stdout)[1]) > 10


def test_the_package_installs_without_a_registry(as_root, tmp_path):
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    (tmp_path / "package.json").write_text("{}")
    subprocess.run(["npm", "install", "--offline", "--no-audit", "--no-fund", PACKAGE], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "check.mjs").write_text("import {SandboxClient} from 'pinfold'; console.log(typeof SandboxClient);")
    assert subprocess.check_output(["node", "check.mjs"], cwd=tmp_path) == b"function\n"
    assert json.loads((PACKAGE / "package.json").read_text()).get("dependencies") is None


def exported(text):
    return set(re.findall(r"^export (?:declare )?class (\w+)", text, re.M))


def test_every_class_has_a_type():
    source = (PACKAGE / "index.js").read_text()
    names = {name for group in re.findall(r"export \{([^}]*)\}", source) for name in re.findall(r"\w+", group)}
    assert names == exported((PACKAGE / "index.d.ts").read_text())


TYPESCRIPT = "typescript@5.9.3"
NODE_GLOBALS = "declare class Buffer extends Uint8Array { toString(encoding?: string): string; }\n"  # all that the types take of Node
OPTIONS = {"compilerOptions": {"noEmit": True, "strict": True, "target": "es2022", "lib": ["es2022", "dom"], "module": "nodenext", "types": []},
           "files": ["globals.d.ts", "use.mts"]}


@pytest.fixture(scope="module")
def tsc():
    """The compiler of the host, or the one that npm gives once, and keeps beside the build."""
    found = shutil.which("tsc")
    if found is not None:
        return found
    folder = build_directory() / "typescript"
    compiler = folder / "node_modules/.bin/tsc"
    if compiler.exists():
        return str(compiler)
    if shutil.which("npm") is None:
        pytest.skip("needs tsc, or npm")
    folder.mkdir(exist_ok=True)
    argv = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--fetch-retries", "0", "--fetch-timeout", "20000", "--prefix", str(folder), TYPESCRIPT]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        pytest.skip("npm gives no tsc in two minutes")
    if done.returncode != 0 or not compiler.exists():
        pytest.skip(f"npm gives no tsc here: {done.stderr.strip()[-200:]}")
    return str(compiler)


def compiles(tsc, folder, text):
    (folder / "globals.d.ts").write_text(NODE_GLOBALS)
    (folder / "use.mts").write_text(text)
    (folder / "tsconfig.json").write_text(json.dumps(OPTIONS))
    done = subprocess.run([tsc, "-p", "."], cwd=folder, capture_output=True, text=True, timeout=300)
    return done.returncode == 0, done.stdout


USE = """
import {SandboxClient, SandboxHandle, ToolSandbox, ExecResult, ExecFailed, PinfoldError, SandboxBusy} from '%s/index.js';

const client = new SandboxClient({program: 'pinfold', state: '/run/pinfold'});
const sandbox: SandboxHandle = await client.create({memory: '1MiB', cpus: 0.5, labels: {tenant: 'a'}, workspaceMode: 'cow', publish: ['8000']});
const result: ExecResult = await sandbox.exec(['true'], {timeoutMs: 5, user: 'web:data', signal: new AbortController().signal, check: true});
const [text, bytes, code, wall]: [string, Buffer, number, number] = [result.stdout, result.stdoutBytes, result.exitCode, result.usage.wallMs];
const process = await sandbox.start(['cat'], {stdin: true, tty: {rows: 1, columns: 2}});
for await (const {stream, data} of process) console.log(stream === 'stdout', data.toString('hex'));
const ended: ExecResult = await process.wait();
const number: number = await sandbox.detach(['true'], {interactive: true});
for await (const record of sandbox.logs({since: 1, follow: true})) console.log(record.kind, record.tNs);
const file: Buffer = await sandbox.readFile('/etc/hostname');
const listed: Array<Record<string, unknown>> = await client.list({tenant: null});
await sandbox.renew({idleMs: 1});
await sandbox.remove({force: true});
const tools = new ToolSandbox({policy: 'tool'});
const value: unknown = (await tools.run({source: '', name: 'f', args: {}, reuse: 'never'})).check().funcReturn;
try { result.check(); } catch (error) {
  if (error instanceof ExecFailed) console.log(error.result.exitCode, error.kind);
  else if (error instanceof SandboxBusy) console.log((error as PinfoldError).hint, error.others[0]?.pointer);
}
// @ts-expect-error: a command is a list
await sandbox.exec('true');
// @ts-expect-error: no such field
await client.create({memroy: '1MiB'});
// @ts-expect-error: no such mode
await client.create({workspaceMode: 'rwx'});
// @ts-expect-error: handles are made by a client
new SandboxHandle(client, 'x');
// @ts-expect-error: results are not written to
result.stdout = '';
// @ts-expect-error: times are numbers
await sandbox.exec(['true'], {timeoutMs: '5s'});
console.log(text, bytes, code, wall, ended, number, file, listed, value);
"""


def test_the_types_are_sound_and_say_what_can_be_done(tsc, tmp_path):
    good, said = compiles(tsc, tmp_path, USE % PACKAGE)
    assert good, said
    good, said = compiles(tsc, tmp_path, USE.replace("// @ts-expect-error", "//") % PACKAGE)
    assert not good and said.count("error TS") == 6, said  # each of the misuses is one


METHODS = """
import * as all from '%s/index.js';
const of = (kind) => Object.getOwnPropertyNames(kind.prototype).filter((name) => name !== 'constructor' && !name.startsWith('_'));
console.log(JSON.stringify(Object.fromEntries(Object.entries(all).filter(([, kind]) => kind.prototype).map(([name, kind]) => [name, of(kind)]))));
"""


def test_every_method_that_there_is_has_a_type_and_no_other(tsc, tmp_path):
    done = subprocess.run(["node", "--input-type=module", "-e", METHODS % PACKAGE], capture_output=True, text=True, check=True)
    methods = json.loads(done.stdout)
    lines = [f"import type * as all from '{PACKAGE}/index.js';"]
    lines += [f"declare const a{name}: all.{name};\n" + "\n".join(f"a{name}.{method};" for method in of) for name, of in methods.items()]
    good, said = compiles(tsc, tmp_path, "\n".join(lines))
    assert good and sum(map(len, methods.values())) > 30, said
    types = (PACKAGE / "index.d.ts").read_text()
    for name, body in re.findall(r"^export class (\w+)[^{]*\{(.*?)^\}", types, re.M | re.S):
        promised = set(re.findall(r"^  (\w+)\(", body, re.M)) - {"constructor"}
        assert promised <= set(methods[name]), (name, promised - set(methods[name]))
