import assert from "node:assert/strict";
import { test } from "node:test";
import * as onnxruntime from "onnxruntime-node";
import { CorruptArtifactError, InvalidInputError, PocketQueryError } from "pocketquery";
import { answer, Caller, type Context, type Port, serveEncoder, WorkerEncoder } from "pocketquery/worker";
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
  const failures: [Event, RegExp][] = [
    [new Event("error"), /the worker failed: its script, or a module it imports, cannot be loaded; look at/],
    [Object.assign(new Event("error"), { message: "x is not defined" }), /the worker failed: x is not defined;/],
    [new Event("messageerror"), /the worker failed: an answer of it cannot be read here;/],
  ];
  for (const [event, message] of failures) {
    const worker = Object.assign(new EventTarget(), { postMessage: () => undefined });
    const caller = new Caller(worker as unknown as Port);
    const waiting = ["encode", "close"].map((method) => caller.call(method, []));
    worker.dispatchEvent(event);
    for (const call of waiting) {
      await assert.rejects(call, (error: Error) => error instanceof PocketQueryError && message.test(error.message));
    }
  }
});

test("who calls a worker whose script did not come is told, each time", { timeout: 10_000 }, async () => {
  const worker = Object.assign(new EventTarget(), { postMessage: () => undefined }) as unknown as Port & EventTarget;
  const first = WorkerEncoder.load(worker, { bundle: files });
  worker.dispatchEvent(new Event("error"));
  const told = { name: "PocketQueryError", message: /its script, or a module it imports, cannot be loaded/ };
  await assert.rejects(first, told);
  await assert.rejects(WorkerEncoder.load(worker, { bundle: files }), told);
  await assert.rejects(new Caller(worker).call("close", []), told);
});

test("a worker that threw may answer all the same", async () => {
  const { port1, port2 } = new MessageChannel();
  answer(port2 as unknown as Port, { echo: (_, text: string) => text });
  try {
    const caller = new Caller(port1 as unknown as Port);
    port1.dispatchEvent(Object.assign(new Event("error"), { message: "x is not defined" }));
    assert.equal(await caller.call("echo", ["a"]), "a");
  } finally {
    port1.close();
    port2.close();
  }
});

test("what is ended says itself whether it was done", async () => {
  const { port1, port2 } = new MessageChannel();
  const aborted = (signal: AbortSignal): Promise<unknown> =>
    new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  answer(port2 as unknown as Port, {
    stored: async ({ signal }: Context) => (await aborted(signal), "stored"),
    ended: async ({ signal }: Context) => (await aborted(signal), signal.throwIfAborted()),
    broken: async ({ signal }: Context) => (await aborted(signal), assert.fail("it broke while it ended")),
  });
  try {
    const caller = new Caller(port1 as unknown as Port);
    const reason = new Error("the user left");
    for (const method of ["stored", "ended", "broken"]) {
      const controller = new AbortController();
      const called = caller.call(method, [], { signal: controller.signal });
      controller.abort(reason);
      if (method === "stored") assert.equal(await called, "stored");
      else await assert.rejects(called, reason);
    }
  } finally {
    port1.close();
    port2.close();
  }
});

test("who waits for the end of what was ended is told that the worker failed", { timeout: 10_000 }, async () => {
  const worker = Object.assign(new EventTarget(), { postMessage: () => undefined });
  const controller = new AbortController();
  const called = new Caller(worker as unknown as Port).call("encode", [], { signal: controller.signal });
  controller.abort();
  worker.dispatchEvent(Object.assign(new Event("error"), { message: "no memory" }));
  await assert.rejects(called, /the worker failed: no memory;/);
});

test("a loading that is ended leaves the encoder in use, or is done", async () => {
  const { port1, port2 } = new MessageChannel();
  let closing = async (): Promise<void> => undefined;
  const { InferenceSession } = onnxruntime;
  const create = async (...args: Parameters<typeof InferenceSession.create>) => {
    const session = await InferenceSession.create(...args);
    const release = session.release.bind(session);
    return Object.assign(session, { release: async () => (await closing(), release()) });
  };
  const runtime = { ...onnxruntime, InferenceSession: { create } } as typeof onnxruntime;
  serveEncoder(port2 as unknown as Port, async () => runtime);
  const port = port1 as unknown as Port;
  try {
    const used = await WorkerEncoder.load(port, { bundle: files });
    const controller = new AbortController();
    const ending = async (): Promise<void> => {
      controller.abort();
      await new Promise((resolve) => setTimeout(resolve, 50)); // until the worker knows
    };
    // The last that it does before it is done: the encoder that replayed the golden texts is closed.
    closing = ending;
    const { signal } = controller;
    const adapter = Uint8Array.from(read("release.safetensors"));
    const loading = WorkerEncoder.load(port, { bundle: files, adapter, verify: true }, { signal });
    await assert.rejects(loading, { name: "AbortError" });
    closing = async () => undefined;
    assert.equal((await used.encodeQuery("sugar")).length, 16);

    // The first that it does when it is done: the encoder that was in use is closed.
    const late = new AbortController();
    closing = async () => late.abort();
    const loaded = await WorkerEncoder.load(port, { bundle: files }, { signal: late.signal });
    assert.equal((await loaded.encodeQuery("sugar")).length, 16);
    await assert.rejects(used.encodeQuery("sugar"), /has loaded another encoder in the place of this one/);
  } finally {
    port1.close();
    port2.close();
  }
});

test("what cannot be sent is an error of its argument, and nothing waits for it", async () => {
  const { port1, port2 } = new MessageChannel();
  serveEncoder(port2 as unknown as Port, async () => onnxruntime);
  try {
    const options = { bundle: files, sessionOptions: { onStart: () => undefined } as object };
    const message = /^load: an argument cannot be sent to the worker \(.*\), expected/;
    const refused = { name: "InvalidInputError", message };
    await assert.rejects(WorkerEncoder.load(port1 as unknown as Port, options), refused);
  } finally {
    port1.close();
    port2.close();
  }
});
