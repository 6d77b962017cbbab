/** Encoder and index across a worker's border: the same hits, errors, progress and aborts. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";
import * as onnxruntime from "onnxruntime-node";
import { CorruptArtifactError, InvalidInputError, type Progress, SpaceMismatchError } from "pocketquery";
import { absentPhrases, facets, openIndex, snippet } from "pocketquery/index";
import { type Port, type Runtime, serveEncoder } from "pocketquery/worker";
import { serveSearch, WorkerEncoder, WorkerIndex } from "pocketquery/search-worker";
import { call, CHROMIUM, inPage } from "./browser.js";
import { read, TINY_FILES } from "./fixtures.js";
import { EXPECTED, files, source } from "./index/data.js";

const BUNDLE = new Map(TINY_FILES.map((name) => [name, Uint8Array.from(read(`tiny/${name}`))]));

async function withWorker(
  work: (port: Port) => Promise<void>,
  serve: (port: Port, runtime: Runtime) => void = serveSearch,
): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  serve(port2 as unknown as Port, async () => onnxruntime);
  try {
    await work(port1 as unknown as Port);
  } finally {
    port1.close();
    port2.close();
  }
}

test("an index in a worker finds what one beside us finds", async () => {
  await withWorker(async (port) => {
    const beside = await openIndex(source("base"));
    const seen: Progress[] = [];
    const index = await WorkerIndex.open(port, { index: files("base") }, { onProgress: (now) => void seen.push(now) });
    assert.ok(seen.some(({ file }) => file === "documents.sqlite"));
    assert.deepEqual([index.size, index.dimension, index.spaceId], [beside.size, beside.dimension, beside.spaceId]);
    for (const { query, hits: _, ...options } of EXPECTED.base.searches.slice(0, 20)) {
      assert.deepEqual(await index.search(query, options), await beside.search(query, options));
    }
    const [hit] = await index.search("bridge", { mode: "lexical", k: 1 });
    const shown = await index.snippet(hit!, "the bridge", { length: 40 });
    assert.ok(shown.marks.length > 0);
    assert.deepEqual(shown, await snippet(beside, hit!, "the bridge", { length: 40 }));
    for (const [query, absent] of [['"the bridge" "bridge bridge bridge"', 1], ['+"bridge bridge bridge" bridge', 0], ["bridge bridge bridge", 0]] as const) {
      assert.deepEqual([await index.absentPhrases(query), await absentPhrases(beside, query)], [absent, absent], query);
    }
    assert.deepEqual(await index.facets("language", { query: "bridge" }), await facets(beside, "language", { query: "bridge" }));
    assert.deepEqual(await index.get("long"), beside.get("long"));
    assert.equal(await index.get("none"), undefined);
    await assert.rejects(index.search("bridge"), /a search by meaning for a text needs an encoder/);
    await assert.rejects(index.delete(["d4"]), /open for reading only/);
    await assert.rejects(index.search("bridge", { mode: "lexical", k: 0 }), InvalidInputError);
    await index.close();
    await assert.rejects(index.search("bridge", { mode: "lexical" }), /the index was closed; open it again/);
    const broken = files("base");
    broken.set("index.json", Uint8Array.of(1));
    await assert.rejects(WorkerIndex.open(port, { index: broken }), CorruptArtifactError);
    const signal = AbortSignal.abort();
    await assert.rejects(WorkerIndex.open(port, { index: files("base") }, { signal }), { name: "AbortError" });
  });
});

test("an index that begins in a worker takes documents without vectors", async () => {
  await withWorker(async (port) => {
    const encoder = await WorkerEncoder.load(port, { bundle: BUNDLE });
    const index = await WorkerIndex.open(port, { index: null, encoder, changes: "" });
    const done: string[] = [];
    const notes = [{ id: "a", text: "the sea" }, { id: "b", text: "how do plants make sugar" }];
    await index.add(notes, null, { onProgress: (now, all) => void done.push(`${now}/${all}`) });
    assert.deepEqual([index.size, done], [2, ["1/2", "2/2"]]);
    assert.equal((await index.search("the sea", { k: 1 }))[0]?.id, "a");
    assert.equal((await index.search(await encoder.encode("the sea"), { k: 1 }))[0]?.id, "a");
    assert.equal(await index.delete(["a", "none"]), 1);
    await index.compact();
    assert.equal(index.size, 1);
    await assert.rejects(index.add(notes.slice(1)), /the id 'b' is in the index already/);
    await assert.rejects(WorkerIndex.open(port, { index: files("base"), encoder }), SpaceMismatchError);
  });
});

test("what is stored when its signal comes is not reported as ended", async () => {
  await withWorker(async (port) => {
    const controller = new AbortController();
    const late: Port = {
      postMessage: port.postMessage.bind(port),
      addEventListener: (type, listener) => {
        port.addEventListener(type, (event) => {
          if (isAdding && (event.data as { kind: string }).kind === "result") controller.abort(); // before it is heard
          listener(event);
        });
      },
    };
    let isAdding = false;
    const encoder = await WorkerEncoder.load(late, { bundle: BUNDLE });
    const index = await WorkerIndex.open(late, { index: null, encoder, changes: "" });
    isAdding = true;
    await index.add([{ id: "a", text: "the sea" }], null, controller);
    assert.ok(controller.signal.aborted);
    assert.equal(index.size, 1);
    const signal = AbortSignal.abort();
    await assert.rejects(index.add([{ id: "b", text: "sugar" }], null, { signal }), { name: "AbortError" });
    assert.equal(index.size, 1);
  });
});

test("an encoder comes of the same worker, or a promise of it", async () => {
  await withWorker(async (port) => {
    const loading = WorkerEncoder.load(port, { bundle: BUNDLE });
    const index = await WorkerIndex.open(port, { index: null, encoder: loading, changes: "" });
    const encoder = await loading;
    assert.equal(index.spaceId, encoder.spaceId);
    const wrong = Promise.reject(new CorruptArtifactError("it is broken"));
    await assert.rejects(WorkerIndex.open(port, { index: null, encoder: wrong, changes: "" }), CorruptArtifactError);
    for (const [found, says] of [[null, "null"], [{ id: 1 }, "a Object"], ["bundle", "a string"]] as const) {
      const opening = WorkerIndex.open(port, { index: null, encoder: found as never, changes: "" });
      const message = new RegExp(`^the encoder is ${says}, expected a WorkerEncoder of the index's worker; `);
      await assert.rejects(opening, { name: "InvalidInputError", message });
    }
    await withWorker(async (other) => {
      await WorkerEncoder.load(other, { bundle: BUNDLE });
      const opening = WorkerIndex.open(other, { index: null, encoder, changes: "" });
      const message = /^the encoder was loaded in another worker, expected a WorkerEncoder of the index's worker; /;
      await assert.rejects(opening, { name: "InvalidInputError", message });
    });
  });
});

test("what cannot be sent to the worker is an error of ours", async () => {
  await withWorker(async (port) => {
    const message = /^the (bundle|index) is a \w+, expected an address, an object with the address of each file, or a Map/;
    for (const wrong of [source("base"), {}, 5] as never[]) {
      await assert.rejects(WorkerEncoder.load(port, { bundle: wrong }), { name: "InvalidInputError", message });
      await assert.rejects(WorkerIndex.open(port, { index: wrong }), { name: "InvalidInputError", message });
    }
    const index = await WorkerIndex.open(port, { index: files("base") });
    const filter = { year: () => 1999 } as never;
    const refused = { name: "InvalidInputError", message: /^search: an argument cannot be sent to the worker/ };
    await assert.rejects(index.search("bridge", { mode: "lexical", filter }), refused);
  });
});

test("a worker in which indexes are opened and closed gathers no listeners", async () => {
  await withWorker(async (port) => {
    let listeners = 0;
    const counted = {
      postMessage: port.postMessage.bind(port),
      addEventListener: (...args: Parameters<Port["addEventListener"]>) => {
        listeners += 1;
        port.addEventListener(...args);
      },
      start: () => port.start?.(),
    };
    for (let i = 0; i < 3; i++) await (await WorkerIndex.open(counted, { index: files("base") })).close();
    assert.equal(listeners, 4); // for answers, for those that cannot be read, for failures, and for what the worker asks
  });
});

test("a worker with an encoder alone says that it has no such method", async () => {
  await withWorker(async (port) => {
    await assert.rejects(WorkerIndex.open(port, { index: null }), /the worker has no method openIndex/);
  }, serveEncoder);
});

test("the ready worker, in a page", { skip: !existsSync(CHROMIUM) && "no Chromium" }, async () => {
  await inPage("page.html", async (page) => {
    const found = await call<{ ids: string[]; size: number; again: number }>(page, "searchInWorker", "/fixtures/tiny", [
      { id: "a", text: "the sea" }, { id: "b", text: "how do plants make sugar" },
    ]);
    assert.deepEqual(found, { ids: ["b", "a"], size: 2, again: 2 });
  });
});

test("an opening that is ended leaves no index", { skip: !existsSync(CHROMIUM) && "no Chromium" }, async () => {
  await inPage("page.html", async (page) => {
    const found = await call<string[]>(page, "endedInWorker", "/fixtures/tiny");
    assert.deepEqual(found, ["AbortError", "InvalidInputError: the index was closed; open it again"]);
  });
});
