// Frames on a descriptor of their own (docs/frames.md), for both runners: the build puts this file before each.
const { writeSync } = require("fs");
const toBuffer = Buffer.from, concat = Buffer.concat, RESULT = 1, PROGRESS = 3;

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

function sendFrame(to, nonce, kind, payload) {
  const head = Buffer.alloc(12); // version 1, the kind, no flags; the payload's size and checksum
  head.writeUInt32BE(0x01000000 | (kind << 16), 0);
  head.writeUInt32BE(payload.length, 4);
  head.writeUInt32BE(crc32c(payload), 8);
  writeAll(to, concat([nonce, head, payload]));
}
