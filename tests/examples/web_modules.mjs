/**
 * Modules of examples/web in Node, where one can look in between; test_web.py starts it in a folder
 * with the page's modules, `bundle` (with a training step) and `index`, and reads its JSON.
 *
 *     node web_modules.mjs '{"dist": "sdk/js/dist", "onnxruntime": ..., "queries": [...]}'
 *
 * Real but for IndexedDB, whose place memory takes, and the server, whose place the folder takes.
 */

import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const { dist, onnxruntime: runtime, queries } = JSON.parse(process.argv[2]);
const built = (name) => pathToFileURL(join(dist, name)).href;
const here = (name) => import(pathToFileURL(resolve(name)).href);
const MODULES = {
  "main.js": `export * from "${built("main.js")}";`,
  "training.js": `export * from "${built("training.js")}";`,
  "store.js": `export { QueryStore, MemoryBackend as IndexedDbBackend } from "${built("store.js")}";`,
  "web.js": `export { FolderSource as FetchSource, load } from "${built("node.js")}";`,
};
mkdirSync("sdk");
for (const [name, text] of Object.entries(MODULES)) writeFileSync(join("sdk", name), text);
writeFileSync("package.json", '{"type": "module"}');

const onnxruntime = (await import(pathToFileURL(runtime).href)).default;
const { openIndex } = await import(built("index/index.js"));
const { FetchSource, load } = await here("sdk/web.js");
const { Learner } = await here("learner.js");

/** What comes of improving, where `meanwhile` is done whenever it measures. */
async function improved(meanwhile) {
  const encoder = await load("bundle");
  const index = await openIndex(new FetchSource("index"), { encoder });
  const search = async (...asked) => {
    await meanwhile?.(learner);
    return index.search(...asked);
  };
  const looked = { search, vectors: () => index.vectors(), get: (id) => index.get(id) };
  const learner = await Learner.open(encoder, looked, onnxruntime, {});
  await learner.consent();
  for (const [i, query] of queries.entries()) {
    const shown = (await index.search(query, { mode: "dense", k: 10 })).map(({ id }) => id);
    await learner.opened(query, shown, shown[2 + (i % 4)]);
  }
  const outcome = await learner.improve(() => undefined);
  const told = (await learner.state()).improved !== null;
  const found = { ...outcome, version: encoder.version, told };
  await encoder.close();
  return found;
}

const found = { alone: await improved() };
found.looked = await improved((learner) => learner.state()); // as the page does after a result was opened
let asked = null;
await improved(async (learner) => void (await (asked ??= learner.improve(() => undefined))));
found.again = await asked;
console.log(JSON.stringify(found));
