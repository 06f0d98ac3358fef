/** What a sandbox is to be, as the command line of `pinfold up`. */
import {randomBytes} from 'node:crypto';
import path from 'node:path';

import {InvalidRequest} from './errors.js';

const MODES = ['rw', 'ro', 'cow'];
const KNOWN = new Set([
  'name', 'policy', 'site', 'image', 'bundle', 'workspace', 'workspaceMode', 'onExit', 'env', 'memory', 'cpus', 'pids',
  'timeoutMs', 'idleTimeoutMs', 'lifetimeMs', 'egress', 'secrets', 'secretValues', 'labels', 'tty',
]);

export function madeUpName() {
  return `s-${randomBytes(8).toString('hex')}`;
}

function time(value) {
  if (value === undefined) return undefined;
  if (!(value > 0)) throw new InvalidRequest('invalid', `a time of ${value} ms is none`, {hint: 'leave it out for no limit'});
  return `${Math.max(1, Math.round(value))}ms`;
}

function workspace({workspace: folder, workspaceMode: mode = 'rw'}) {
  if (folder === undefined) return undefined;
  if (!MODES.includes(mode)) throw new InvalidRequest('invalid', `'${mode}' is no mode of a workspace`, {hint: 'rw, ro or cow'});
  return mode === 'rw' ? path.resolve(folder) : `${path.resolve(folder)}:${mode}`;
}

/** Where a secret's value stands in the environment of the command: never in its arguments. */
function variable(secret) {
  return `PINFOLD_CLIENT_SECRET_${Buffer.from(secret).toString('hex')}`;
}

export function upArguments(spec, name) {
  for (const key of Object.keys(spec))
    if (!KNOWN.has(key)) throw new InvalidRequest('invalid', `'${key}' is no field of a sandbox`, {pointer: `/${key}`});
  const single = {
    policy: spec.policy,
    site: spec.site,
    image: spec.image,
    bundle: spec.bundle,
    workspace: workspace(spec),
    'on-exit': spec.onExit,
    memory: spec.memory,
    cpus: spec.cpus,
    pids: spec.pids,
    timeout: time(spec.timeoutMs),
    'idle-timeout': time(spec.idleTimeoutMs),
    lifetime: time(spec.lifetimeMs),
  };
  const pairs = (option, map) => Object.entries(map ?? {}).map(([key, value]) => `--${option}=${key}=${value}`);
  return [
    'up',
    '--json',
    ...Object.entries(single).filter(([, value]) => value !== undefined).map(([option, value]) => `--${option}=${value}`),
    ...pairs('env', spec.env),
    ...pairs('label', spec.labels),
    ...(spec.egress ?? []).map((rule) => `--egress=${rule}`),
    ...(spec.secrets ?? []).map((secret) => `--secret=${secret}`),
    ...Object.keys(spec.secretValues ?? {}).map((secret) => `--secret-from-env=${secret}=${variable(secret)}`),
    ...(spec.tty ? ['--tty'] : []),
    name,
  ];
}

export function upEnvironment(spec) {
  return Object.fromEntries(Object.entries(spec.secretValues ?? {}).map(([secret, value]) => [variable(secret), value]));
}
