// Runs one function of a tool and sends what came of it over the frame descriptor; docs/tool.md. Node 18 and later.
// Stands behind frame.js, memory.js, typescript.js and module.js. What it needs later it takes hold of first: a tool may replace globals.
const { isNativeError } = require("util").types;
const { readFileSync, closeSync, openSync } = fs, { exit, reallyExit } = process;
const { parse, stringify } = JSON;

const VALUES_MAX = 200000, NOTES_MAX = 16, NOTE_MAX = 400, DEPTH_MAX = 400;
const nonce = toBuffer(process.env.PINFOLD_FRAME_NONCE, "hex");
const fd = Number(process.env.PINFOLD_FRAME_FD);
delete process.env.PINFOLD_FRAME_NONCE;
delete process.env.PINFOLD_FRAME_FD;
let request, key;

const notes = [];
function note(text) {
  if (notes.length < NOTES_MAX) notes.push(toBuffer(text.slice(0, NOTE_MAX)).toString());
}

function setEnvironment(wanted) {
  const had = { ...process.env };
  for (const name in had) if (!(name in wanted)) delete process.env[name];
  for (const name in wanted) if (had[name] !== wanted[name]) process.env[name] = wanted[name];
}

// What stands before the request are variables that are handed in besides, a zero behind each.
function take() {
  const text = readFileSync(0, "utf8").split("\0");
  request = JSON.parse(text.pop());
  key = request.key;
  delete request.key;
  if (request.env) setEnvironment(Object.assign(request.env, Object.fromEntries(text.map((pair) => pair.split(/=(.*)/s)))));
  closeSync(0);
  openSync("/dev/null", "r"); // takes the place of 0
}

function closeToPrograms() {
  if (!closeMemory()) note("programs that the tool starts can read and change its memory, and so its result");
}

// What takes time at a first call: a few of our own, from the environment to the result.
async function rehearse() {
  const before = { ...process.env };
  for (let i = 0; i < SAMPLES; i++) {
    setEnvironment({ ...before, SAMPLE: `${i}` });
    closeSync(openSync("/dev/null", "r"));
    const source = `import "fs"; const f = async (n) => [{ n }, "${i}"];`;
    request = JSON.parse(stringify({ language: "javascript", name: "f", source, args: { n: i }, parameters: ["n"] }));
    encode(await call());
  }
  setEnvironment(before);
}

// Started before there is a call: what it will need is loaded, and the supervisor told so by a frame of kind progress.
async function waitAhead(language) {
  process.argv.splice(1);
  closeToPrograms();
  if (language === "typescript") transpile = await findTranspiler(here, true);
  await rehearse();
  sendFrame(fd, nonce, PROGRESS, Buffer.alloc(0));
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
  const tag = value[Symbol.toStringTag]; // of what isn't made of properties: a promise that nobody awaited, a generator
  if (typeof tag === "string") note(`${here}: ${tag} became an object`);
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
    if (error instanceof RangeError) note("func_return: nested too deeply, or in itself: given as text");
    else note(`func_return: reading it throws ${textOf(error)}: given as text`);
    return stringify(wellFormed(textOf(value), "func_return"));
  }
}

// Also of what throws when it is asked.
function textOf(value) {
  try {
    return `${typeof value === "symbol" ? String(value) : value}`;
  } catch {
    return `[${typeof value} without a text]`;
  }
}
function isErrorLike(value) {
  try {
    return isNativeError(value) || value instanceof Error;
  } catch {
    return false;
  }
}
function read(object, name) {
  try {
    return object[name];
  } catch {
    return undefined;
  }
}

function finish(ok, json) {
  const payload = toBuffer(`{"ok": ${ok}, "func_return": ${json}, "notes": [${notes.map((text) => stringify(text))}], "key": "${key}"}`);
  sendFrame(fd, nonce, RESULT, payload);
}

function fail(error) {
  const isError = isErrorLike(error);
  const file = pathToFileURL(home).href, stack = isError ? read(error, "stack") : null;
  // from the tool's lines: our own frames stand below them
  let trace = typeof stack === "string" && !read(error, "pinfold") ? stack : null;
  if (trace) trace = trace.split("\n").filter((line) => !/^\s+at .*(\[eval\]|node:internal)/.test(line)).join("\n");
  if (trace) trace = trace.replaceAll(file, "tool").replaceAll(home, "tool");
  try {
    if (trace && sourceMap) trace = traceInSource(trace, sourceMap);
  } catch {} // a tool may have replaced what it takes: then by the lines that ran
  const message = isError ? textOf(read(error, "message")) : `${textOf(error)} was thrown`;
  finish(false, encode({ type: isError ? textOf(read(error, "name")) : typeof error, message, traceback: trace }));
}

function refuse(message) {
  return Object.assign(new Error(message), { name: "Unsupported", pinfold: true });
}

let transpile, sourceMap = null;
async function load() {
  const { language, name } = request;
  if (language === "typescript" && transpile === undefined) transpile = await findTranspiler(here, false);
  const strips = language === "typescript" && transpile !== null;
  let source = request.source;
  if (strips) [source, sourceMap] = splitMap(await transpile(source));
  globalThis.require = here;
  globalThis.client = null;
  const text = `${source}\n;export { ${name} as __pinfold_tool };\n`;
  try {
    return (await importSource(text)).__pinfold_tool;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    if (/is not defined in module/.test(error.message) && error.message.includes(`'${name}'`))
      throw Object.assign(new ReferenceError(`the source defines no function '${name}'`), { pinfold: true });
    if (language === "typescript" && !strips)
      throw refuse(`this image has nothing that strips types (esbuild, typescript, or Node 22.13), and the source is no plain JavaScript: ${error.message}`);
    const place = syntaxPlace(text);
    throw place ? Object.defineProperty(new SyntaxError(error.message), "stack", { value: place + error.stack }) : error;
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
    reallyExit.call(process, 0); // the call is over: handlers of the tool's would be heard or not, as the kill comes
  }
}
function answer() {
  take();
  call().then((value) => end(() => finish(true, encode(value))), (error) => end(() => fail(error)));
}
if (process.argv[1] === "ahead") waitAhead(process.argv[2]).then(answer);
else {
  closeToPrograms();
  answer();
}
