import assert from "node:assert/strict";
import { test } from "node:test";
import * as onnxruntime from "onnxruntime-node";
import { CorruptArtifactError, InvalidInputError, PocketQueryError } from "pocketquery";
import { Caller, type Port, serveEncoder, WorkerEncoder } from "pocketquery/worker";
import { cosine, EXPECTED, read, TINY_FILES } from "./fixtures.js";

const files = new Map<string, Uint8Array>(
  TINY_FILES.map((name) => [name, Uint8Array.from(read(`tiny/${name}`))]),
);

test("an encoder across a border answers as one beside us", async () => {
  const { port1, port2 } = new MessageChannel();
  serveEncoder(port2 as unknown as Port, async () => onnxruntime);
  const port = port1 as unknown as Port;
  try {
    const seen: string[] = [];
    const options = { bundle: files, publicKey: EXPECTED.key };
    const encoder = await WorkerEncoder.load(port, options, {
      onProgress: ({ file }) => void seen.push(file),
    });
    assert.ok(seen.includes("encoder.onnx"));
    assert.equal(encoder.signedBy, EXPECTED.key_id);
    assert.equal(encoder.dimension, 16);
    const vectors = await encoder.encode(EXPECTED.texts);
    for (const [i, vector] of vectors.entries()) {
      assert.ok(cosine(vector, EXPECTED.tiny.vectors[i] ?? []) > 0.9999);
    }
    assert.deepEqual(await encoder.encode(EXPECTED.texts[2] ?? ""), vectors[2]);
    const done: number[] = [];
    const prompted = await encoder.encodeDocument(["the sea", "a"], { onProgress: (now) => void done.push(now) });
    assert.deepEqual([prompted.length, done], [2, [1, 2]]);
    await assert.rejects(encoder.encode(["a", "b"], { signal: AbortSignal.abort() }), { name: "AbortError" });
    assert.deepEqual(await encoder.tokenize("the sea"), EXPECTED.tiny.ids.at(-1)?.slice(0, 3).concat(3));
    await encoder.swapAdapter(Uint8Array.from(read("release.safetensors")));
    assert.equal(encoder.version, "2");
    const query = await encoder.encodeQuery(EXPECTED.texts[2] ?? "", { truncateDim: 8 });
    assert.ok(cosine(query, EXPECTED.swapped.queries[2] ?? []) > 0.9999);
    await assert.rejects(encoder.encode("a\ud800"), InvalidInputError);
    await assert.rejects(encoder.swapAdapter(new Uint8Array(9)), CorruptArtifactError);
    const signal = AbortSignal.abort();
    await assert.rejects(WorkerEncoder.load(port, options, { signal }), { name: "AbortError" });
    assert.equal((await WorkerEncoder.verify(port, options)).golden.texts, 4);
    await encoder.close();
    await assert.rejects(encoder.encode("a"), /the worker has no encoder; load a bundle/);
  } finally {
    port1.close();
    port2.close();
  }
});

test("an encoder whose place another took is refused, and does not answer as that one", async () => {
  const { port1, port2 } = new MessageChannel();
  serveEncoder(port2 as unknown as Port, async () => onnxruntime);
  const port = port1 as unknown as Port;
  try {
    const first = await WorkerEncoder.load(port, { bundle: files });
    const second = await WorkerEncoder.load(port, { bundle: files });
    const refused = { name: "InvalidInputError", message: /has loaded another encoder in the place of this one/ };
    await assert.rejects(first.encodeQuery("sugar"), refused);
    await assert.rejects(first.swapAdapter(null), refused);
    await first.close();
    assert.equal((await second.encodeQuery("sugar")).length, 16);
    await second.close();
  } finally {
    port1.close();
    port2.close();
  }
});

test("who waits for a worker that fails is told", async () => {
  const worker = Object.assign(new EventTarget(), { postMessage: () => undefined });
  const failures: [Event, RegExp][] = [
    [new Event("error"), /the worker failed: its script, or a module it imports, cannot be loaded; look at/],
    [Object.assign(new Event("error"), { message: "x is not defined" }), /the worker failed: x is not defined;/],
    [new Event("messageerror"), /the worker failed: an answer of it cannot be read here;/],
  ];
  const caller = new Caller(worker as unknown as Port);
  for (const [event, message] of failures) {
    const waiting = ["encode", "close"].map((method) => caller.call(method, []));
    worker.dispatchEvent(event);
    for (const call of waiting) {
      await assert.rejects(call, (error: Error) => error instanceof PocketQueryError && message.test(error.message));
    }
  }
});
