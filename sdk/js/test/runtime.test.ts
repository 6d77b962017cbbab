/** Our own runtime held to onnxruntime: the graphs of conformance/, real bundles, and what it refuses. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { CorruptArtifactError, MissingExtraError } from "pocketquery";
import { FolderSource, load, verify } from "pocketquery/node";
import * as runtime from "pocketquery/runtime";
import { LocalStep } from "pocketquery/training";
import { CONFORMANCE, cosine, EXPECTED, PACKAGE, read, REFERENCE, TINY, tiny } from "./fixtures.js";

interface Call {
  input_ids: number[][];
  attention_mask: number[][];
  vectors?: number[][];
  refused?: boolean;
}

const GRAPHS = join(CONFORMANCE, "graphs");
const expected = JSON.parse(gunzipSync(readFileSync(join(GRAPHS, "expected.json.gz"))).toString("utf8")) as Record<
  string,
  { calls: Call[] }
>;
const OUTPUT = "sentence_embedding";

type Session = Awaited<ReturnType<typeof runtime.InferenceSession.create>>;

async function called(session: Session, { input_ids, attention_mask }: Call): Promise<Float32Array[]> {
  const shape = [input_ids.length, input_ids[0]?.length ?? 0];
  const tensor = (rows: number[][]) => new runtime.Tensor("int64", BigInt64Array.from(rows.flat(), BigInt), shape);
  const feeds = { input_ids: tensor(input_ids), attention_mask: tensor(attention_mask) };
  const found = (await session.run(feeds, [OUTPUT]))[OUTPUT];
  assert.ok(found?.data instanceof Float32Array);
  const [rows, width] = found.dims as [number, number];
  assert.equal(rows, input_ids.length);
  return Array.from({ length: rows }, (_, row) => (found.data as Float32Array).slice(row * width, (row + 1) * width));
}

for (const [name, { calls }] of Object.entries(expected)) {
  test(`an exported graph gives onnxruntime's vectors: ${name}`, async () => {
    const session = await runtime.InferenceSession.create(gunzipSync(readFileSync(join(GRAPHS, `${name}.onnx.gz`))));
    const rows: { found: Float32Array; right: number[] }[] = [];
    for (const call of calls) {
      if (call.refused) {
        await assert.rejects(called(session, call), /Gather: row \d+ of a table of \d+/);
        continue;
      }
      for (const [row, found] of (await called(session, call)).entries()) rows.push({ found, right: call.vectors![row]! });
    }
    const first = await called(session, calls[0]!); // after a refusal, too
    assert.deepEqual(first[0], rows[0]!.found);
    assert.ok(rows.length >= 12);
    for (const { found, right } of rows) {
      assert.equal(found.length, right.length);
      const apart = Math.max(...right.map((value, i) => Math.abs(value - found[i]!)));
      if (name.endsWith("float")) assert.ok(apart < 2e-6, `${apart}`);
      else assert.ok(cosine(found, right) > 0.999, `${cosine(found, right)}`); // a code may round otherwise
    }
    const mean = rows.reduce((sum, { found, right }) => sum + cosine(found, right), 0) / rows.length;
    assert.ok(mean > 0.9999, `${mean}`);
    await session.release();
  });
}

test("bundles load, verify, swap adapters and are closed as with onnxruntime", async () => {
  for (const place of [undefined, REFERENCE, TINY]) {
    const report = await verify(place, { onnxruntime: runtime });
    assert.ok(report.golden.leastCosine > 0.999, String(place));
  }
  for (const [place, right] of [[REFERENCE, EXPECTED.reference], [TINY, EXPECTED.tiny]] as const) {
    const encoder = await load(place, { onnxruntime: runtime });
    const vectors = await encoder.encode(EXPECTED.texts);
    for (const [i, vector] of vectors.entries()) assert.ok(cosine(vector, right.vectors[i]!) > 0.9999, EXPECTED.texts[i]);
    assert.deepEqual(await Promise.all(EXPECTED.texts.map((text) => encoder.encode(text))), vectors);
    if (place === TINY) {
      await encoder.swapAdapter(read("release.safetensors"));
      for (const [i, vector] of (await encoder.encode(EXPECTED.texts)).entries()) {
        assert.ok(cosine(vector, EXPECTED.swapped.vectors[i]!) > 0.9999);
      }
      await encoder.swapAdapter(null);
      assert.deepEqual(await encoder.encode(EXPECTED.texts), vectors);
    }
    await encoder.close();
  }
});

test("a vector depends on its text alone, whatever was encoded before", async () => {
  const encoder = await load(undefined, { onnxruntime: runtime });
  const words = "how do plants make sugar out of light and water near the sea".split(" ");
  const texts = Array.from({ length: 40 }, (_, i) => Array.from({ length: (i * 7) % 130 }, (_, j) => words[(i + j) % 13]).join(" "));
  const before = await encoder.encode(texts);
  assert.deepEqual(await encoder.encode([...texts].reverse()), [...before].reverse());
  assert.ok(before.every((vector) => vector.every(Number.isFinite)));
  await encoder.close();
});

test("a training step is refused with what would run it", async () => {
  const place = new FolderSource(join(CONFORMANCE, "training", "bundle"));
  const opened = LocalStep.open(place, { onnxruntime: runtime });
  await assert.rejects(opened, (error: Error) => {
    assert.ok(error instanceof MissingExtraError, String(error));
    assert.match(error.message, /train_step.onnx: the graph has the operator \w+, which pocketquery\/runtime cannot run/);
    assert.match(error.message, /Pass onnxruntime-web, -node or -react-native as onnxruntime$/);
    return true;
  });
});

test("without WebAssembly the error says what to do", async () => {
  const { WebAssembly: there } = globalThis;
  Reflect.deleteProperty(globalThis, "WebAssembly");
  try {
    await assert.rejects(load(TINY, { onnxruntime: runtime }), (error: Error) => {
      assert.ok(error instanceof MissingExtraError, String(error));
      assert.match(error.message, /tiny: encoder.onnx: WebAssembly with SIMD is not there .*'wasm-unsafe-eval'/);
      return true;
    });
  } finally {
    globalThis.WebAssembly = there;
  }
});

test("a damaged graph is refused or computed, and ends in nothing else", async () => {
  const model = read("tiny/encoder.onnx");
  let state = 7;
  const drawn = (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  let refused = 0;
  for (let round = 0; round < 400; round++) {
    const changed = Uint8Array.from(round % 4 ? model : model.subarray(0, drawn(model.length)));
    if (round % 4) for (let i = 0; i <= drawn(3); i++) changed[drawn(1200)] = drawn(256); // where the nodes are
    try {
      const session = await runtime.InferenceSession.create(changed);
      await called(session, { input_ids: [[1, 2, 3]], attention_mask: [[1, 1, 1]] });
    } catch (error) {
      assert.ok(error instanceof RangeError || error instanceof TypeError || error instanceof MissingExtraError, String(error));
      refused++;
    }
  }
  assert.ok(refused > 150, `${refused}`);
  const nothing = load(tiny({ "encoder.onnx": model.subarray(0, 900) }), { onnxruntime: runtime, verifyHashes: false });
  await assert.rejects(nothing, CorruptArtifactError);
});

test("the kernels are what their source compiles to", () => {
  const script = join(PACKAGE, "scripts", "runtime", "compile.mjs");
  const compiled = execFileSync(process.execPath, [script, "--print"], { encoding: "utf8" });
  assert.equal(compiled, readFileSync(join(PACKAGE, "src", "runtime", "kernels_wasm.ts"), "utf8"));
});
