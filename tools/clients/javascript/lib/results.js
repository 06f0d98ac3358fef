/** What comes back. */
import {ExecFailed, fromJson} from './errors.js';

export function decode(encoding, text) {
  return Buffer.from(text ?? '', encoding === 'base64' ? 'base64' : 'utf8');
}

export function usageOf(json = {}) {
  return {
    wallMs: json.wall_ms ?? 0,
    cpuMs: json.cpu_ms ?? 0,
    memoryPeakBytes: json.memory_peak_bytes ?? 0,
    pidsPeak: json.pids_peak ?? 0,
    egress: json.egress ?? {},
  };
}

export class ExecResult {
  /** `streams`: what was read from the command's own output, where it isn't in the result. */
  constructor(json, execId, streams = {}) {
    this.status = json.status;
    this.exitCode = json.exit_code;
    this.signal = json.signal ?? null;
    this.stdoutBytes = streams.stdout ?? decode(json.encoding, json.stdout);
    this.stderrBytes = streams.stderr ?? decode(json.encoding, json.stderr);
    this.truncatedStreams = json.truncated ?? {};
    this.usage = usageOf(json.usage);
    this.execId = execId;
    this.sandbox = json.sandbox ?? '';
    this.fingerprint = json.fingerprint ?? '';
    this.labels = json.labels ?? {};
    this.missing = json.missing ?? [];
    this.result = json.result ?? null;
    this.frames = json.frames ?? [];
    this.error = json.error ? fromJson(json.error) : null;
  }

  get stdout() {
    return this.stdoutBytes.toString();
  }

  get stderr() {
    return this.stderrBytes.toString();
  }

  get ok() {
    return this.status === 'success';
  }

  get truncated() {
    return Object.values(this.truncatedStreams).some(Boolean);
  }

  /** Itself, or a throw: the error that kept it from starting, or ExecFailed. */
  check() {
    if (this.ok) return this;
    throw this.error ?? new ExecFailed(this);
  }
}

export function logRecord(json) {
  return {
    kind: json.kind,
    seq: json.seq ?? 0,
    tNs: json.t_ns ?? 0,
    execId: json.exec ?? 0,
    data: decode(json.encoding, json.data),
    facts: json.facts ?? (json.kind === 'gap' ? {records: json.records} : {}),
  };
}
