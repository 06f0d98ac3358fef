/** Sandboxes: made, found, used and removed. */
import path from 'node:path';
import readline from 'node:readline';

import {Connection, lend} from './connection.js';
import {PinfoldError, SandboxGone, fromJson} from './errors.js';
import {Process, execRequest, signalNumber} from './process.js';
import {Program} from './program.js';
import {ExecResult, logRecord} from './results.js';
import {madeUpName, pairs, upArguments, upEnvironment} from './spec.js';

const SOURCE_MAX = 100 * 1024; // an argument has 128 KiB at most: longer sources go in by standard input
const DISPOSE = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');

/** One kept sandbox. The handle holds a connection, the sandbox lives without it; close() lets it go. */
export class SandboxHandle {
  #connection;

  constructor(client, name) {
    this.client = client;
    this.name = name;
  }

  async #open() {
    let connection = await this.#connection;
    if (!connection || connection.closed) {
      this.#connection = Connection.open(this.client.program, this.name);
      connection = await this.#connection.catch((error) => {
        this.#connection = undefined;
        throw error;
      });
    }
    return connection;
  }

  async #call(request) {
    return (await (await this.#open()).request(request)).ok;
  }

  /** Runs a command to its end. Aborted by `signal`, its whole tree is ended before this rejects. */
  async exec(command, options = {}) {
    const {stdin, signal, check = false} = options;
    const request = {...execRequest(command, options), output: 'capture', stdin: stdin !== undefined};
    signal?.throwIfAborted();
    const connection = await this.#open();
    const input = stdin === undefined ? undefined : await lend(this.client.program, this.name);
    if (input) request.lent = [input.number];
    let end;
    const onAbort = () => end?.();
    try {
      signal?.addEventListener('abort', onAbort, {once: true});
      const answer = connection.request(request, ['result'], ({exec}) => {
        end = () => connection.request({verb: 'end', exec}).catch(() => {}); // it may have ended meanwhile
        if (signal?.aborted) end();
      });
      input?.socket.on('error', () => {}); // the command needn't read it all
      input?.socket.end(stdin);
      const message = await answer;
      signal?.throwIfAborted();
      const result = new ExecResult(message.result, message.exec);
      return check ? result.check() : result;
    } finally {
      signal?.removeEventListener('abort', onAbort);
      input?.socket.destroy();
    }
  }

  /** A script for `sh`, with the options of exec(). */
  shell(script, options) {
    return this.exec(['sh', '-c', script], options);
  }

  runShell(script, options) {
    return this.shell(script, options);
  }

  /** A program for the sandbox's python3, with the options of exec(). */
  runPython(source, args = [], options = {}) {
    if (Buffer.byteLength(source) <= SOURCE_MAX) return this.exec(['python3', '-c', source, ...args], options);
    return this.exec(['python3', '-', ...args], {...options, stdin: source});
  }

  /** A command that runs on. stdin: text, bytes, or true for write(). tty: {rows, columns} of a terminal of its own. */
  start(command, options = {}) {
    return Process.start(this.client.program, this.name, execRequest(command, options), options);
  }

  /**
   * The output of a command that runs or has ended, from a record of the log on, without a loss; without a number of the
   * last one that runs. Its input too, where it was started as interactive. Closing this ends nothing.
   */
  attach(execId, {since, stdin} = {}) {
    const request = {verb: 'attach', exec: execId, since};
    return Process.start(this.client.program, this.name, request, {stdin});
  }

  /**
   * Starts a command that outlives this client; its number, for attach(), wait(), signal() and logs().
   * interactive: its standard input stays open, for attach().
   */
  async detach(command, options = {}) {
    const request = {...execRequest(command, options), detach: true, interactive: options.interactive};
    const message = await (await this.#open()).request(request, ['exec']);
    if (message.result) new ExecResult(message.result, message.exec).check();
    return message.exec;
  }

  show() {
    return this.#call({verb: 'show'});
  }

  stats() {
    return this.#call({verb: 'stats'});
  }

  async pause() {
    await this.#call({verb: 'pause'});
  }

  async resume() {
    await this.#call({verb: 'resume'});
  }

  /** New times until it ends by itself: since its last use, and from now on. */
  async renew({idleMs, lifetimeMs}) {
    await this.#call({verb: 'renew', idle_ms: idleMs, lifetime_ms: lifetimeMs});
  }

  /** To one command, or to every process. */
  async signal(signal, execId) {
    await this.#call({verb: 'signal', signal: signalNumber(signal), exec: execId});
  }

  /** How a command, or the sandbox itself, has ended. */
  wait(execId) {
    return this.#call({verb: 'wait', exec: execId});
  }

  async #end(request) {
    try {
      await this.#call(request);
    } catch (error) {
      if (!(error instanceof SandboxGone)) throw error;
    }
    await this.close();
  }

  /** SIGTERM, and SIGKILL after the grace; resolves when nothing is left of it but its log. */
  stop({graceMs} = {}) {
    return this.#end({verb: 'stop', grace_ms: graceMs});
  }

  /** At once, whatever its supervisor does: as the command does it. */
  async kill() {
    await this.close();
    await this.client.program.call(['kill', '--json', '--', this.name]);
  }

  /** With what is left of it. Without `force`, SandboxBusy while it lives. */
  async remove({force = true} = {}) {
    await this.close();
    await this.client.remove(this.name, {force});
  }

  /** What commands have printed, alive or not; `since` is the last number that was seen. With `follow`, until it ends. */
  async *logs({since, tail, execId, grep, follow = false} = {}) {
    const numbers = Object.entries({since, tail, exec: execId, grep}).filter(([, value]) => value !== undefined);
    const options = numbers.map(([option, value]) => `--${option}=${value}`);
    const args = ['logs', '--json', ...options, ...(follow ? ['--follow'] : []), '--', this.name];
    const {program} = this.client;
    const child = program.spawn(args);
    const ended = program.ended(child);
    ended.catch(() => {}); // told below
    let err = '';
    child.stderr.on('data', (data) => (err += data));
    try {
      for await (const line of readline.createInterface({input: child.stdout})) {
        const record = JSON.parse(line);
        if (record.error) throw fromJson(record.error);
        yield logRecord(record);
      }
      const code = await ended;
      if (code !== 0) throw program.refusal(args, code, '', err);
    } finally {
      child.kill('SIGKILL');
    }
  }

  /** A file or a tree of the host's, to an absolute path inside. */
  async copyIn(source, target) {
    await this.client.program.call(['cp', '--json', '--', path.resolve(source), `${this.name}:${target}`]);
  }

  async copyOut(source, target) {
    await this.client.program.call(['cp', '--json', '--', `${this.name}:${source}`, path.resolve(target)]);
  }

  /** By a command inside, so by the sandbox's own user and rights. */
  async writeFile(file, data) {
    await this.exec(['sh', '-c', 'cat >"$1"', 'sh', file], {stdin: data, check: true});
  }

  /** Whole, or an error: within the policy's limit of standard output. */
  async readFile(file) {
    const result = await this.exec(['cat', '--', file], {check: true});
    if (!result.truncated) return result.stdoutBytes;
    throw new PinfoldError('exhausted', `'${file}' is larger than the policy lets out`, {hint: 'use copyOut()'});
  }

  async close() {
    const connection = this.#connection;
    this.#connection = undefined;
    (await connection?.catch(() => undefined))?.close();
  }

  /** `await using sandbox = await client.create(…)` leaves nothing behind. */
  async [DISPOSE]() {
    await this.remove();
  }
}

/**
 * Makes, finds and removes kept sandboxes. SandboxUnavailable where there is no runtime.
 * program: the command (else PINFOLD, else `pinfold` on PATH). state: the state directory (else as the command has it).
 * answerTimeoutMs: what a supervisor has for what it answers at once; then SandboxExhausted.
 */
export class SandboxClient {
  constructor(options) {
    this.program = new Program(options);
  }

  /** Aborted by `signal`, none is left whose name nobody has. */
  async create(spec = {}, {signal} = {}) {
    const name = spec.name ?? madeUpName();
    try {
      await this.program.call(upArguments(spec, name), upEnvironment(spec), signal);
    } catch (error) {
      // it may have come to be just then; one that was named could be somebody else's, older
      if (signal?.aborted && spec.name === undefined) await this.remove(name).catch(() => {});
      throw error;
    }
    return new SandboxHandle(this, name);
  }

  /** One that lives; SandboxNotFound otherwise. */
  async get(name) {
    const handle = new SandboxHandle(this, name);
    await handle.show();
    return handle;
  }

  /** Those with all these labels (null: any value), alive or ended: what show() tells of each. */
  async list(labels = {}) {
    return JSON.parse(await this.program.call(['ls', '--json', ...pairs('label', labels)]));
  }

  async remove(name, {force = true} = {}) {
    await this.program.call(['rm', '--json', ...(force ? ['--force'] : []), '--', name]);
  }
}
