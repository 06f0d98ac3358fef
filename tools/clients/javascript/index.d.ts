/** Kept sandboxes and tool calls of pinfold, from Node. Times are milliseconds, sizes bytes. */

export interface ClientOptions {
  /** The command; else the variable PINFOLD, else `pinfold` on PATH. */
  program?: string;
  /** The state directory; else as the command chooses it. */
  state?: string;
}

export interface SandboxClientOptions extends ClientOptions {
  /** What a supervisor has for what it answers at once (30,000); then SandboxExhausted. */
  answerTimeoutMs?: number;
}

/** Every field but `name` is a request below the policy: a field that asks for more is refused, never narrowed. */
export interface SandboxSpec {
  name?: string;
  policy?: string;
  site?: string;
  image?: string;
  bundle?: string;
  workspace?: string;
  workspaceMode?: 'rw' | 'ro' | 'cow';
  onExit?: 'discard' | 'keep' | 'merge';
  env?: Record<string, string>;
  /** Bytes, or text such as "512MiB". */
  memory?: number | string;
  cpus?: number;
  pids?: number;
  /** That each command may take. */
  timeoutMs?: number;
  /** Until the sandbox ends by itself. */
  idleTimeoutMs?: number;
  lifetimeMs?: number;
  /** "HOST:PORT" */
  egress?: string[];
  /** "PORT" or "PORT=PLACE", of what the policy publishes; show() says where. */
  publish?: string[];
  /** "NAME", "NAME:env=VARIABLE" or "NAME:file" */
  secrets?: string[];
  /** Values of the caller's own by logical name, handed over in an environment, never in arguments. */
  secretValues?: Record<string, string>;
  labels?: Record<string, string>;
  tty?: boolean;
}

export interface CommandOptions {
  env?: Record<string, string>;
  cwd?: string;
  user?: string;
  /** "NAME" or "NAME:env=VARIABLE" */
  secrets?: string[];
  frames?: 'none' | 'fd' | 'stdout' | 'stdout-letta';
  timeoutMs?: number;
}

export interface ExecOptions extends CommandOptions {
  stdin?: string | Uint8Array;
  /** Aborting ends the command's whole tree. */
  signal?: AbortSignal;
  /** Throw where the command doesn't succeed. */
  check?: boolean;
}

export interface StartOptions extends CommandOptions {
  /** true: by write() */
  stdin?: true | string | Uint8Array;
  tty?: {rows: number; columns: number};
  signal?: AbortSignal;
}

export interface Usage {
  wallMs: number;
  cpuMs: number;
  memoryPeakBytes: number;
  pidsPeak: number;
  egress: Record<string, number>;
}

export type Status = 'success' | 'error' | 'timeout' | 'memory' | 'output' | 'killed' | 'refused';

export class ExecResult {
  private constructor();
  readonly status: Status;
  readonly exitCode: number;
  readonly signal: string | null;
  /** Text; U+FFFD stands for what is no UTF-8. */
  readonly stdout: string;
  readonly stderr: string;
  readonly stdoutBytes: Buffer;
  readonly stderrBytes: Buffer;
  readonly truncated: boolean;
  readonly truncatedStreams: Record<string, boolean>;
  readonly usage: Usage;
  readonly execId: number;
  readonly sandbox: string;
  readonly fingerprint: string;
  readonly labels: Record<string, string>;
  readonly missing: string[];
  readonly result: unknown;
  readonly frames: Array<Record<string, unknown>>;
  readonly error: PinfoldError | null;
  readonly ok: boolean;
  /** Itself, or a throw: the error that kept it from starting, or ExecFailed. */
  check(): ExecResult;
}

export interface Chunk {
  stream: 'stdout' | 'stderr';
  data: Buffer;
}

export interface LogRecord {
  kind: 'stdout' | 'stderr' | 'start' | 'end' | 'cut' | 'gap';
  seq: number;
  tNs: number;
  execId: number;
  data: Buffer;
  facts: Record<string, unknown>;
}

/** A number, or a name with or without "SIG". */
export type Signal = number | string;

export class Process implements AsyncIterable<Chunk> {
  private constructor();
  readonly execId: number;
  /** Records that were gone from the log before they could be read: of attach() alone. */
  readonly missed: number;
  [Symbol.asyncIterator](): AsyncGenerator<Chunk, void, undefined>;
  write(data: string | Uint8Array): Promise<void>;
  closeStdin(): void;
  /** Its end, with the output that wasn't iterated over. */
  wait(): Promise<ExecResult>;
  signal(signal: Signal): Promise<void>;
  /** SIGKILL to all of its tree. */
  kill(): Promise<void>;
  resize(size: {rows: number; columns: number}): Promise<void>;
  /** Ends the command's whole tree if it still runs. */
  close(): void;
}

export interface LogOptions {
  /** The last number that was seen. */
  since?: number;
  tail?: number;
  execId?: number;
  /** A regular expression that the output has to have. */
  grep?: string;
  /** Until the sandbox ends. */
  follow?: boolean;
}

export class SandboxHandle {
  private constructor();
  readonly client: SandboxClient;
  readonly name: string;
  exec(command: string[], options?: ExecOptions): Promise<ExecResult>;
  shell(script: string, options?: ExecOptions): Promise<ExecResult>;
  runShell(script: string, options?: ExecOptions): Promise<ExecResult>;
  runPython(source: string, args?: string[], options?: ExecOptions): Promise<ExecResult>;
  start(command: string[], options?: StartOptions): Promise<Process>;
  /** A command's output from a record of the log on, and its input where it is interactive. Closing it ends nothing. */
  attach(execId?: number, options?: {since?: number; stdin?: true}): Promise<Process>;
  /** Starts a command that outlives this client; its number, for attach(), wait(), signal() and logs(). */
  detach(command: string[], options?: CommandOptions & {interactive?: boolean}): Promise<number>;
  show(): Promise<Record<string, unknown>>;
  stats(): Promise<Record<string, unknown>>;
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Since its last use, and from now on. */
  renew(times: {idleMs?: number; lifetimeMs?: number}): Promise<void>;
  signal(signal: Signal, execId?: number): Promise<void>;
  wait(execId?: number): Promise<Record<string, unknown>>;
  stop(options?: {graceMs?: number}): Promise<void>;
  kill(): Promise<void>;
  remove(options?: {force?: boolean}): Promise<void>;
  logs(options?: LogOptions): AsyncGenerator<LogRecord, void, undefined>;
  copyIn(source: string, target: string): Promise<void>;
  copyOut(source: string, target: string): Promise<void>;
  writeFile(file: string, data: string | Uint8Array): Promise<void>;
  readFile(file: string): Promise<Buffer>;
  /** Lets the connection go; the sandbox lives on. */
  close(): Promise<void>;
}

/** Makes, finds and removes kept sandboxes. SandboxUnavailable where there is no runtime. */
export class SandboxClient {
  constructor(options?: SandboxClientOptions);
  /** Aborting ends what is being made. */
  create(spec?: SandboxSpec, options?: {signal?: AbortSignal}): Promise<SandboxHandle>;
  /** One that lives; SandboxNotFound otherwise. */
  get(name: string): Promise<SandboxHandle>;
  /** Those with all these labels (null: any value), alive or ended. */
  list(labels?: Record<string, string | null>): Promise<Array<Record<string, unknown>>>;
  remove(name: string, options?: {force?: boolean}): Promise<void>;
}

export interface ToolOptions
  extends ClientOptions,
    Pick<
      SandboxSpec,
      'policy' | 'site' | 'image' | 'workspace' | 'workspaceMode' | 'memory' | 'cpus' | 'pids' | 'egress' | 'secrets' | 'secretValues'
    > {}

/** The fields of docs/tool.md. */
export interface ToolCall {
  source: string;
  language?: 'python' | 'typescript' | 'javascript';
  name?: string;
  args?: Record<string, unknown>;
  jsonSchema?: Record<string, unknown>;
  call?: 'positional' | 'named';
  agentId?: string;
  projectId?: string;
  toolId?: string;
  agentState?: unknown;
  agentStateEncoding?: 'json' | 'pickle';
  env?: {sandbox?: Variables; agent?: Variables; call?: Variables};
  labels?: Record<string, string>;
  /** Seconds, or text such as "500ms". */
  timeout?: number | string;
  pipRequirements?: string[];
  npmRequirements?: string[];
  organisation?: string;
  configuration?: string;
  privileged?: boolean;
  reuse?: 'cold' | 'never' | 'fingerprint';
  /** Aborting ends the call. */
  signal?: AbortSignal;
}
export type Variables = Record<string, string | null>;

export class ToolResult {
  private constructor();
  readonly status: Exclude<Status, 'refused'>;
  /** The value; without success an object with type, message and traceback. */
  readonly funcReturn: unknown;
  readonly agentState: unknown;
  readonly stdout: string[];
  readonly stderr: string[];
  readonly sandboxConfigFingerprint: string;
  readonly usage: Usage;
  readonly notes: string[];
  readonly exitCode: number;
  /** As the runtime gave it. */
  readonly whole: Record<string, unknown>;
  readonly ok: boolean;
  check(): ToolResult;
}

/** Calls functions of tools, each in a sandbox that the runtime chooses. */
export class ToolSandbox {
  constructor(options?: ToolOptions);
  run(call: ToolCall): Promise<ToolResult>;
  /** Ends the calls that still run. */
  close(): Promise<void>;
}

export interface Fault {
  kind: string;
  message: string;
  pointer: string;
  hint: string;
}

export class PinfoldError extends Error {
  readonly kind: string;
  /** Where to look: a file, a JSON pointer, a path; or "". */
  readonly pointer: string;
  /** How to mend it; or "". */
  readonly hint: string;
  readonly others: Fault[];
}
export class SandboxUnavailable extends PinfoldError {}
export class SandboxNotFound extends PinfoldError {}
export class SandboxExists extends PinfoldError {}
export class SandboxBusy extends PinfoldError {}
export class SandboxExhausted extends PinfoldError {}
export class SandboxGone extends PinfoldError {}
export class PolicyRefused extends PinfoldError {}
export class InvalidRequest extends PinfoldError {}
export class ToolFailed extends PinfoldError {
  readonly result: ToolResult;
}
export class ExecFailed extends PinfoldError {
  readonly result: ExecResult;
}
