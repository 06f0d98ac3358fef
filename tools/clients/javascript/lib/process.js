/** A command that runs, with its streams. */
import os from 'node:os';

import {Connection, lend} from './connection.js';
import {InvalidRequest, PinfoldError} from './errors.js';
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
  #iterated = false;
  /** Records that were gone from the log before they could be read: of attach() alone. */
  missed = 0;

  static async start(program, name, request, {stdin, tty, signal}) {
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
    const onAbort = () => this.close();
    if (signal?.aborted) onAbort();
    signal?.addEventListener('abort', onAbort, {once: true});
    this.#ended.finally(() => signal?.removeEventListener('abort', onAbort)).catch(() => {});
  }

  async *[Symbol.asyncIterator]() {
    if (this.#iterated) throw new PinfoldError('usage', 'its output can be read once');
    this.#iterated = true;
    const readers = new Map();
    const next = (reader) => readers.set(reader, reader.next().then((item) => ({reader, item})));
    for (const stream of ['stdout', 'stderr'])
      if (this.#sockets[stream]) next(chunksOf(stream, this.#sockets[stream]));
    while (readers.size > 0) {
      const {reader, item} = await Promise.race(readers.values());
      if (item.done) {
        readers.delete(reader);
      } else {
        next(reader);
        yield item.value;
      }
    }
  }

  /** To its standard input; resolves when there is room for more. */
  async write(data) {
    const socket = this.#sockets.stdin;
    if (!socket) throw new PinfoldError('usage', 'this command has no standard input', {hint: 'start it with stdin: true'});
    if (!socket.write(data)) {
      await new Promise((resolve) => {
        socket.once('drain', resolve);
        socket.once('close', resolve);
      });
    }
  }

  closeStdin() {
    this.#sockets.stdin?.end();
  }

  /** Its end, with the output that wasn't iterated over. */
  async wait() {
    this.closeStdin();
    const kept = {stdout: [], stderr: []};
    if (!this.#iterated) for await (const {stream, data} of this) kept[stream].push(data);
    const message = await this.#ended;
    return new ExecResult(message.result, this.execId, {
      stdout: Buffer.concat(kept.stdout),
      stderr: Buffer.concat(kept.stderr),
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

  close() {
    this.#connection?.close();
    for (const socket of Object.values(this.#sockets)) socket.destroy();
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    this.close();
  }
}
