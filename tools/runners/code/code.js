// A code context, which keeps the variables of its cells; docs/code.md. Each cell comes over Node's own channel as four
// descriptors: its request, its output, and its result's way. Node 18 and later. Stands behind frame.js and memory.js.
const util = require("util"), { Session } = require("inspector");
const stringify = JSON.stringify, parse = JSON.parse, { inspect } = util;
const RESULTS_MAX = 1000, NOTES_MAX = 16, VALUES_MAX = 100000;

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

function describe(error, place = "") {
  const isError = util.types.isNativeError(error) || error instanceof Error;
  let trace = isError && typeof error.stack === "string" ? error.stack : null;
  if (trace) trace = trace.split("\n").filter((line) => !/^\s+at .*(\[eval\]|node:|\(<anonymous>\)$)/.test(line)).join("\n");
  const message = isError ? error.message : `${inspect(error)} was thrown`;
  return { type: clean(isError ? error.name : typeof error), message: clean(message), traceback: trace === null ? null : clean(place + trace) };
}

function finish(cell, error) {
  if (cell.over) return;
  cell.over = true;
  const { key } = cell.request;
  const payload = stringify({ key, execution_count: cell.count, results: cell.results, error: error === undefined ? null : error, notes: cell.notes });
  now = null;
  try {
    sendFrame(cell.fds.frame.fd, cell.nonce, RESULT, toBuffer(payload));
  } catch {} // who has asked is gone
  for (const name of ["stdout", "stderr", "frame"]) cell.fds[name].close();
}

// At once: a cell that never gives way is heard all the same.
function put(cell, name, data) {
  try {
    writeAll(cell.fds[name].fd, data);
  } catch {} // who has asked is gone
}

// V8's mode for consoles, which lets a later cell declare names again; Node has it in its inspector alone.
function openConsole() {
  const session = new Session();
  session.connect();
  const post = (method, given) => new Promise((done, fail) => session.post(method, given, (error, answer) => (error ? fail(error) : done(answer))));
  let box; // values travel in it, since one that promises hand on may be asked for its then()
  async function fetch({ objectId, unserializableValue, value }, handId) {
    const argument = objectId ? { objectId } : unserializableValue ? { unserializableValue } : { value };
    await post("Runtime.callFunctionOn", { objectId: handId, functionDeclaration: "function (value) { this(value); }", arguments: [argument] });
    return box;
  }
  async function open() { // the inspector's handle of our own function, by a name that is gone before a cell runs
    globalThis.__pinfold_hand = (value) => (box = { value });
    const { result } = await post("Runtime.evaluate", { expression: "__pinfold_hand" });
    delete globalThis.__pinfold_hand;
    return result.objectId;
  }
  const opened = open();
  // to {value}, or to {value, wrong} where it is what the cell has thrown
  return async (code, file) => {
    const handId = await opened;
    const expression = `${reachingImports(code)}\n//# sourceURL=${file}`;
    const { result, exceptionDetails } = await post("Runtime.evaluate", { expression, replMode: true, silent: true, objectGroup: "cell" });
    const { value } = await fetch(exceptionDetails ? exceptionDetails.exception : result, handId);
    await post("Runtime.releaseObjectGroup", { objectGroup: "cell" });
    box = undefined;
    return exceptionDetails ? { value, wrong: place(code, file, exceptionDetails) } : { value };
  };
}

// Where the parser stopped, which a syntax error doesn't say of itself; "" for what was thrown by code that ran.
function place(code, file, { scriptId, lineNumber, columnNumber, exception }) {
  if (scriptId === undefined || exception.className !== "SyntaxError") return "";
  const lines = code.split("\n"), number = Math.min(lineNumber, lines.length - 1), line = lines[number];
  const column = number < lineNumber ? line.length : columnNumber;
  return `${file}:${number + 1}\n${line}\n${" ".repeat(column)}^\n\n`;
}

// import() isn't for code of the inspector's: it calls ours, which is as long, by what Node's own copy of acorn finds.
const IMPORT = "_load_";
let Parser;
function reachingImports(code) {
  if (!/\bimport\b/.test(code)) return code;
  const starts = new Set();
  try {
    Parser = Parser || loadParser();
    class Finder extends Parser {
      finishNode(node, type) {
        if (type === "ImportExpression") starts.add(node.start);
        return super.finishNode(node, type);
      }
    }
    Finder.parse(code, { ecmaVersion: "latest", allowAwaitOutsideFunction: true });
  } catch {
    return code; // V8 says what is wrong with it
  }
  for (const start of starts) code = code.slice(0, start) + IMPORT + code.slice(start + IMPORT.length);
  return code;
}
function loadParser() {
  const made = { exports: {} };
  new Function("module", "exports", process.binding("natives")["internal/deps/acorn/acorn/dist/acorn"])(made, made.exports);
  return made.exports.Parser;
}

function serve() {
  const isClosed = closeMemory("/proc/self/fd/4"); // the supervisor's
  fs.closeSync(4);
  for (const name of ["stdout", "stderr"]) {
    const stream = process[name], write = stream.write;
    stream.write = (data, encoding, done) => {
      if (!now) return write.call(stream, data, encoding, done);
      put(now, name, toBuffer(data, typeof encoding === "string" ? encoding : "utf8"));
      const after = typeof encoding === "function" ? encoding : done;
      if (typeof after === "function") process.nextTick(after);
      return true;
    };
  }
  process.argv.splice(1);
  const evaluate = openConsole();
  globalThis.display = (...values) => values.forEach(show);
  Object.defineProperty(globalThis, IMPORT, { value: (specifier, options) => import(specifier, options) });
  const late = (error) => (now ? finish(now, describe(error)) : process.stderr.write(`${inspect(error)}\n`));
  for (const event of ["uncaughtException", "unhandledRejection"]) process.prependListener(event, late);
  let parts = {};
  function start(number, nonce, fds) {
    fds.request.setBlocking(true);
    const request = parse(fs.readFileSync(fds.request.fd, "utf8"));
    fds.request.close();
    const cell = (now = { number, nonce, fds, request, count: ++count, results: [], notes: [], over: false });
    if (!isClosed) note("programs that cells start can read and change the context's memory, and so its results");
    evaluate(request.code, `cell-${count}`).then(({ value, wrong }) => {
      if (wrong === undefined && value !== undefined && !cell.over) show(value);
      finish(cell, wrong === undefined ? undefined : describe(value, wrong));
    });
  }
  process.on("message", (said, handle) => {
    if (said.interrupt !== undefined) {
      if (now && now.number === said.interrupt) finish(now, { type: "Interrupted", message: "the cell was interrupted", traceback: null });
      return;
    }
    parts[said.as] = handle;
    if (said.as !== "frame") return;
    start(said.cell, toBuffer(said.nonce, "hex"), parts);
    parts = {};
  });
  process.on("disconnect", () => process.exit(1));
  process.send = process.disconnect = undefined; // the channel is ours
}

serve();
