// Measures on request, as `process.rs` does: for each line on standard input, which says how many
// answers, one line with the processor time of one in nanoseconds, `nan` for the allocations
// that nobody counts, and the bytes of its text.

import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

/// A package from where the program was started, as `npm install` left it there.
export function installed(name) {
  const require = createRequire(join(process.cwd(), "nothing.js"));
  return import(pathToFileURL(require.resolve(name)).href);
}

export async function serve(make) {
  let answer;
  try {
    answer = await make(process.argv[2], process.argv[3]);
  } catch (error) {
    if (error.code !== "MODULE_NOT_FOUND") throw error;
    console.log("not installed");
    return;
  }
  await answer();
  console.log("ready");
  for await (const line of createInterface({ input: process.stdin })) {
    const answers = Number(line);
    const begun = process.cpuUsage();
    let text = "";
    for (let at = 0; at < answers; at++) text = await answer();
    const { user, system } = process.cpuUsage(begun);
    console.log(Math.round(((user + system) * 1000) / answers), "nan", Buffer.byteLength(text));
  }
}
