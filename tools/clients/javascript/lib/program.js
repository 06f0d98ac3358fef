/** How the `pinfold` command is called where there is no sandbox yet to talk to. */
import {spawn} from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import process from 'node:process';

import {InvalidRequest, PinfoldError, SandboxUnavailable, fromJson} from './errors.js';

function isProgram(file) {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}

function findProgram(named) {
  const wanted = named ?? process.env.PINFOLD ?? 'pinfold';
  const folders = wanted.includes('/') ? [''] : (process.env.PATH ?? '').split(':');
  const found = folders.map((folder) => path.resolve(folder, wanted)).find(isProgram);
  if (found) return found;
  throw new SandboxUnavailable('unsupported', `there is no program '${wanted}'`, {
    hint: 'install pinfold, or name it in PINFOLD',
  });
}

/** As the command chooses it: PINFOLD_STATE, /run/pinfold for root, else the user's runtime directory, else /tmp. */
function stateFolder(named) {
  const chosen = named ?? process.env.PINFOLD_STATE;
  if (chosen) return chosen;
  const uid = process.geteuid();
  const runtime = process.env.XDG_RUNTIME_DIR ?? '';
  if (uid === 0) return '/run/pinfold';
  const facts = runtime.startsWith('/') ? fs.statSync(runtime, {throwIfNoEntry: false}) : undefined;
  return facts?.isDirectory() && facts.uid === uid ? path.join(runtime, 'pinfold') : `/tmp/pinfold-${uid}`;
}

function refusal(args, code, out, err) {
  try {
    return fromJson(JSON.parse(out).error);
  } catch {
    return new PinfoldError('system', err.trim() || `'${args[0]}' ended with ${code}`);
  }
}

export class Program {
  constructor({program, state, answerTimeoutMs = 30_000} = {}) {
    this.path = findProgram(program);
    this.state = stateFolder(state);
    this.answerTimeoutMs = answerTimeoutMs;
  }

  spawn(args, more = {}, stdio = ['ignore', 'pipe', 'pipe']) {
    try {
      return spawn(this.path, args, {
        env: {...process.env, PINFOLD_STATE: this.state, ...more},
        stdio,
      });
    } catch (error) {
      if (error.code !== 'ERR_INVALID_ARG_VALUE') throw error;
      throw new InvalidRequest('invalid', 'a text has a zero byte');
    }
  }

  /** What the command printed; its error as an exception. */
  async call(args, more = {}, signal = undefined) {
    signal?.throwIfAborted();
    const child = this.spawn(args, more);
    const onAbort = () => child.kill('SIGKILL');
    signal?.addEventListener('abort', onAbort, {once: true});
    const out = [];
    const err = [];
    child.stdout.on('data', (data) => out.push(data));
    child.stderr.on('data', (data) => err.push(data));
    const code = await this.ended(child).finally(() => signal?.removeEventListener('abort', onAbort));
    signal?.throwIfAborted();
    const text = Buffer.concat(out).toString();
    if (code !== 0) throw refusal(args, code, text, Buffer.concat(err).toString());
    return text;
  }

  ended(child) {
    return new Promise((resolve, reject) => {
      child.on('error', (error) => {
        reject(new SandboxUnavailable('unsupported', `can't run '${this.path}': ${error.message}`));
      });
      child.on('close', (code, signal) => resolve(code ?? signal));
    });
  }

  refusal(args, code, out, err) {
    return refusal(args, code, out, err);
  }
}
