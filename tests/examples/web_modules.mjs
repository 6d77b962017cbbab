/**
 * Modules of examples/web in Node, where one can look in between; test_web.py starts it in a folder
 * with the page's modules, `bundle` (with a training step) and `index`, and reads its JSON.
 *
 *     node web_modules.mjs '{"dist": "sdk/js/dist", "onnxruntime": ..., "queries": [...]}'
 *
 * Real but for IndexedDB, whose place memory takes, and the server, whose place the folder takes.
 */

import { once } from "node:events";
import { createServer } from "node:http";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const { dist, onnxruntime: runtime, queries } = JSON.parse(process.argv[2]);
const built = (name) => pathToFileURL(join(dist, name)).href;
const here = (name) => import(pathToFileURL(resolve(name)).href);
const MODULES = {
  "main.js": `export * from "${built("main.js")}";`,
  "training.js": `export * from "${built("training.js")}";`,
  "store.js": `
    import { MemoryBackend } from "${built("store.js")}";
    export { QueryStore } from "${built("store.js")}";
    export class IndexedDbBackend extends MemoryBackend {
      static erasures = 0; // for which other things may go, too
      transact(work) {
        return super.transact((kept) => {
          const change = work(kept);
          if (change.erases) IndexedDbBackend.erasures++;
          return change;
        });
      }
    }`,
  "gateway.js": `
    import { GatewayConnection as Connection } from "${built("gateway.js")}";
    export * from "${built("gateway.js")}";
    export { MemoryPlace as IndexedDbPlace } from "${built("gateway.js")}";
    export class GatewayConnection extends Connection {
      constructor(address, signer) {
        super(address, signer, { attempts: 1 }); // without a pause between two
      }
    }`,
  "web.js": `export { FolderSource as FetchSource, load, verify } from "${built("node.js")}";`,
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

/** An encoder and a learner that the queries were asked of, each with an opened result. */
async function taught(looked = (index) => index) {
  const encoder = await load("bundle");
  const index = await openIndex(new FetchSource("index"), { encoder });
  const learner = await Learner.open(encoder, looked(index, encoder), trainer, {});
  await learner.consent();
  for (const [i, query] of queries.entries()) {
    const shown = (await index.search(query, { mode: "dense", k: 10 })).map(({ id }) => id);
    await learner.opened(query, shown, shown[2 + (i % 4)]);
  }
  return { encoder, learner };
}

/** What comes of improving, where `meanwhile` is done whenever it measures, `first` before it begins and `last` after it. */
async function improved(meanwhile, first, last) {
  const { encoder, learner } = await taught((index, encoder) => ({
    search: async (...asked) => {
      await meanwhile?.(learner, encoder);
      return index.search(...asked);
    },
    vectors: () => index.vectors(),
    get: (id) => index.get(id),
  }));
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

/**
 * What is in force and kept where a release comes and its texts are out of reach, where memory lacks at a
 * change of the adapter (the first, the second, ...), and where what was learnt is damaged; and how often
 * the store was asked to erase at any cost.
 */
async function failing() {
  const { encoder, learner } = await taught();
  const { IndexedDbBackend } = await here("sdk/store.js");
  const release = await released();
  const swap = encoder.swapAdapter.bind(encoder);
  let lacking = 0;
  encoder.swapAdapter = async (adapter) => {
    if (--lacking === 0) throw new RangeError("out of memory");
    return swap(adapter);
  };
  const rebase = () => learner.rebase(release).then(() => "rebased", ({ name }) => name);
  const seen = [];
  const look = async (what) => {
    const { improved, consent, searches } = await learner.state();
    seen.push([what, encoder.version, improved !== null, consent && searches === queries.length]);
  };
  await learner.improve(() => undefined);
  const vector = String(await encoder.encodeQuery(queries[0]));
  renameSync("bundle/golden.json", "golden.json");
  await look(await rebase());
  renameSync("golden.json", "bundle/golden.json");
  for (const number of [1, 2]) {
    lacking = number;
    await look(await rebase());
  }
  const same = String(await encoder.encodeQuery(queries[0])) === vector;
  lacking = 3; // the improvement's
  await look(await rebase());
  await look(await rebase());
  await learner.store.keep({ adapter: Uint8Array.of(1, 2, 3) }, await learner.store.epoch());
  await look(await rebase());
  await encoder.close();
  return { seen, same, erasures: IndexedDbBackend.erasures };
}

/** What a page that stays open for a season, and keeps nothing new, has still to learn from. */
async function expired() {
  const { encoder, learner } = await taught();
  const now = Date.now;
  let days = 0;
  Date.now = () => now() + days * 86_400_000;
  const kept = [];
  for (; days < 92; days++) kept.push((await learner.state()).searches);
  Date.now = now;
  const { reason } = await learner.improve(() => undefined);
  await encoder.close();
  return [kept[89], kept[91], reason];
}

/** Whether it says that it takes part, and the keys at the gateway, after joining and each leaving. */
async function left() {
  const { Participant } = await here("participant.js");
  const keys = new Set();
  const gateway = createServer(({ method, headers }, response) => {
    const [, key] = /keyid="([^"]+)"/.exec(headers["signature-input"]);
    const known = method === "PUT" ? keys.add(key) : keys.delete(key);
    response.writeHead(known ? 200 : 403).end(known ? '{"registered": true}' : '{"code": "unknown_device", "detail": ""}');
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

found.failing = await failing();
found.expired = await expired();
found.left = await left();
console.log(JSON.stringify(found));
