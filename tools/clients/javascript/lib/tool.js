/** Tool calls: one function of untrusted source, its arguments in, its value out. Source: docs/tool.md. */
import {once} from 'node:events';
import readline from 'node:readline';

import {PinfoldError, SandboxGone, fromJson} from './errors.js';
import {Program} from './program.js';
import {usageOf} from './results.js';
import {toolArguments, upEnvironment} from './spec.js';

/** The function didn't return, and check() was asked for. */
export class ToolFailed extends PinfoldError {
  constructor(result) {
    const failure = result.funcReturn ?? {};
    super(String(failure.type ?? result.status), String(failure.message ?? 'the call failed'));
    this.result = result;
  }
}

export class ToolResult {
  constructor({result, exit_code: exitCode}) {
    this.status = result.status;
    this.funcReturn = result.func_return;
    this.agentState = result.agent_state;
    this.stdout = result.stdout;
    this.stderr = result.stderr;
    this.sandboxConfigFingerprint = result.sandbox_config_fingerprint;
    this.usage = usageOf(result.usage);
    this.notes = result.notes;
    this.exitCode = exitCode;
    this.whole = result;
  }

  get ok() {
    return this.status === 'success';
  }

  check() {
    if (this.ok) return this;
    throw new ToolFailed(this);
  }
}

const NAMES = {
  jsonSchema: 'json_schema',
  agentId: 'agent_id',
  projectId: 'project_id',
  toolId: 'tool_id',
  agentState: 'agent_state',
  agentStateEncoding: 'agent_state_encoding',
  pipRequirements: 'pip_requirements',
  npmRequirements: 'npm_requirements',
};

function ended() {
  return new SandboxGone('system', 'the server of tool calls has ended');
}

/** Undefined where the server ended in the middle of it. */
function answerOf(line) {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/**
 * Calls functions of tools, each in a sandbox that the runtime chooses: see `reuse` in docs/tool.md.
 * What holds for all calls is fields of a sandbox (policy, image, memory, egress, secrets, …). The server of the calls is
 * started with the first one and ends with close().
 */
export class ToolSandbox {
  #spec;
  #args;
  #server;
  #waiting = new Map();
  #last = 0;

  constructor({program, state, ...spec} = {}) {
    this.program = new Program({program, state});
    this.#spec = spec;
    this.#args = toolArguments(spec);
  }

  #start() {
    if (this.#server) return this.#server;
    const server = this.program.spawn(this.#args, upEnvironment(this.#spec), ['pipe', 'pipe', 'inherit']);
    const lines = readline.createInterface({input: server.stdout});
    lines.on('line', (line) => {
      const answer = answerOf(line);
      if (answer) this.#waiting.get(answer.id)?.resolve(answer);
      else server.kill('SIGKILL'); // what comes behind the half of an answer can't be told apart
    });
    server.stdin.on('error', () => {}); // its end says it
    server.closed = this.program.ended(server).then(ended, (error) => error).then((error) => {
      if (this.#server === server) this.#server = undefined;
      for (const {reject, of} of this.#waiting.values()) if (of === server) reject(error);
    });
    this.#server = server;
    return server;
  }

  /**
   * One call; the fields are those of docs/tool.md. Aborted by `signal`, it is ended. What the request or the policy
   * forbids is thrown; what the function does is a ToolResult.
   */
  async run({signal, language = 'python', reuse = 'fingerprint', ...fields}) {
    signal?.throwIfAborted();
    const call = {language, reuse};
    for (const [key, value] of Object.entries(fields)) call[NAMES[key] ?? key] = value;
    const server = this.#start();
    const id = ++this.#last;
    const send = (message) => server.stdin.write(`${JSON.stringify(message)}\n`);
    const onAbort = () => send({id: `cancel-${id}`, cancel: id});
    const answer = new Promise((resolve, reject) => this.#waiting.set(id, {resolve, reject, of: server}));
    try {
      send({id, call});
      signal?.addEventListener('abort', onAbort, {once: true});
      const message = await answer;
      signal?.throwIfAborted();
      if (message.error) throw fromJson(message.error);
      return new ToolResult(message);
    } finally {
      signal?.removeEventListener('abort', onAbort);
      this.#waiting.delete(id);
    }
  }

  /** Ends the calls that still run. */
  async close() {
    const server = this.#server;
    if (!server) return;
    server.stdin.end();
    if (server.exitCode === null && server.signalCode === null) await once(server, 'close');
    await server.closed;
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.close();
  }
}
