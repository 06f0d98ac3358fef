// A code context and its cells; docs/code.md. `serve SOCKET` keeps the variables; `cell` brings one cell to it and writes
// what comes back: output to 1 and 2, the result to the frame descriptor. Node's own modules only, Node 18 and later.
"use strict";
const fs = require("fs"), net = require("net"), util = require("util"), { Writable, PassThrough } = require("stream");
const stringify = JSON.stringify, parse = JSON.parse, toBuffer = Buffer.from, concat = Buffer.concat, { writeSync } = fs, { inspect } = util;
const RESULTS_MAX = 1000, NOTES_MAX = 16, VALUES_MAX = 100000;
const [mode, socketPath] = process.argv.slice(1);

function writeAll(to, data) {
  for (let done = 0; done < data.length;) {
    try {
      done += writeSync(to, data, done);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

// A message: what it is (1 stdout, 2 stderr, 3 result; 0 a request), its size, its bytes.
function pack(what, data) {
  const head = Buffer.alloc(5);
  head.writeUInt8(what, 0);
  head.writeUInt32BE(data.length, 1);
  return concat([head, data]);
}

function onMessages(connection, each) {
  let rest = Buffer.alloc(0);
  connection.on("data", (data) => {
    rest = concat([rest, data]);
    while (rest.length >= 5 && rest.length >= 5 + rest.readUInt32BE(1)) {
      const size = 5 + rest.readUInt32BE(1), message = rest.subarray(5, size), what = rest.readUInt8(0);
      rest = rest.subarray(size);
      each(what, message);
    }
  });
}

// RFC 3720, B.4
const table = new Uint32Array(256).map((_, n) => {
  for (let i = 0; i < 8; i++) n = n & 1 ? (n >>> 1) ^ 0x82f63b78 : n >>> 1;
  return n;
});
function crc32c(data) {
  let crc = 0xffffffff;
  for (let i = 0; i < data.length; i++) crc = table[(crc ^ data[i]) & 255] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

function bring() {
  const nonce = toBuffer(process.env.PINFOLD_FRAME_NONCE, "hex"), fd = Number(process.env.PINFOLD_FRAME_FD);
  const [, path, request] = packet; // by what has started us
  let tries = 1000; // the context may be starting
  function attempt() {
    const connection = net.connect({ path, allowHalfOpen: true });
    connection.once("error", (error) => {
      if (--tries > 0) return setTimeout(attempt, 10);
      process.stderr.write(`the context doesn't answer: ${error.message}\n`);
      process.exit(1);
    });
    connection.once("connect", () => {
      connection.removeAllListeners("error");
      connection.on("error", () => {});
      connection.on("close", () => process.exit(1));
      connection.on("end", () => process.exit(1));
      for (const name of ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"]) process.on(name, () => connection.end());
      onMessages(connection, (what, data) => {
        if (what !== 3) return writeAll(what === 2 ? 2 : 1, data);
        const head = Buffer.alloc(12);
        head.writeUInt32BE(0x01010000, 0); // version 1, kind 1: result, no flags
        head.writeUInt32BE(data.length, 4);
        head.writeUInt32BE(crc32c(data), 8);
        writeAll(fd, concat([nonce, head, data]));
        process.exit(0);
      });
      connection.write(pack(0, toBuffer(request)));
    });
  }
  attempt();
}

let now = null; // the cell that runs
let count = 0;

function note(text) {
  if (now && now.notes.length < NOTES_MAX) now.notes.push(clean(text));
}
function clean(text) {
  return toBuffer(String(text), "utf8").toString("utf8"); // a lone surrogate becomes U+FFFD
}

// The value where JSON says the same; throws otherwise.
function plain(value) {
  let left = VALUES_MAX;
  const text = stringify(value, (key, item) => {
    if (--left < 0 || key.includes("\0") || typeof item === "bigint") throw new RangeError();
    if (typeof item === "number" && (!Number.isFinite(item) || (Number.isInteger(item) && Math.abs(item) >= 2 ** 63))) throw new RangeError();
    return item;
  });
  if (text === undefined || /\\ud[89a-f]/i.test(text)) throw new RangeError();
  return parse(text);
}

const types = {
  "text/html": clean,
  "image/png": (value) => (typeof value === "string" ? value : toBuffer(value).toString("base64")),
  "application/json": plain,
};
const methods = { _repr_html_: "text/html", _repr_png_: "image/png", _repr_json_: "application/json" };

function bundle(value) {
  const made = { "text/plain": clean(typeof value === "string" ? inspect(value, { maxStringLength: null }) : inspect(value)) };
  if (value === null || typeof value !== "object") return made;
  for (const [method, type] of Object.entries(methods)) {
    try {
      if (typeof value[method] === "function") made[type] = types[type](value[method]());
    } catch (error) {
      note(`${method}: ${error}`);
    }
  }
  const isPlain = Array.isArray(value) || [Object.prototype, null].includes(Object.getPrototypeOf(value));
  try {
    if (isPlain && !("application/json" in made)) made["application/json"] = plain(value);
  } catch {} // its text has to do
  return made;
}

function show(value) {
  if (!now) return;
  if (now.results.length < RESULTS_MAX) now.results.push(bundle(value));
  else note(`more than ${RESULTS_MAX} results: the others were left out`);
}

function describe(error) {
  if (error && error.name === "SyntaxError" && error.err instanceof Error) error = error.err; // as the REPL wraps it
  const isError = util.types.isNativeError(error) || error instanceof Error;
  let trace = isError && typeof error.stack === "string" ? error.stack : null;
  if (trace) trace = trace.split("\n").filter((line) => !/^\s+at .*(\[eval\]|node:|\(<anonymous>\)$)/.test(line)).join("\n");
  const message = isError ? error.message : `${inspect(error)} was thrown`;
  return { type: clean(isError ? error.name : typeof error), message: clean(message), traceback: trace === null ? null : clean(trace) };
}

function finish(cell, error) {
  if (cell.over) return;
  cell.over = true;
  const { key } = cell.request;
  const payload = stringify({ key, execution_count: cell.count, results: cell.results, error: error === undefined ? null : error, notes: cell.notes });
  put(cell, 3, toBuffer(payload));
  now = null;
  cell.connection.end();
}

// At once: a cell that never gives way is heard all the same.
function put(cell, what, data) {
  try {
    writeAll(cell.connection._handle.fd, pack(what, data));
  } catch {} // who has asked is gone
}

function serve() {
  const repl = require("repl");
  const nowhere = new Writable({ write: (data, encoding, done) => done() });
  for (const [name, what] of [["stdout", 1], ["stderr", 2]]) {
    const stream = process[name], write = stream.write;
    stream.write = (data, encoding, done) => {
      if (!now) return write.call(stream, data, encoding, done);
      put(now, what, toBuffer(data, typeof encoding === "string" ? encoding : "utf8"));
      const after = typeof encoding === "function" ? encoding : done;
      if (typeof after === "function") process.nextTick(after);
      return true;
    };
  }
  process.argv.splice(1);
  const shell = repl.start({ input: new PassThrough(), output: nowhere, prompt: "", terminal: false, useGlobal: true, ignoreUndefined: true });
  globalThis.display = (...values) => values.forEach(show);
  const late = (error) => (now ? finish(now, describe(error)) : process.stderr.write(`${inspect(error)}\n`));
  if (shell._domain) shell._domain.removeAllListeners("error").on("error", late);
  for (const event of ["uncaughtException", "unhandledRejection"]) process.prependListener(event, late);
  function start(connection, request) {
    const cell = (now = { connection, request, count: ++count, results: [], notes: [], over: false });
    const stop = () => finish(cell, { type: "Interrupted", message: "the cell was interrupted", traceback: null });
    connection.on("end", stop);
    connection.on("close", stop);
    shell.eval(request.code, shell.context, `cell-${count}`, (error, value) => {
      if (cell.over) return;
      if (error !== null && error !== undefined) return finish(cell, describe(error));
      if (value !== undefined) show(value);
      finish(cell);
    });
  }
  net.createServer({ allowHalfOpen: true }, (connection) => {
    connection.on("error", () => {});
    onMessages(connection, (what, data) => start(connection, parse(data.toString())));
  }).listen(socketPath, () => fs.chmodSync(socketPath, 0o600));
}

if (mode === "cell") bring();
else serve();
