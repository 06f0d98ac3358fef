// Installs requirements of npm; docs/dependencies.md. Runs in the sandbox of an installation, with the image's npm: what it
// installs may do in there what it likes.
"use strict";
const fs = require("fs");
const path = require("path");
const { spawnSync } = require("child_process");

const request = JSON.parse(fs.readFileSync(0, "utf8"));
const { target } = request;

function die(message) {
  fs.writeSync(1, `ERROR: ${message}\n`);
  process.exit(1);
}

// "NAME@RANGE --integrity=…"; a scope begins with "@" too.
function parse(text) {
  const [wanted, integrity] = text.split(" --integrity=");
  const at = wanted.indexOf("@", 1);
  return { name: at < 0 ? wanted : wanted.slice(0, at), range: at < 0 ? "*" : wanted.slice(at + 1), integrity };
}

// Nothing of a registry, a proxy or a configuration but what the request says.
function npm(...words) {
  const options = ["--registry", request.index, "--userconfig", "/tmp/none-of-a-user", "--globalconfig", "/tmp/none-of-the-image", "--cache", "/tmp/npm-cache", "--prefix", target,
                   "--no-audit", "--no-fund", "--no-update-notifier", "--no-progress", "--fetch-retries", "2", "--loglevel", "http"];
  if (request.certificates) {
    fs.writeFileSync("/tmp/pinfold-certificates.pem", request.certificates);
    options.push("--cafile", "/tmp/pinfold-certificates.pem");
  }
  const env = { PATH: `${path.dirname(process.execPath)}:${process.env.PATH}`, HOME: "/tmp", LANG: "C.UTF-8", TMPDIR: "/tmp" };
  const done = spawnSync("npm", [...words, ...options], { cwd: target, env, stdio: ["ignore", 1, 1] });
  if (done.error) die(`the image has no npm: ${done.error.message}`);
  if (done.status !== 0) process.exit(done.status || 1);
}

const wanted = request.requirements.map(parse);
const dependencies = Object.fromEntries(wanted.map(({ name, range }) => [name, range]));
fs.writeFileSync(path.join(target, "package.json"), JSON.stringify({ name: "tools", version: "1.0.0", private: true, dependencies }));
npm("install", "--package-lock-only", "--ignore-scripts");
const text = fs.readFileSync(path.join(target, "package-lock.json"), "utf8");
const { packages } = JSON.parse(text);
for (const { name, integrity } of wanted) {
  const entry = packages[`node_modules/${name}`];
  if (integrity && !(entry && String(entry.integrity).split(" ").includes(integrity)))
    die(`${name} has the integrity ${entry && entry.integrity}, and ${integrity} is wanted`);
}
for (const [where, entry] of Object.entries(packages)) // of a package, never of a repository or a path
  if (where && (entry.link || !/^https?:/.test(entry.resolved || "https:"))) die(`${where} isn't a package of the registry`);
npm("ci");
fs.mkdirSync(path.join(target, "node_modules"), { recursive: true });
fs.writeFileSync(path.join(target, "pinfold-lock"), text);
