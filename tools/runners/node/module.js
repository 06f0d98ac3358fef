// A tool's source as an ES module; docs/tool.md "JavaScript and TypeScript". Stands between typescript.js and runner.js.
// Where it imports what Node itself has, or nothing, it is compiled as it is: Node's loader, which wants a file, a folder
// and other threads, takes longer than most calls. Everything else is its loader's.
const vm = require("vm");
const { createRequire, isBuiltin } = require("module"), { pathToFileURL } = require("url");
const VM_MODULES = "--experimental-vm-modules";
const here = createRequire(path.join(process.cwd(), "tool.js"));
let home = path.join("/tmp", "tool", "tool.mjs"); // what traces are cleared of

{
  const own = process.execArgv.indexOf(VM_MODULES); // ours, and no business of what the tool starts
  if (own >= 0) process.execArgv.splice(own, 1);
}

// Where Node's loader finds the packages of the requirements, or else the workspace's.
function makeFolder() {
  const folder = fs.mkdtempSync("/tmp/tool-");
  try {
    const places = [(process.env.NODE_PATH || "").split(":")[0], path.join(process.cwd(), "node_modules")];
    const modules = places.find((place) => place && fs.existsSync(place));
    if (modules) fs.symlinkSync(modules, path.join(folder, "node_modules"));
  } catch {} // without it, packages are found by require() alone
  return folder;
}

async function importFile(text) {
  home = path.join(makeFolder(), "tool.mjs");
  fs.writeFileSync(home, text);
  return import(pathToFileURL(home));
}

let importLate;
async function importFrom(specifier, _, attributes) {
  if (isBuiltin(specifier)) return import(specifier);
  if (!importLate) {
    const file = path.join(makeFolder(), "import.mjs");
    fs.writeFileSync(file, "export default (specifier, options) => import(specifier, options);");
    importLate = (await import(pathToFileURL(file))).default;
  }
  return importLate(specifier, { with: { ...attributes } });
}

// As Node's own: what it exports by name, and all of it by default.
function builtin(specifier) {
  const exported = here(specifier), names = new Set([...Object.keys(exported), "default"]);
  return new vm.SyntheticModule([...names], function () {
    for (const name of names) this.setExport(name, name === "default" ? exported : exported[name]);
  });
}

function compile(text) {
  const { emitWarning } = process;
  process.emitWarning = () => {}; // that the interface may change
  try {
    return new vm.SourceTextModule(text, { identifier: pathToFileURL(home).href, importModuleDynamically: importFrom });
  } finally {
    process.emitWarning = emitWarning;
  }
}

// Where the parser stopped: V8's error doesn't say it, and Node only where it ends of it.
function syntaxPlace(text) {
  const { status, stderr } = spawnSync(process.execPath, ["--check", "--input-type=module", "-"], { input: text, encoding: "utf8" });
  const end = status === 1 ? stderr.indexOf("\n\n") : -1;
  return end > 0 ? `${stderr.slice(0, end).replace("[stdin]", "tool")}\n` : "";
}

async function importSource(text) {
  if (!vm.SourceTextModule || /\bmeta\b/.test(text)) return importFile(text); // import.meta is the loader's
  const module = compile(text);
  const wanted = module.moduleRequests ? module.moduleRequests.map(({ specifier }) => specifier) : module.dependencySpecifiers;
  if (!wanted.every(isBuiltin)) return importFile(text);
  try {
    await module.link(builtin);
  } catch {
    return importFile(text); // says better what isn't there
  }
  await module.evaluate();
  return module.namespace;
}
