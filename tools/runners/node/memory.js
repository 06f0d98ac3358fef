// Closes our memory and descriptors to programs that a tool or a cell starts: with what stands in them, they could make a result.
// Stands behind frame.js.
const fs = require("fs"), path = require("path");

// By a library in a place where nobody can change it, or else by one that is written to /tmp, which has to be ours alone.
// False where it stays open.
function closeMemory(sealed) {
  const isOpen = () => {
    try {
      return fs.statSync("/proc/self/mem").uid === process.geteuid();
    } catch {
      return false; // there is no /proc to look in
    }
  };
  if (!isOpen()) return true;
  let folder;
  try {
    if (sealed) process.dlopen({ exports: {} }, sealed);
  } catch {} // it is no module, but it has been loaded
  if (sealed) return !isOpen() || process.geteuid() === 0;
  try {
    folder = fs.mkdtempSync("/tmp/tool-");
    const file = path.join(folder, "undumpable.node");
    fs.writeFileSync(file, toBuffer("@HEX@", "hex")); // undumpable.c
    process.dlopen({ exports: {} }, file);
  } catch {} // nothing can be written; or it is no module, but it has been loaded
  if (folder) fs.rmSync(folder, { recursive: true });
  return !isOpen() || process.geteuid() === 0; // to its root it looks the same
}
