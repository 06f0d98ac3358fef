// What strips the types of a source: esbuild, Node's own transformer or TypeScript's, whichever the image has;
// docs/tool.md "JavaScript and TypeScript". Stands between frame.js and runner.js.
const { spawn, spawnSync } = require("child_process"), { readSync } = require("fs");
const { SourceMap, stripTypeScriptTypes } = require("module");
const FLAGS = ["--loader=ts", "--format=esm", "--target=node18", "--sourcemap=inline", "--sources-content=false"];
const MAP = "\n//# sourceMappingURL=data:application/json;base64,";
const SERVICE_WAIT_MS = 5000, SERVICE_SAMPLES = 25, SAMPLES = 5;
// what a parser loads and makes at its first sources
const SAMPLE = "interface A<T> { a: T } export async function f<T extends A<number>>({ a }: T, ...b: string[]): Promise<T | null> { try { await 0; } catch {} return `${a}` as any; } class C { #c?: number = 1 }";

function find(here, name) {
  for (const place of [name, `/usr/share/nodejs/${name}`, `/usr/lib/node_modules/${name}`, `/usr/local/lib/node_modules/${name}`]) {
    try {
      return here(place);
    } catch (error) {
      if (error.code !== "MODULE_NOT_FOUND") throw error;
    }
  }
  return null;
}

// esbuild as a program alone, as distributions have it: one process for one source. Null where there is none.
async function esbuildProgram() {
  const child = spawn("esbuild", FLAGS, { stdio: "pipe" });
  const ended = new Promise((resolve) => child.on("close", resolve));
  const out = [], err = [];
  child.stdout.on("data", (data) => out.push(data));
  child.stderr.on("data", (data) => err.push(data));
  child.stdin.on("error", () => {}); // its end says more
  try {
    await new Promise((resolve, reject) => child.once("spawn", resolve).once("error", reject));
  } catch (error) {
    if (error.code === "ENOENT") return null;
    throw error;
  }
  return async (source) => {
    child.stdin.end(source);
    if ((await ended) !== 0) throw new SyntaxError(`esbuild: ${concat(err)}`);
    return concat(out).toString();
  };
}

// The values of esbuild's service (stdio_protocol.go in its sources): a byte of kind; sizes and integers of 32 bits,
// little endian. Of its kinds those that a question and its answer have.
const NULL = 0, BOOLEAN = 1, INTEGER = 2, STRING = 3, BYTES = 4, LIST = 5, OBJECT = 6;

function word(number) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(number);
  return bytes;
}

function sized(bytes) {
  return concat([word(bytes.length), bytes]);
}

function ask(id, source) {
  const flags = FLAGS.map((flag) => [Buffer.from([STRING]), sized(toBuffer(flag))]).flat();
  const fields = {
    command: [Buffer.from([STRING]), sized(toBuffer("transform"))],
    flags: [Buffer.from([LIST]), word(FLAGS.length), ...flags],
    inputFS: [Buffer.from([BOOLEAN, 0])],
    input: [Buffer.from([BYTES]), sized(toBuffer(source))],
  };
  const parts = [Buffer.from([OBJECT]), word(Object.keys(fields).length)];
  for (const [name, value] of Object.entries(fields)) parts.push(sized(toBuffer(name)), ...value);
  return sized(concat([word(id << 1), ...parts]));
}

function readValue(bytes, start) {
  let at = start;
  const size = () => ((at += 4), bytes.readUInt32LE(at - 4));
  const text = () => ((length) => bytes.subarray(at, (at += length)))(size());
  function value() {
    switch (bytes.readUInt8(at++)) {
      case NULL: return null;
      case BOOLEAN: return bytes.readUInt8(at++) !== 0;
      case INTEGER: return size();
      case STRING: return text().toString();
      case BYTES: return text();
      case LIST: return Array.from({ length: size() }, value);
      case OBJECT: return Object.fromEntries(Array.from({ length: size() }, () => [text().toString(), value()]));
    }
    throw new RangeError("a kind that we don't know");
  }
  return value();
}

// The code of an answer to ask(id); undefined where it is anything else.
function codeOf(bytes, id) {
  try {
    const answer = readValue(bytes, 4);
    if (bytes.readUInt32LE(0) === ((id << 1) | 1) && answer.errors.length === 0 && !answer.codeFS) return String(answer.code);
  } catch {}
  return undefined;
}

// The same program as a service, which has transformed samples: a source takes it a third of what it takes a program that
// has seen none. Null where it doesn't speak as we do: that it does, only its own package is promised. For one source.
async function esbuildService() {
  const version = spawnSync("esbuild", ["--version"], { encoding: "utf8" });
  if (version.error || version.status !== 0) return null;
  const env = { ...process.env, GOGC: "400" }; // what it leaves of a few small sources isn't worth collecting
  const child = spawn("esbuild", [`--service=${version.stdout.trim()}`], { stdio: ["pipe", "pipe", "ignore"], env });
  let rest = Buffer.alloc(0), take = () => {};
  child.on("error", () => take(null)).on("close", () => take(null));
  child.stdin.on("error", () => {});
  child.stdout.on("data", (data) => {
    rest = concat([rest, data]);
    while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32LE(0)) {
      const packet = rest.subarray(4, 4 + rest.readUInt32LE(0));
      rest = rest.subarray(4 + packet.length);
      take(packet);
    }
  });
  const isGone = () => child.exitCode !== null || child.signalCode !== null;
  const next = () => (isGone() ? null : new Promise((resolve) => (take = resolve)));
  const late = setTimeout(() => child.kill("SIGKILL"), SERVICE_WAIT_MS);
  const transform = async (id, source) => {
    const answer = next();
    child.stdin.write(ask(id, source));
    return codeOf((await answer) || Buffer.alloc(0), id);
  };
  const transformNow = (id, source) => { // nothing else is to be done meanwhile: without the loop of events
    const [to, from] = [child.stdin, child.stdout].map(({ _handle }) => (_handle.setBlocking(true), _handle.fd));
    writeAll(to, ask(id, source));
    const read = (size) => {
      const bytes = Buffer.alloc(size);
      for (let done = 0, got; done < size; done += got) if ((got = readSync(from, bytes, done, size - done, null)) === 0) throw new RangeError("the service has ended");
      return bytes;
    };
    return codeOf(read(read(4).readUInt32LE(0)), id);
  };
  let sample = (await next()) && (await transform(0, SAMPLE)); // a greeting with its version comes first
  clearTimeout(late);
  try {
    for (let i = 0; sample && i < SERVICE_SAMPLES; i++) sample = transformNow(0, SAMPLE);
  } catch {
    sample = null;
  }
  if (!sample || sample.includes("Promise<")) {
    child.kill("SIGKILL");
    return null;
  }
  return async (source) => {
    try {
      return transformNow(1, source);
    } catch {
      return undefined;
    } finally {
      child.kill("SIGKILL"); // the tool has the sandbox for itself
    }
  };
}

async function findEsbuild(ahead) {
  const service = ahead ? await esbuildService() : null;
  if (service === null) return esbuildProgram();
  return async (source) => {
    const code = await service(source);
    return code !== undefined ? code : (await esbuildProgram())(source); // which says best what is wrong with it
  };
}

// What has been stripped, and apart from it the map to where it stood in the source; null without one.
function splitMap(code) {
  const at = code.lastIndexOf(MAP);
  return at < 0 ? [code, null] : [code.slice(0, at), code.slice(at + MAP.length)];
}

// The frames of a trace by the lines of the source that they were stripped of.
function traceInSource(trace, map) {
  const places = new SourceMap(parse(toBuffer(map, "base64").toString()));
  return trace.replace(/^(\s+at (?:.* \()?(?:async )?tool:)(\d+):(\d+)/gm, (whole, frame, line, column) => {
    const { originalLine, originalColumn } = places.findEntry(line - 1, column - 1);
    return originalLine === undefined ? whole : `${frame}${originalLine + 1}:${originalColumn + 1}`;
  });
}

// A function from source to source, for one source; null where the image has none. Ahead: what takes time at the first
// source is done.
async function findTranspiler(here, ahead) {
  const esbuild = find(here, "esbuild");
  const options = { loader: "ts", format: "esm", target: "node18", sourcemap: "inline", sourcesContent: false };
  const warmed = async (transpile) => {
    if (ahead) await transpile(SAMPLE);
    return transpile;
  };
  if (esbuild) return warmed(async (source) => (await esbuild.transform(source, options)).code);
  const program = await findEsbuild(ahead);
  if (program !== null) return program;
  if (stripTypeScriptTypes) return warmed((source) => stripTypeScriptTypes(source, { mode: "transform", sourceMap: true }));
  const typescript = find(here, "typescript");
  if (!typescript) return null;
  const { ModuleKind, ScriptTarget } = typescript;
  const compilerOptions = { module: ModuleKind.ESNext, target: ScriptTarget.ES2022, inlineSourceMap: true };
  return warmed((source) => {
    const made = typescript.transpileModule(source, { compilerOptions, reportDiagnostics: true });
    const [fault] = made.diagnostics || [];
    if (fault) throw new SyntaxError(typescript.flattenDiagnosticMessageText(fault.messageText, "\n"));
    return made.outputText;
  });
}
