// Runs one function of a tool and sends what came of it over the frame descriptor; docs/tool.md. Node's own modules
// only, Node 18 and later. What it needs later it takes hold of first: a tool may replace globals.
"use strict";
const fs = require("fs"), path = require("path"), { createRequire } = require("module"), { pathToFileURL } = require("url");
const { writeSync, readFileSync, closeSync, openSync } = fs, { exit } = process;
const stringify = JSON.stringify, toBuffer = Buffer.from, concat = Buffer.concat;

const VALUES_MAX = 200000, NOTES_MAX = 16, DEPTH_MAX = 400;
const nonce = toBuffer(process.env.PINFOLD_FRAME_NONCE, "hex");
const fd = Number(process.env.PINFOLD_FRAME_FD);
delete process.env.PINFOLD_FRAME_NONCE;
delete process.env.PINFOLD_FRAME_FD;
const here = createRequire(path.join(process.cwd(), "tool.js"));
let request, key;

function take() {
  request = JSON.parse(readFileSync(0, "utf8"));
  key = request.key;
  delete request.key;
  if (request.env) {
    for (const name of Object.keys(process.env)) if (!(name in request.env)) delete process.env[name];
    Object.assign(process.env, request.env);
  }
  closeSync(0);
  openSync("/dev/null", "r"); // takes the place of 0
}

// Started before there is a call: what it will need is loaded, and the supervisor told so by a frame of kind progress.
async function waitAhead() {
  process.argv.splice(1);
  if (!find("esbuild") && !require("module").stripTypeScriptTypes) find("typescript");
  const folder = fs.mkdtempSync("/tmp/tool-");
  const file = path.join(folder, "tool.mjs"); // the loader of modules takes longer to load than a call takes
  fs.writeFileSync(file, "export {};");
  await import(pathToFileURL(file));
  fs.rmSync(folder, { recursive: true });
  const head = Buffer.alloc(12);
  head.writeUInt32BE(0x01030000, 0);
  writeAll(fd, concat([nonce, head]));
}

const notes = [];
function note(text) {
  if (notes.length < NOTES_MAX) notes.push(text);
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

function writeAll(to, data) {
  for (let done = 0; done < data.length;) {
    try {
      done += writeSync(to, data, done);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

// The value as JSON has it; what JSON can't say becomes text, with a note.
let values = 0;
function plain(value, place, depth) {
  values++;
  const here = place || "/";
  if (value === null || typeof value === "boolean") return value;
  if (value === undefined) return null;
  if (typeof value === "string") return wellFormed(value, here);
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (typeof value === "object" && depth > DEPTH_MAX) throw new RangeError("too deep");
  if (value && typeof value.toJSON === "function") {
    if (value instanceof Date) note(`${here}: Date became text`);
    return plain(value.toJSON(), place, depth + 1);
  }
  if (Array.isArray(value)) return value.map((item, i) => plain(item, `${place}/${i}`, depth + 1));
  if (value instanceof Map || value instanceof Set) {
    note(`${here}: ${value.constructor.name} became ${value instanceof Map ? "an object" : "a list"}`);
    return plain(value instanceof Map ? Object.fromEntries(value) : [...value], place, depth + 1);
  }
  if (value instanceof Error || typeof value !== "object" || value instanceof RegExp) {
    note(`${here}: ${typeof value === "object" ? value.constructor.name : typeof value} became text`);
    return wellFormed(String(value), here);
  }
  if (ArrayBuffer.isView(value) && typeof value.length === "number") return plain(Array.from(value), place, depth + 1);
  const made = Object.create(null);
  for (const [name, item] of Object.entries(value))
    if (item !== undefined && typeof item !== "function")
      made[wellFormed(name, here).replaceAll("\0", "\\0")] = plain(item, `${place}/${name}`, depth + 1);
  return made;
}

function wellFormed(text, here) {
  if (!/[\ud800-\udfff]/.test(text)) return text;
  const mended = toBuffer(text, "utf8").toString("utf8"); // a lone surrogate becomes U+FFFD
  if (mended !== text) note(`${here}: characters outside Unicode became U+FFFD`);
  return mended;
}

function encode(value) {
  values = 0;
  try {
    const text = stringify(plain(value, "", 0));
    if (values <= VALUES_MAX) return text;
    note(`func_return: more than ${VALUES_MAX} values: given as the text of its JSON`);
    return stringify(text);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    note("func_return: nested too deeply, or in itself: given as text");
    return stringify(String(value));
  }
}

function finish(ok, json) {
  const payload = toBuffer(`{"ok": ${ok}, "func_return": ${json}, "notes": ${stringify(notes)}, "key": "${key}"}`);
  const head = Buffer.alloc(12);
  head.writeUInt32BE(0x01010000, 0); // version 1, kind 1: result, no flags
  head.writeUInt32BE(payload.length, 4);
  head.writeUInt32BE(crc32c(payload), 8);
  writeAll(fd, concat([nonce, head, payload]));
}

function fail(error) {
  const isError = error instanceof Error;
  const file = home && pathToFileURL(home).href;
  // from the tool's lines: our own frames stand below them
  let trace = isError && typeof error.stack === "string" ? error.stack : null;
  if (trace) trace = trace.split("\n").filter((line) => !/^\s+at .*(\[eval\]|node:internal)/.test(line)).join("\n");
  if (trace && file) trace = trace.replaceAll(file, "tool").replaceAll(home, "tool");
  if (error && error.pinfold) trace = null;
  const message = isError ? String(error.message) : `${String(error)} was thrown`;
  finish(false, encode({ type: isError ? error.name : typeof error, message, traceback: trace }));
}

function refuse(message) {
  return Object.assign(new Error(message), { name: "Unsupported", pinfold: true });
}

function find(name) {
  for (const place of [name, `/usr/share/nodejs/${name}`, `/usr/lib/node_modules/${name}`, `/usr/local/lib/node_modules/${name}`]) {
    try {
      return here(place);
    } catch (error) {
      if (error.code !== "MODULE_NOT_FOUND") throw error;
    }
  }
  return null;
}

// esbuild as a program alone, as distributions have it.
function runEsbuild(source) {
  const { spawnSync } = require("child_process");
  const done = spawnSync("esbuild", ["--loader=ts", "--format=esm", "--target=node18"], { input: source, encoding: "utf8", maxBuffer: 1 << 28 });
  if (done.error && done.error.code === "ENOENT") return null;
  if (done.status !== 0) throw new SyntaxError(`esbuild: ${done.stderr || done.error}`);
  return done.stdout;
}

// With esbuild, Node's own transformer or TypeScript's, whichever the image has.
function stripTypes(source) {
  const esbuild = find("esbuild");
  if (esbuild) return esbuild.transformSync(source, { loader: "ts", format: "esm", target: "node18" }).code;
  const program = runEsbuild(source);
  if (program !== null) return program;
  const own = require("module").stripTypeScriptTypes;
  if (own) return own(source, { mode: "transform" });
  const typescript = find("typescript");
  if (typescript) {
    const { ModuleKind, ScriptTarget } = typescript;
    const options = { module: ModuleKind.ESNext, target: ScriptTarget.ES2022 };
    const made = typescript.transpileModule(source, { compilerOptions: options, reportDiagnostics: true });
    const [fault] = made.diagnostics || [];
    if (fault) throw new SyntaxError(typescript.flattenDiagnosticMessageText(fault.messageText, "\n"));
    return made.outputText;
  }
  return null;
}

let home = null;
async function load() {
  const { language, name } = request;
  const stripped = language === "typescript" ? stripTypes(request.source) : null;
  const source = stripped === null ? request.source : stripped;
  const folder = fs.mkdtempSync("/tmp/tool-");
  const cwd = process.cwd();
  home = path.join(folder, "tool.mjs");
  globalThis.require = here;
  globalThis.client = null;
  try {
    const places = [(process.env.NODE_PATH || "").split(":")[0], path.join(cwd, "node_modules")]; // installed requirements before the workspace's
    const modules = places.find((place) => place && fs.existsSync(place));
    if (modules) fs.symlinkSync(modules, path.join(folder, "node_modules"));
  } catch {} // without it, packages are found by require() alone
  fs.writeFileSync(home, `${source}\n;export { ${name} as __pinfold_tool };\n`);
  try {
    return (await import(pathToFileURL(home))).__pinfold_tool;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    if (/is not defined in module/.test(error.message) && error.message.includes(`'${name}'`))
      throw Object.assign(new ReferenceError(`the source defines no function '${name}'`), { pinfold: true });
    if (language === "typescript" && stripped === null)
      throw refuse(`this image has nothing that strips types (esbuild, typescript, or Node 22.13), and the source is no plain JavaScript: ${error.message}`);
    throw error;
  }
}

async function call() {
  const tool = await load();
  if (typeof tool !== "function") throw new TypeError(`'${request.name}' is no function`);
  const { args, parameters, named } = request;
  if (named || parameters === null) return Object.keys(args).length || named ? tool(args) : tool();
  const listed = parameters.map((name) => args[name]);
  while (listed.length && listed[listed.length - 1] === undefined) listed.pop();
  return tool(...listed);
}

// Output through pipes is written as it comes: nothing is left in buffers when the process ends.
for (const stream of [process.stdout, process.stderr]) if (stream._handle && stream._handle.setBlocking) stream._handle.setBlocking(true);
process.on("exit", (code) => {
  if (!over) fail(Object.assign(new Error(left ? `the tool called process.exit(${code})` : "the promise that the tool returned is never kept"), { name: left ? "Exit" : "Unsettled", pinfold: true }));
});
let over = false, left = false;
process.exit = (code) => {
  left = true;
  exit.call(process, code);
};
for (const event of ["uncaughtException", "unhandledRejection"])
  process.on(event, (error) => end(() => fail(error)));

function end(send) {
  if (over) return;
  over = true;
  try {
    send();
  } finally {
    exit.call(process, 0);
  }
}
function answer() {
  take();
  call().then((value) => end(() => finish(true, encode(value))), (error) => end(() => fail(error)));
}
if (process.argv[1] === "ahead") waitAhead().then(answer);
else answer();
