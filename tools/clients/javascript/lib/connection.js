/** The control socket: requests by number, several on their way at once. Source: docs/kept.md. */
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import process from 'node:process';

import {InvalidRequest, PolicyRefused, SandboxGone, SandboxNotFound, fromJson, gone, unanswered} from './errors.js';

const VERSION = 1;
const REPLY_MAX = 3 * 1024 ** 3;
const CONNECT_MS = 5_000;
const LASTING = new Set(['exec', 'attach', 'wait', 'stop', 'kill']); // the others are answered at once
const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/;
const {O_DIRECTORY, O_NOFOLLOW, O_RDONLY} = fs.constants;

/** In JSON text: a zero byte, or half of a character, which no argument and no variable can have. */
const UNSENDABLE = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/;

function pack(message) {
  const json = JSON.stringify({pinfold: VERSION, ...message});
  if (UNSENDABLE.test(json)) throw new InvalidRequest('invalid', 'a text has a zero byte, or half a character');
  const text = Buffer.from(json);
  const head = Buffer.alloc(4);
  head.writeUInt32BE(text.length);
  return Buffer.concat([head, text]);
}

/** Bytes as they come, messages as they are whole. */
class Decoder {
  #chunks = [];
  #size = 0;

  *feed(chunk) {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    for (let length = this.#length(); length !== undefined && this.#size >= 4 + length; length = this.#length()) {
      const whole = Buffer.concat(this.#chunks);
      this.#chunks = [whole.subarray(4 + length)];
      this.#size -= 4 + length;
      yield JSON.parse(whole.subarray(4, 4 + length).toString());
    }
  }

  #length() {
    if (this.#size < 4) return undefined;
    if (this.#chunks[0].length < 4) this.#chunks = [Buffer.concat(this.#chunks)];
    const length = this.#chunks[0].readUInt32BE(0);
    if (length > REPLY_MAX) throw new SandboxGone('syntax', `a message of ${length} bytes is too long`);
    return length;
  }
}

function openFolder(state, name) {
  if (!NAME.test(name) || name.includes('..')) throw new InvalidRequest('invalid', `'${String(name).slice(0, 70)}' is no name of a sandbox`);
  try {
    const facts = fs.statSync(state);
    if (facts.uid !== process.geteuid() || (facts.mode & 0o077) !== 0)
      throw new PolicyRefused('refused', `the state directory '${state}' is another's, or open to others`);
    return fs.openSync(path.join(state, 'sandboxes', name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  } catch (error) {
    if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw error;
    throw new SandboxNotFound('not_found', `there is no sandbox '${name}'`);
  }
}

/** A connected socket; the path goes by a descriptor, since that of a socket is short. */
async function connect(state, name) {
  for (const until = Date.now() + CONNECT_MS; ; await new Promise((resolve) => setTimeout(resolve, 10))) {
    const socket = await tryToConnect(state, name);
    if (socket) return socket;
    if (Date.now() > until) throw unanswered(name); // it lets nobody in
  }
}

/** Undefined while too many wait to be let in. */
function tryToConnect(state, name) {
  const folder = openFolder(state, name);
  return new Promise((resolve, reject) => {
    const socket = net.connect({path: `/proc/self/fd/${folder}/control`, allowHalfOpen: true});
    socket.once('connect', () => {
      socket.removeAllListeners('error');
      resolve(socket);
    });
    socket.once('error', (error) => {
      const ended = error.code === 'ENOENT' || error.code === 'ECONNREFUSED';
      const hint = `'pinfold rm ${name}' removes what is left of it`;
      if (error.code === 'EAGAIN') resolve(undefined);
      else reject(ended ? new SandboxNotFound('not_found', `the sandbox '${name}' has ended`, {hint}) : error);
    });
  }).finally(() => fs.closeSync(folder));
}

export class Connection {
  #waiting = new Map();
  #decoder = new Decoder();
  #last = 0;

  /** `program` has the state directory, and how long an answer is waited for. */
  static async open(program, name) {
    return new Connection(await connect(program.state, name), name, program.answerTimeoutMs);
  }

  constructor(socket, name, answerTimeoutMs) {
    this.socket = socket;
    this.name = name;
    this.answerTimeoutMs = answerTimeoutMs;
    this.closed = false;
    socket.on('data', (chunk) => this.#take(chunk));
    socket.on('error', () => this.#fail(gone(name)));
    socket.on('end', () => this.#fail(gone(name)));
  }

  #take(chunk) {
    try {
      for (const message of this.#decoder.feed(chunk)) {
        if (message.id === 0 && message.error) throw fromJson(message.error); // it can't be said which of them is meant
        this.#waiting.get(message.id)?.(message);
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error) {
    this.closed = true;
    this.socket.destroy();
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const take of waiting) take({failure: error});
  }

  /**
   * Resolves with the first message that has one of these keys; `each` sees those before it.
   * While it waits, the process is kept alive by it.
   */
  request(body, last = ['ok'], each = () => {}) {
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      const packed = pack({id, ...body});
      const overdue = () => settle(reject, unanswered(this.name));
      const timer = LASTING.has(body.verb) ? undefined : setTimeout(overdue, this.answerTimeoutMs);
      const settle = (how, what) => {
        clearTimeout(timer);
        this.#waiting.delete(id);
        if (this.#waiting.size === 0) this.socket.unref();
        how(what);
      };
      this.#waiting.set(id, (message) => {
        if (message.failure) settle(reject, message.failure);
        else if (message.error) settle(reject, fromJson(message.error));
        else if (last.some((key) => key in message)) settle(resolve, message);
        else each(message);
      });
      this.socket.ref();
      if (this.closed) this.#waiting.get(id)({failure: gone(this.name)});
      else this.socket.write(packed);
    });
  }

  /** `why` is what those are told who wait. */
  close(why = gone(this.name)) {
    this.#fail(why);
  }
}

/** A connection that has become a descriptor of the supervisor's: {number, socket}. */
export async function lend(program, name) {
  const connection = await Connection.open(program, name);
  const {ok} = await connection.request({verb: 'lend'}).catch((error) => {
    connection.close();
    throw error;
  });
  const {socket} = connection;
  socket.removeAllListeners('data');
  socket.removeAllListeners('error');
  socket.removeAllListeners('end');
  socket.pause();
  socket.ref();
  return {number: ok.lent, socket};
}
