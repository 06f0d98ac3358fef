// Prints the outline of a Markdown file of the workspace as JSON.
const { readFileSync } = require('node:fs');

const outline = [];
for (const line of readFileSync(process.argv[2], 'utf8').split('\n')) {
  const heading = /^(#{1,6})\s+(.*\S)\s*$/.exec(line);
  if (heading) outline.push({ level: heading[1].length, title: heading[2] });
}
console.log(JSON.stringify(outline));
