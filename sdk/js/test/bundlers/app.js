/** What an app does with the package: every way of loading and searching, in the page and in workers. */

import { IndexedDbChanges, openIndex } from "pocketquery/index";
import { WorkerEncoder, WorkerIndex } from "pocketquery/search-worker";
import { FetchSource, load, verify } from "pocketquery/web";
import { WorkerEncoder as EncoderAlone } from "pocketquery/worker";

export const QUERY = "how do I get a refund";

/**
 * What test_bundlers.py compares with Node's and Python's.
 *
 * `bundle`: where the built-in encoder was copied to, undefined where the bundler does it. `workers`: one with an
 * encoder, and two with an index, the package's own and one of the app. With #cache the files are kept.
 */
export async function run(bundle, workers) {
  const cache = location.hash === "#cache";
  const found = {};
  const encoder = await load(bundle, { cache });
  found.vector = Array.from(await encoder.encodeQuery(QUERY));
  if (!cache) found.golden = (await verify(bundle)).golden.texts; // of the files as they are served
  found.dimension = (await load("/bundle", { cache })).dimension;
  const index = await openIndex(new FetchSource("/index"), { encoder, changes: new IndexedDbChanges("notes"), cache });
  found.hit = first(await index.search(QUERY));
  if (index.get("note") === undefined) await index.add([{ id: "note", text: "The sea was calm." }]);
  found.note = first(await index.search("calm sea"));
  const [alone, ready, own] = workers;
  found.workerVector = Array.from(await (await EncoderAlone.load(alone, { bundle, cache })).encodeQuery(QUERY));
  found.workerHit = await inWorker(ready, bundle, cache);
  found.ownWorkerHit = await inWorker(own, bundle, cache);
  return found;
}

const first = (hits) => hits[0].id;

async function inWorker(worker, bundle, cache) {
  const encoder = WorkerEncoder.load(worker, { bundle, cache });
  const index = await WorkerIndex.open(worker, { index: "/index", encoder, cache });
  return first(await index.search(QUERY));
}

/** For the page's test to read. */
export async function show(running) {
  document.getElementById("out").textContent = await running.then(JSON.stringify, (error) => String(error.stack));
}
