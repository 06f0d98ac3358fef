// The JavaScript client against the real runtime: run by test_client_javascript.py, which names the runtime.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import {after, before, test} from 'node:test';

import * as pinfold from '../../tools/clients/javascript/index.js';

const client = new pinfold.SandboxClient();
let sandbox;

async function eventually(check) {
  const until = Date.now() + 10_000;
  while (!(await check())) {
    assert(Date.now() < until);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

before(async () => {
  sandbox = await client.create({name: 'work', labels: {tenant: 'a'}});
});

after(async () => {
  for (let quiet = 0; quiet < 5; quiet++) { // also what calls are having started behind them
    for (const {name} of await client.list()) {
      await client.remove(name).catch((error) => assert(error instanceof pinfold.SandboxNotFound)); // the pool's own doing
      quiet = 0;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
});

test('a result has all that the runtime tells', async () => {
  const result = await sandbox.exec(['sh', '-c', 'cat; echo $A >&2; pwd; exit 3'], {env: {A: 'ä'}, cwd: '/usr', stdin: 'in '});
  assert.deepEqual([result.status, result.exitCode, result.signal, result.ok], ['error', 3, null, false]);
  assert.deepEqual([result.stdout, result.stderr, result.truncated], ['in /usr\n', 'ä\n', false]);
  assert.deepEqual(result.labels, {tenant: 'a'});
  assert.throws(() => result.check(), pinfold.ExecFailed);
});

test('bytes that are no text come whole', async () => {
  const bytes = Buffer.from([...Array(256).keys()]);
  assert.deepEqual((await sandbox.exec(['cat'], {stdin: bytes})).stdoutBytes, bytes);
});

test('python and shell sources run however long', async () => {
  assert.equal((await sandbox.runShell('echo one | tr a-z A-Z')).stdout, 'ONE\n');
  const source = `${'#'.repeat(300_000)}\nimport sys; print(sys.argv[1:])`;
  assert.equal((await sandbox.runPython(source, ['a', 'b c'])).stdout, "['a', 'b c']\n");
});

test('a supervisor that is stopped is told and ended', async () => {
  const impatient = new pinfold.SandboxClient({answerTimeoutMs: 200});
  const stopped = await impatient.create({name: 'stopped'});
  process.kill((await impatient.list()).find(({name}) => name === 'stopped').supervisor, 'SIGSTOP');
  for (const ask of [() => stopped.show(), () => stopped.pause(), () => stopped.signal('TERM'), () => stopped.start(['true'])])
    await assert.rejects(ask(), (error) => error instanceof pinfold.SandboxExhausted && /doesn't answer/.test(error.message));
  await stopped.kill();
  await assert.rejects(stopped.show(), pinfold.SandboxNotFound);
  await impatient.remove('stopped');
});

test('many run at once on one connection', async () => {
  const numbers = [...Array(40).keys()];
  const results = await Promise.all(numbers.map((number) => sandbox.shell(`echo ${number}; sleep 0.02`)));
  assert.deepEqual(results.map((result) => result.stdout), numbers.map((number) => `${number}\n`));
});

test('a command over its time ends with its tree', async () => {
  assert.equal((await sandbox.shell('sleep 100 & sleep 100', {timeoutMs: 200})).status, 'timeout');
  assert.deepEqual((await sandbox.show()).execs, []);
});

test('output comes while the command runs', async () => {
  const running = await sandbox.start(['sh', '-c', 'echo one; read x; echo $x >&2'], {stdin: true});
  const seen = [];
  for await (const {stream, data} of running) {
    seen.push([stream, data.toString()]);
    if (stream === 'stdout') await running.write('two\n');
  }
  assert.deepEqual(seen, [['stdout', 'one\n'], ['stderr', 'two\n']]);
  assert((await running.wait()).ok);
  running.close();
});

test('a reader that waits makes the command wait, and nothing is lost', async () => {
  const running = await sandbox.start(['head', '-c', '900000', '/dev/zero']);
  await new Promise((resolve) => setTimeout(resolve, 200));
  const result = await running.wait();
  assert.equal(result.stdoutBytes.length, 900_000);
  running.close();
});

test('a command that does not read its input ends all the same', async () => {
  assert((await sandbox.exec(['true'], {stdin: 'x'.repeat(1_000_000)})).ok);
});

test('aborting ends the tree before it rejects', async () => {
  const abort = new AbortController();
  const result = sandbox.shell('sleep 1000 & sleep 1000', {signal: abort.signal});
  await eventually(async () => (await sandbox.show()).execs.length > 0);
  abort.abort();
  await assert.rejects(result, {name: 'AbortError'});
  assert.deepEqual((await sandbox.show()).execs, []);
  await assert.rejects(sandbox.exec(['true'], {signal: abort.signal}), {name: 'AbortError'});
});

test('signals, kills and closing reach the command', async () => {
  const first = await sandbox.start(['sh', '-c', "trap 'echo caught; exit 7' USR1; echo ready; while :; do sleep 0.02; done"]);
  for await (const {data} of first) if (data.toString().includes('ready')) await first.signal('USR1');
  assert.equal((await first.wait()).exitCode, 7);
  const second = await sandbox.start(['sleep', '1000']);
  await second.kill();
  assert.equal((await second.wait()).signal, 'SIGKILL');
  const third = await sandbox.start(['sleep', '1000']);
  third.close();
  await eventually(async () => (await sandbox.show()).execs.length === 0);
  await assert.rejects(third.wait(), /was closed/);
});

test('a terminal has a size that can change', async () => {
  const script = "stty size; trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done";
  const running = await sandbox.start(['sh', '-c', script], {tty: {rows: 30, columns: 99}});
  let seen = '';
  for await (const {data} of running) {
    seen += data;
    if (seen.includes('ready') && !seen.includes('asked')) {
      seen += 'asked ';
      await running.resize({rows: 40, columns: 120});
    }
  }
  assert.deepEqual(seen.trim().split(/\s+/), ['30', '99', 'ready', 'asked', '40', '120']);
  running.close();
});

test('a detached command outlives its client, and its log is read', async () => {
  const other = await client.get('work');
  const number = await other.detach(['sh', '-c', 'sleep 0.2; echo done; exit 4']);
  await other.close();
  assert.equal((await sandbox.wait(number)).exit_code, 4);
  const kinds = [];
  for await (const record of sandbox.logs({execId: number})) kinds.push(record.kind);
  assert.deepEqual(kinds, ['start', 'stdout', 'end']);
  await assert.rejects(sandbox.detach(['no-such-program']), pinfold.SandboxNotFound);
});

test('output is read on where a client left off', async () => {
  const number = await sandbox.detach(['sh', '-c', 'echo one; read x; echo got $x; exit 5'], {interactive: true});
  const first = await sandbox.attach(number);
  for await (const {data} of first) {
    assert.equal(data.toString(), 'one\n');
    break;
  }
  first.close();
  let seen = 0;
  for await (const record of sandbox.logs({execId: number})) seen = record.seq;
  const again = await sandbox.attach(number, {since: seen, stdin: true});
  await again.write('two\n');
  const result = await again.wait();
  assert.deepEqual([result.stdout, result.exitCode, again.missed], ['got two\n', 5, 0]);
  again.close();
});

test('files go in and out', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'pinfold-'));
  fs.writeFileSync(path.join(folder, 'file'), Buffer.from([0, 255]));
  await sandbox.copyIn(path.join(folder, 'file'), '/tmp/copy');
  assert.deepEqual(await sandbox.readFile('/tmp/copy'), Buffer.from([0, 255]));
  await sandbox.writeFile('/tmp/made', 'text');
  await sandbox.copyOut('/tmp/made', path.join(folder, 'out'));
  assert.equal(fs.readFileSync(path.join(folder, 'out'), 'utf8'), 'text');
  await assert.rejects(sandbox.readFile('/tmp/missing'), pinfold.ExecFailed);
  fs.rmSync(folder, {recursive: true});
});

test('errors have types and say where', async () => {
  await assert.rejects(client.create({name: 'work'}), pinfold.SandboxExists);
  await assert.rejects(client.create({memory: '1TiB'}), (error) => {
    assert(error instanceof pinfold.PolicyRefused);
    return error.pointer.endsWith('/resources/memory') && error.hint.includes('512MiB');
  });
  await assert.rejects(client.create({memroy: 1}), pinfold.InvalidRequest);
  await assert.rejects(client.get('nobody'), pinfold.SandboxNotFound);
  await assert.rejects(client.get('../work'), pinfold.InvalidRequest);
  await assert.rejects(client.remove('--help'), pinfold.InvalidRequest);
  await assert.rejects(sandbox.exec('a text'), pinfold.InvalidRequest);
  await assert.rejects(sandbox.exec(['true'], {cwd: 'relative'}), pinfold.InvalidRequest);
  await assert.rejects(sandbox.remove({force: false}), pinfold.SandboxBusy);
  const result = await sandbox.exec(['no-such-program']);
  assert.equal(result.exitCode, 127);
  assert.throws(() => result.check(), pinfold.SandboxNotFound);
  await sandbox.pause();
  await assert.rejects(sandbox.exec(['true']), pinfold.SandboxBusy);
  await sandbox.resume();
});

test('who stops to iterate finds the rest later', async () => {
  const running = await sandbox.start(['sh', '-c', 'echo ready; read x; head -c 300000 /dev/zero | tr "\\0" x; echo done'], {stdin: true});
  for await (const {data} of running) if (data.includes('ready')) break;
  await running.write('\n');
  for await (const {data} of running) {
    assert(data.length > 0);
    break;
  }
  assert((await running.wait()).stdout.endsWith('xdone\n'));
  running.close();
});

test('input that nobody takes is told', async () => {
  const running = await sandbox.start(['true'], {stdin: true});
  await sandbox.wait(running.execId);
  const fill = async () => {
    for (;;) await running.write(Buffer.alloc(100_000));
  };
  await assert.rejects(fill(), (error) => error instanceof pinfold.PinfoldError && /takes no more input/.test(error.message));
  assert((await running.wait()).ok);
  running.close();
});

test('what a message or a command line cannot say is refused, and holds up nobody', async () => {
  const other = sandbox.exec(['sh', '-c', 'sleep 0.2; echo other']);
  for (const part of ['a\0b', '\ud800', 'x\udfff'])
    await assert.rejects(sandbox.exec(['echo', part]), pinfold.InvalidRequest);
  assert.equal((await sandbox.exec(['echo', '\\u0000 \\\\ud800 \u{1f600}'])).stdout, '\\u0000 \\\\ud800 \u{1f600}\n');
  assert.equal((await other).stdout, 'other\n');
  await assert.rejects(client.create({labels: {'a=b': 'c'}}), pinfold.InvalidRequest);
  await assert.rejects(client.create({env: {'A=B': 'c'}}), pinfold.InvalidRequest);
  await assert.rejects(client.create({env: {A: 'b\0'}}), pinfold.InvalidRequest);
  for (const name of ['a\0b', 'a'.repeat(64), 'a..b']) await assert.rejects(client.get(name), pinfold.InvalidRequest);
});

test('what is aborted says so, and a sandbox whose making is aborted is gone', async () => {
  await assert.rejects(sandbox.start(['true'], {signal: AbortSignal.abort()}), {name: 'AbortError'});
  const abort = new AbortController();
  const running = await sandbox.start(['sleep', '1000'], {signal: abort.signal});
  abort.abort();
  await assert.rejects(running.wait(), {name: 'AbortError'});
  await eventually(async () => (await sandbox.show()).execs.length === 0);
  for (const ms of [1, 10, 20, 30, 40]) {
    await client.create({labels: {made: 'up'}}, {signal: AbortSignal.timeout(ms)}).then(
      (made) => made.remove(),
      (error) => assert.equal(error.name, 'TimeoutError'),
    );
  }
  await eventually(async () => (await client.list({made: 'up'})).length === 0);
});

test('tools are called, and what is aborted ends', async () => {
  const tools = new pinfold.ToolSandbox();
  try {
    const source = 'def add(a: int, b: int):\n    print("adding")\n    return a + b';
    const numbers = [...Array(6).keys()];
    const results = await Promise.all(numbers.map((a) => tools.run({source, name: 'add', args: {a, b: 1}})));
    assert.deepEqual(results.map((result) => result.funcReturn), numbers.map((a) => a + 1));
    assert.deepEqual(results[0].stdout, ['adding']);
    const failed = await tools.run({source: 'export function f() { throw new TypeError("no"); }', name: 'f', language: 'javascript'});
    assert.equal(failed.status, 'error');
    assert.throws(() => failed.check(), (error) => error instanceof pinfold.ToolFailed && error.kind === 'TypeError');
    await assert.rejects(tools.run({source, name: 'add', reuse: 'sometimes'}), pinfold.InvalidRequest);
    const slow = {source: 'import time\ndef slow():\n    time.sleep(1000)', name: 'slow', reuse: 'cold'};
    await assert.rejects(tools.run({...slow, signal: AbortSignal.timeout(300)}), {name: 'TimeoutError'});
    assert.equal((await tools.run({...slow, timeout: 0.5})).status, 'timeout');
  } finally {
    await tools.close();
  }
});

test('the half of an answer is an end, and nobody waits for the rest', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'pinfold-half-'));
  const program = path.join(folder, 'pinfold');
  fs.writeFileSync(program, '#!/bin/sh\nread call\nprintf \'{"id": 1, "exit_code": 0, "result": {"status": "succ\'\n', {mode: 0o755});
  const tools = new pinfold.ToolSandbox({program});
  await assert.rejects(tools.run({source: '', name: 'f'}), pinfold.SandboxGone);
  await tools.close();
  fs.rmSync(folder, {recursive: true});
});

test('without a runtime it is unavailable', () => {
  assert.throws(() => new pinfold.SandboxClient({program: '/no/such/pinfold'}), pinfold.SandboxUnavailable);
});

test('a sandbox whose supervisor dies is gone', async () => {
  const mortal = await client.create({labels: {tenant: 'b'}});
  assert.equal((await client.list({tenant: 'b'})).length, 1);
  const running = await mortal.start(['sleep', '1000']);
  process.kill((await mortal.show()).supervisor, 'SIGKILL');
  await assert.rejects(running.wait(), pinfold.SandboxGone);
  await assert.rejects(mortal.exec(['true']), (error) => error instanceof pinfold.SandboxGone || error instanceof pinfold.SandboxNotFound);
});
