/** What an app does with the package: every way of loading and searching, in the page and in workers. */

import { IndexedDbChanges, openIndex } from "pocketquery/index";
import { WorkerEncoder, WorkerIndex } from "pocketquery/search-worker";
import { FetchSource, load, verify } from "pocketquery/web";
import { WorkerEncoder as EncoderAlone } from "pocketquery/worker";

export const QUERY = "how do I get a refund";

/** What test_bundlers.py compares with Node's and Python's. */
export async function run() {
  const found = {};
  const encoder = await load();
  found.vector = Array.from(await encoder.encodeQuery(QUERY));
  found.golden = (await verify()).golden.texts;
  found.dimension = (await load("/bundle")).dimension;
  const index = await openIndex(new FetchSource("/index"), { encoder, changes: new IndexedDbChanges("notes") });
  found.hit = first(await index.search(QUERY));
  if (index.get("note") === undefined) await index.add([{ id: "note", text: "The sea was calm." }]);
  found.note = first(await index.search("calm sea"));
  const script = new URL("pocketquery/worker-script", import.meta.url);
  const alone = await EncoderAlone.load(new Worker(script, { type: "module" }));
  found.workerVector = Array.from(await alone.encodeQuery(QUERY));
  const ready = new Worker(new URL("pocketquery/search-worker-script", import.meta.url), { type: "module" });
  found.workerHit = await inWorker(ready);
  found.ownWorkerHit = await inWorker(new Worker(new URL("./worker.js", import.meta.url), { type: "module" }));
  return found;
}

const first = (hits) => hits[0].id;

async function inWorker(worker) {
  const encoder = WorkerEncoder.load(worker);
  const index = await WorkerIndex.open(worker, { index: "/index", encoder });
  return first(await index.search(QUERY));
}
