/** Kept sandboxes and tool calls of pinfold. index.d.ts has the types, docs/clients.md the description. */
export {SandboxClient, SandboxHandle} from './lib/client.js';
export {Process} from './lib/process.js';
export {ExecResult} from './lib/results.js';
export {ToolFailed, ToolResult, ToolSandbox} from './lib/tool.js';
export {
  ExecFailed,
  InvalidRequest,
  PinfoldError,
  PolicyRefused,
  SandboxBusy,
  SandboxExhausted,
  SandboxExists,
  SandboxGone,
  SandboxNotFound,
  SandboxUnavailable,
} from './lib/errors.js';
