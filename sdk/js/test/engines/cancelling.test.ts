/** Long work leaves room for timers and for a search, and ends when its signal says so. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Encoder } from "pocketquery";
import { MemoryChanges, openIndex } from "pocketquery/index";
import { FolderSource, load, verify } from "pocketquery/node";
import * as onnxruntime from "pocketquery/runtime";
import { Turns } from "../../dist/platform/cancelling.js";
import { FIXTURES } from "../fixtures.js";

const TEXTS = Array.from({ length: 400 }, (_, i) => `remember to water the plants in room ${i}`);
const DOCUMENTS = TEXTS.map((text, i) => ({ id: `d${i}`, text }));
const REASON = new Error("cancelled");

const opened = (): Promise<Encoder> => load(`${FIXTURES}/tiny`, { onnxruntime });

/** What a timer that is due at once aborts. */
function soonAborted(): AbortSignal {
  const controller = new AbortController();
  setTimeout(() => controller.abort(REASON), 0);
  return controller.signal;
}

test("a timer runs while texts are encoded, and ends them", async () => {
  const encoder = await opened();
  let done = 0;
  const onProgress = (): void => void done++;
  await assert.rejects(encoder.encode(TEXTS, { signal: soonAborted(), onProgress }), REASON);
  assert.ok(done < TEXTS.length, `${done} texts`);
  assert.equal((await encoder.encode("still there")).length, encoder.dimension);
});

test("an addition that is ended adds nothing, with vectors or without", async () => {
  const encoder = await opened();
  const changes = new MemoryChanges();
  const index = await openIndex(null, { encoder, changes });
  const long = DOCUMENTS.map(({ id, text }) => ({ id, text: `${text} `.repeat(50) }));
  const vectors = long.map(() => new Float32Array(encoder.dimension).fill(1));
  for (const given of [null, vectors]) {
    await assert.rejects(index.add(long, given, { signal: soonAborted() }), REASON);
    assert.deepEqual([index.size, (await openIndex(null, { encoder, changes })).size], [0, 0]);
  }
  await index.add(DOCUMENTS.slice(0, 3));
  assert.equal(index.size, 3);
});

test("one long document, many vectors and an opening are ended, too", async () => {
  const encoder = await opened();
  const index = await openIndex(null, { encoder, changes: new MemoryChanges() });
  const long = { id: "long", text: TEXTS.join(" ").repeat(100) };
  const many = Array.from({ length: 20_000 }, (_, i) => ({ id: `d${i}`, text: "a word" }));
  const vector = new Float32Array(encoder.dimension).fill(1);
  for (const documents of [[long], many]) {
    const given = documents.map(() => vector);
    await assert.rejects(index.add(documents, given, { signal: soonAborted() }), REASON);
    assert.equal(index.size, 0);
  }
  const changes = new MemoryChanges();
  const large = await openIndex(null, { encoder, changes });
  await large.add([long, ...many], [long, ...many].map(() => vector));
  await assert.rejects(openIndex(null, { encoder, changes, signal: soonAborted() }), REASON);
  assert.equal((await openIndex(null, { encoder, changes })).size, many.length + 1);
});

test("a timer runs while an index is opened and compacted", async () => {
  const encoder = await opened();
  const changes = new MemoryChanges();
  const index = await openIndex(null, { encoder, changes });
  const long = DOCUMENTS.map(({ id }, i) => ({ id, text: Array.from({ length: 500 }, (_, j) => `w${i}x${j}`).join(" ") }));
  await index.add(long, long.map(() => new Float32Array(encoder.dimension).fill(1)));
  for (const work of [() => index.compact(), () => openIndex(null, { encoder, changes })]) {
    let isOver = false;
    const ran = new Promise((resolve) => setTimeout(() => resolve(!isOver), 0));
    await work();
    isOver = true;
    assert.equal(await ran, true, String(work));
  }
});

test("a search that comes while documents are added is answered first", async () => {
  const encoder = await opened();
  const index = await openIndex(null, { encoder, changes: new MemoryChanges() });
  await index.add(DOCUMENTS.slice(0, 1));
  const over: string[] = [];
  const additions = [1, 2, 3].map(async (part) => {
    await index.add(DOCUMENTS.slice(100 * part, 100 * part + 100));
    over.push("addition");
  });
  await new Promise((resolve) => setTimeout(resolve, 0));
  const hits = await index.search("water the plants", { k: 1 });
  over.push("search");
  await Promise.all(additions);
  assert.deepEqual([over, hits[0]?.id, index.size], [["search", "addition", "addition", "addition"], "d0", 301]);
});

test("a search that comes while a passage is encoded is answered before that passage is", async (t) => {
  let onTensor = (): void => undefined;
  const Tensor = new Proxy(onnxruntime.Tensor, {
    construct(target, given) {
      onTensor(); // a text begins to be encoded
      return Reflect.construct(target, given) as object;
    },
  });
  const encoder = await load(`${FIXTURES}/tiny`, { onnxruntime: { ...onnxruntime, Tensor } });
  const index = await openIndex(null, { encoder, changes: new MemoryChanges() });
  await index.add(DOCUMENTS.slice(0, 1));
  await index.search("water the plants"); // which brings the stemmer
  const alone = await encoder.encodeDocument(TEXTS.slice(1, 4));
  let now = 0;
  t.mock.method(Date, "now", () => (now += 1000)); // however fast the machine is, each step takes long
  let encoded = 0;
  const found: [encoded: number, id: string | undefined][] = [];
  const adding = index.add(DOCUMENTS.slice(1, 4), null, {
    onProgress: (done) => {
      encoded = done;
      onTensor = () => {
        onTensor = () => undefined;
        setImmediate(async () => found.push([encoded, (await index.search("water the plants", { k: 1 }))[0]?.id]));
      };
    },
  });
  await adding;
  assert.deepEqual(found, [[1, "d0"], [2, "d0"]]);
  const vectors = index.vectors();
  const other = await openIndex(null, { encoder, changes: new MemoryChanges() });
  await other.add(DOCUMENTS.slice(1, 4), alone);
  assert.deepEqual(vectors.vectors([1, 2, 3]), other.vectors().vectors([0, 1, 2])); // nothing was written over
});

test("what is urgent goes before what waits, in the order in which it came", async () => {
  const turns = new Turns();
  const order: string[] = [];
  const take = (name: string, isUrgent: boolean, signal?: AbortSignal): Promise<void> =>
    turns.take(async () => void order.push(name), isUrgent, signal);
  const controller = new AbortController();
  const all = [take("a", false), take("ended", false, controller.signal), take("b", false), take("c", true), take("d", true)];
  controller.abort(REASON);
  assert.deepEqual((await Promise.allSettled(all)).map(({ status }) => status[0]), ["f", "r", "f", "f", "f"]);
  await turns.done();
  assert.deepEqual(order, ["c", "d", "a", "b"]);
});

test("what is urgent goes into a pause of what is not, and nothing else does", async () => {
  const turns = new Turns();
  const order: string[] = [];
  const take = (name: string, isUrgent: boolean): Promise<void> => turns.take(async () => void order.push(name), isUrgent);
  const others: Promise<void>[] = [];
  const long = turns.take(async () => {
    order.push("begun");
    others.push(take("waits", false), take("urgent", true));
    await turns.pause(async () => {
      await take("asked in the pause", true);
    });
    await assert.rejects(turns.pause(async () => {
      others.push(take("asked as it ends", true));
      throw REASON;
    }), REASON);
    order.push("over");
  }, false);
  await long;
  await Promise.all(others);
  assert.deepEqual(order, ["begun", "urgent", "asked in the pause", "asked as it ends", "over", "waits"]);
});

/** As of polyfills: it knows whether it aborted, and neither its reason nor how to throw it. */
class PlainSignal extends EventTarget {
  constructor(readonly aborted: boolean) {
    super();
  }
}

test("a signal of a polyfill is heard wherever one may be given", async () => {
  const encoder = await opened();
  const index = await openIndex(null, { encoder, changes: new MemoryChanges() });
  const source = new FolderSource(`${FIXTURES}/tiny`);
  const uses: ((signal: AbortSignal) => Promise<unknown>)[] = [
    (signal) => load(source, { onnxruntime, signal }),
    (signal) => verify(source, { onnxruntime, signal }),
    (signal) => source.read("manifest.json", { signal }),
    (signal) => encoder.encode(["a", "b"], { signal }),
    (signal) => openIndex(null, { encoder, signal }),
    (signal) => index.add(DOCUMENTS.slice(0, 1), null, { signal }),
  ];
  for (const use of uses) {
    await assert.rejects(use(new PlainSignal(true) as unknown as AbortSignal), { name: "AbortError" });
    await use(new PlainSignal(false) as unknown as AbortSignal);
  }
});
