/** A command that runs, with its streams. */
import os from 'node:os';

import {Connection, lend} from './connection.js';
import {InvalidRequest, PinfoldError, closed, inputClosed} from './errors.js';
import {ExecResult} from './results.js';

export function signalNumber(signal) {
  if (typeof signal === 'number') return signal;
  const number = os.constants.signals[signal.startsWith('SIG') ? signal : `SIG${signal}`];
  if (number === undefined) throw new InvalidRequest('invalid', `'${signal}' is no signal`);
  return number;
}

export function execRequest(command, {env, cwd, user, secrets, frames, timeoutMs} = {}) {
  if (!Array.isArray(command))
    throw new InvalidRequest('invalid', 'a command is a list of arguments', {hint: 'runShell() takes text'});
  const request = {verb: 'exec', args: command.map(String)};
  if (env !== undefined) request.env = Object.fromEntries(Object.entries(env).map(([key, value]) => [key, String(value)]));
  if (cwd !== undefined) request.cwd = cwd;
  Object.assign(request, {user, secrets, frames}); // what is undefined isn't sent
  if (timeoutMs !== undefined) request.timeout_ms = Math.max(1, Math.round(timeoutMs));
  return request;
}

/** Until the stream has ended, or was closed by us. */
async function* chunksOf(stream, socket) {
  try {
    for await (const data of socket) yield {stream, data};
  } catch (error) {
    if (error.code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
  }
}

/**
 * `for await` gives {stream: 'stdout' | 'stderr', data: Buffer} as they come, until both have ended.
 * close() ends the command's whole tree if it still runs.
 */
export class Process {
  #connection;
  #sockets = {};
  #ended;
  #chunks = []; // that have come and that nobody has had
  #reading = new Map(); // what is awaited, of each stream: one chunk
  #kept = {stdout: [], stderr: []};
  /** Records that were gone from the log before they could be read: of attach() alone. */
  missed = 0;

  static async start(program, name, request, {stdin, tty, signal}) {
    signal?.throwIfAborted();
    const process = new Process();
    const names = ['stdin', 'stdout', 'stderr'].filter(
      (stream) => (stream !== 'stdin' || stdin !== undefined) && (stream !== 'stderr' || !tty),
    );
    try {
      process.#connection = await Connection.open(program, name);
      const lent = await Promise.all(names.map(async (stream) => {
        const {number, socket} = await lend(program, name);
        process.#sockets[stream] = socket;
        socket.on('error', () => {}); // its end says it
        return number;
      }));
      for (const stream of names) request[stream] = true;
      if (tty) Object.assign(request, {tty: true, rows: tty.rows, columns: tty.columns});
      await process.#send({...request, lent}, signal);
      for (const stream of names) if (stream !== 'stdin') process.#read(stream, chunksOf(stream, process.#sockets[stream]));
      if (stdin !== undefined && stdin !== true) process.#sockets.stdin.end(stdin);
    } catch (error) {
      process.close();
      throw error;
    }
    return process;
  }

  async #send(request, signal) {
    await new Promise((resolve, reject) => {
      this.#ended = this.#connection.request(request, ['result'], (message) => {
        this.missed += message.records ?? 0;
        if (message.exec === undefined) return;
        this.execId = message.exec;
        resolve();
      });
      this.#ended.then((message) => {
        this.execId ??= message.exec;
        resolve();
      }, reject);
    });
    const onAbort = () => this.close(signal.reason);
    if (signal?.aborted) onAbort();
    signal?.addEventListener('abort', onAbort, {once: true});
    this.#ended.finally(() => signal?.removeEventListener('abort', onAbort)).catch(() => {});
  }

  /** One chunk, which is asked for as soon as somebody has had the one before. */
  #read(stream, reader) {
    const come = reader.next().then(
      ({done, value}) => {
        if (!done) this.#chunks.push({value, goOn: () => this.#read(stream, reader)});
      },
      (error) => this.#chunks.push({error}),
    );
    this.#reading.set(stream, come.then(() => this.#reading.delete(stream)));
  }

  /** What comes next, for whoever asks: who stops asking loses nothing. */
  async #next() {
    while (this.#chunks.length === 0 && this.#reading.size > 0) await Promise.race(this.#reading.values());
    const {value, goOn, error} = this.#chunks.shift() ?? {};
    if (error) throw error;
    goOn?.();
    return value;
  }

  async *[Symbol.asyncIterator]() {
    for (let chunk = await this.#next(); chunk; chunk = await this.#next()) yield chunk;
  }

  /** To its standard input; resolves when the host has taken it. */
  async write(data) {
    const socket = this.#sockets.stdin;
    if (!socket) throw new PinfoldError('usage', 'this command has no standard input', {hint: 'start it with stdin: true'});
    await new Promise((resolve, reject) => {
      socket.write(data, (error) => (error ? reject(inputClosed()) : resolve()));
    });
  }

  closeStdin() {
    this.#sockets.stdin?.end();
  }

  /** Its end, with the output that wasn't iterated over. */
  async wait() {
    this.closeStdin();
    for await (const {stream, data} of this) this.#kept[stream].push(data);
    const message = await this.#ended;
    return new ExecResult(message.result, this.execId, {
      stdout: Buffer.concat(this.#kept.stdout),
      stderr: Buffer.concat(this.#kept.stderr),
    });
  }

  async #ask(request) {
    await this.#connection.request({...request, exec: this.execId});
  }

  async signal(signal) {
    await this.#ask({verb: 'signal', signal: signalNumber(signal)});
  }

  /** SIGKILL to all of its tree. */
  async kill() {
    await this.#ask({verb: 'end'});
  }

  async resize({rows, columns}) {
    await this.#ask({verb: 'resize', rows, columns});
  }

  close(why = closed()) {
    this.#connection?.close(why);
    for (const socket of Object.values(this.#sockets)) socket.destroy();
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    this.close();
  }
}
