/** What can go wrong, as classes. Each error has the fields of pinfold's own: kind, message, pointer, hint. */

export class PinfoldError extends Error {
  /** `pointer` says where to look (a file, a JSON pointer, a path), `hint` how to mend it; either may be empty. */
  constructor(kind, message, {pointer = '', hint = '', others = []} = {}) {
    super(message);
    this.name = new.target.name;
    this.kind = kind;
    this.pointer = pointer ?? '';
    this.hint = hint ?? '';
    this.others = others ?? [];
  }

  toString() {
    const where = this.pointer ? `${this.pointer}: ` : '';
    return `${this.name}: ${where}${this.message}${this.hint ? ` (${this.hint})` : ''}`;
  }
}

/** There is no runtime here, or the host can't give what was asked for. */
export class SandboxUnavailable extends PinfoldError {}
/** No sandbox, or no command, of this name. */
export class SandboxNotFound extends PinfoldError {}
/** The name is taken. */
export class SandboxExists extends PinfoldError {}
/** It is paused, starting or ending. */
export class SandboxBusy extends PinfoldError {}
/** There is no room for one more, or the supervisor doesn't answer. */
export class SandboxExhausted extends PinfoldError {}
/** It ended while it was being used. */
export class SandboxGone extends PinfoldError {}
/** The policy, or the site above it, doesn't grant this. */
export class PolicyRefused extends PinfoldError {}
/** What was asked for can't be meant. */
export class InvalidRequest extends PinfoldError {}

/** A command didn't succeed, and `check` was asked for. */
export class ExecFailed extends PinfoldError {
  constructor(result) {
    super('failed', `the command ended with ${result.status}, exit code ${result.exitCode}`);
    this.result = result;
  }
}

const KINDS = {
  unsupported: SandboxUnavailable,
  not_found: SandboxNotFound,
  exists: SandboxExists,
  busy: SandboxBusy,
  exhausted: SandboxExhausted,
  refused: PolicyRefused,
  usage: InvalidRequest,
  syntax: InvalidRequest,
  invalid: InvalidRequest,
};

export function fromJson(error) {
  const Kind = KINDS[error.kind] ?? PinfoldError;
  return new Kind(error.kind ?? 'internal', error.message ?? '', error);
}

export function unanswered(name) {
  const hint = `'pinfold kill ${name}' ends it in any case`;
  return new SandboxExhausted('exhausted', `the supervisor of '${name}' doesn't answer`, {hint});
}

export function closed() {
  return new PinfoldError('usage', 'the process was closed, which ends its command', {hint: 'wait() before close()'});
}

export function inputClosed() {
  const hint = 'it has ended, or closed its standard input';
  return new PinfoldError('system', 'the command takes no more input', {hint});
}

export function gone(name) {
  return new SandboxGone('system', `the sandbox '${name}' has gone`, {hint: `'pinfold show ${name}' says why`});
}
