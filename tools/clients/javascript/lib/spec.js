/** What a sandbox is to be, as the command line of `pinfold up`. */
import {randomBytes} from 'node:crypto';
import path from 'node:path';

import {InvalidRequest} from './errors.js';

const MODES = ['rw', 'ro', 'cow'];
const KNOWN = new Set([
  'name', 'policy', 'site', 'image', 'bundle', 'workspace', 'workspaceMode', 'onExit', 'env', 'memory', 'cpus', 'pids',
  'timeoutMs', 'idleTimeoutMs', 'lifetimeMs', 'egress', 'publish', 'secrets', 'secretValues', 'labels', 'tty',
]);

const OF_TOOLS = new Set([
  'policy', 'site', 'image', 'workspace', 'workspaceMode', 'memory', 'cpus', 'pids', 'egress', 'secrets', 'secretValues',
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

function check(spec, known) {
  for (const key of Object.keys(spec))
    if (!known.has(key)) throw new InvalidRequest('invalid', `'${key}' is no field of this`, {pointer: `/${key}`});
}

function singles(options) {
  return Object.entries(options).filter(([, value]) => value !== undefined).map(([option, value]) => `--${option}=${value}`);
}

/** null: the name alone. A name with a '=' would be another name with another value. */
export function pairs(option, map) {
  return Object.entries(map ?? {}).map(([key, value]) => {
    if (key.includes('=')) throw new InvalidRequest('invalid', `'${key}' is no name for '--${option}': it has a '='`);
    return value === null ? `--${option}=${key}` : `--${option}=${key}=${value}`;
  });
}

function common(spec) {
  const {policy, site, image, memory, cpus, pids} = spec;
  return [
    ...singles({policy, site, image, workspace: workspace(spec), memory, cpus, pids}),
    ...(spec.egress ?? []).map((rule) => `--egress=${rule}`),
    ...(spec.publish ?? []).map((port) => `--publish=${port}`),
    ...(spec.secrets ?? []).map((secret) => `--secret=${secret}`),
    ...Object.keys(spec.secretValues ?? {}).map((secret) => `--secret-from-env=${secret}=${variable(secret)}`),
  ];
}

/** The command line of `pinfold up`, without the program. */
export function upArguments(spec, name) {
  check(spec, KNOWN);
  const times = {
    timeout: time(spec.timeoutMs),
    'idle-timeout': time(spec.idleTimeoutMs),
    lifetime: time(spec.lifetimeMs),
  };
  return [
    'up',
    '--json',
    ...common(spec),
    ...singles({bundle: spec.bundle, 'on-exit': spec.onExit, ...times}),
    ...pairs('env', spec.env),
    ...pairs('label', spec.labels),
    ...(spec.tty ? ['--tty'] : []),
    '--',
    name,
  ];
}

/** The command line of `pinfold tool serve`. What a call says for itself (labels, variables, time) isn't said here. */
export function toolArguments(spec) {
  check(spec, OF_TOOLS);
  return ['tool', 'serve', ...common(spec)];
}

export function upEnvironment(spec) {
  return Object.fromEntries(Object.entries(spec.secretValues ?? {}).map(([secret, value]) => [variable(secret), value]));
}
