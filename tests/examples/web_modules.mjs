/**
 * Modules of examples/web in Node, where one can look in between; test_web.py starts it in a folder
 * with the page's modules, `bundle` (with a training step) and `index`, and reads its JSON.
 *
 *     node web_modules.mjs '{"dist": "sdk/js/dist", "onnxruntime": ..., "queries": [...], "texts": [[text, mark, ...], ...]}'
 *
 * Real but for IndexedDB, whose place memory takes, the server, whose place the folder takes, and the
 * page, of which there is as much as a result needs.
 */

import { once } from "node:events";
import { createServer } from "node:http";
import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const { dist, onnxruntime: runtime, queries, texts } = JSON.parse(process.argv[2]);
const built = (name) => pathToFileURL(join(dist, name)).href;
const here = (name) => import(pathToFileURL(resolve(name)).href);
const MODULES = {
  "main.js": `export * from "${built("main.js")}";`,
  "training.js": `export * from "${built("training.js")}";`,
  "store.js": `export { QueryStore, MemoryBackend as IndexedDbBackend } from "${built("store.js")}";`,
  "gateway.js": `
    import { GatewayConnection as Connection } from "${built("gateway.js")}";
    export * from "${built("gateway.js")}";
    export { MemoryPlace as IndexedDbPlace } from "${built("gateway.js")}";
    export class GatewayConnection extends Connection {
      constructor(address, signer) {
        super(address, signer, { attempts: 1 }); // without a pause between two
      }
    }`,
  "web.js": `export { FolderSource as FetchSource, load } from "${built("node.js")}";`,
};
mkdirSync("sdk");
for (const [name, text] of Object.entries(MODULES)) writeFileSync(join("sdk", name), text);
writeFileSync("package.json", '{"type": "module"}');

const onnxruntime = (await import(pathToFileURL(runtime).href)).default;
const trainer = { fetch: async () => undefined, load: async () => onnxruntime };
const { packAdapter } = await import(built("training.js"));
const { readAdapter } = await import(built("main.js"));
const { openIndex } = await import(built("index/index.js"));
const { FetchSource, load } = await here("sdk/web.js");
const { Learner } = await here("learner.js");

/** What comes of improving, where `meanwhile` is done whenever it measures, `first` before it begins and `last` after it. */
async function improved(meanwhile, first, last) {
  const encoder = await load("bundle");
  const index = await openIndex(new FetchSource("index"), { encoder });
  const search = async (...asked) => {
    await meanwhile?.(learner, encoder);
    return index.search(...asked);
  };
  const looked = { search, vectors: () => index.vectors(), get: (id) => index.get(id) };
  const learner = await Learner.open(encoder, looked, trainer, {});
  await learner.consent();
  for (const [i, query] of queries.entries()) {
    const shown = (await index.search(query, { mode: "dense", k: 10 })).map(({ id }) => id);
    await learner.opened(query, shown, shown[2 + (i % 4)]);
  }
  first?.(learner);
  const outcome = await learner.improve(() => undefined);
  await last?.();
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

/** The publisher's adapter, a little changed, as rounds release it. */
async function released() {
  const encoder = await load("bundle");
  const { adapter, manifest } = encoder;
  for (const { data } of adapter.values()) data.forEach((value, i) => (data[i] = 0.9 * value));
  const bytes = await packAdapter(adapter, { manifest, version: "2" });
  await encoder.close();
  return readAdapter(bytes, manifest);
}

/**
 * A release that comes while it is being improved, or just before: what was done first, and the
 * versions that the improvement was measured with.
 */
async function rebased(before) {
  const release = await released();
  const [done, versions] = [[], new Set()];
  let rebasing = null;
  const rebase = (learner) => (rebasing ??= learner.rebase(release).then(() => done.push("rebased")));
  const note = (learner, { version }) => {
    versions.add(version);
    if (!before) rebase(learner);
  };
  const { kept } = await improved(note, before ? rebase : null, () => (done.push("improved"), rebasing));
  return { kept, done, versions: [...versions] };
}

found.rebased = [await rebased(false), await rebased(true)];

/** Whether it says that it takes part, and the keys at the gateway, after joining and each leaving. */
async function left() {
  const { Participant } = await here("participant.js");
  const keys = new Set();
  const gateway = createServer(({ method, headers }, response) => {
    const [, key] = /keyid="([^"]+)"/.exec(headers["signature-input"]);
    const known = method === "PUT" ? keys.add(key) : keys.delete(key);
    response.writeHead(known ? 200 : 403).end(known ? "{}" : '{"code": "unknown_device", "detail": ""}');
  });
  const start = async (port) => {
    gateway.listen(port, "127.0.0.1");
    await once(gateway, "listening");
    return gateway.address().port;
  };
  const stop = async () => {
    gateway.close();
    gateway.closeAllConnections();
    await once(gateway, "close");
  };
  const port = await start(0);
  const learner = await Learner.open({ version: "1" }, null, trainer, {});
  const rounds = { gateway: `http://127.0.0.1:${port}`, publicKey: null };
  const participant = await Participant.open(rounds, learner, null, {});
  const seen = [];
  const look = async (what) => void seen.push([what, (await participant.state()).joined, keys.size]);
  const leave = () => participant.leave().then(() => "left", (error) => error.name);
  await participant.join();
  await look("joined");
  await stop();
  await look(await leave());
  await start(port);
  await look(await leave());
  await participant.join();
  keys.clear(); // the gateway forgot it by itself
  await look(await leave());
  await stop();
  return seen;
}

/** What is shown of a text before it is opened, marks in brackets. */
async function excerpts(texts) {
  class Element {
    dataset = {};
    nodes = [];
    append(...nodes) {
      this.nodes.push(...nodes);
    }
    replaceChildren(...nodes) {
      this.nodes = nodes;
    }
    setAttribute() {}
    addEventListener() {}
  }
  globalThis.document = { createElement: (name) => Object.assign(new Element(), { name }) };
  const { show } = await here("results.js");
  return texts.map(([text, ...marks]) => {
    const list = new Element();
    show(list, [{ id: "1", score: 1, title: "", text, marks, inTitle: [] }]);
    const [, , shown] = list.nodes[0].nodes;
    return shown.nodes.map((node) => (typeof node === "string" ? node : `[${node.textContent}]`)).join("");
  });
}

found.left = await left();
found.excerpts = await excerpts(texts);
console.log(JSON.stringify(found));
