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
import { Memory } from "../dist/runtime/memory.js";
import { plainKernels } from "../dist/runtime/plain_kernels.js";
import { sessionsIn } from "../dist/runtime/runtime.js";
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

/** In WebAssembly, and in plain JavaScript for engines that have none. */
const RUNTIMES = {
  WebAssembly: runtime,
  "plain JavaScript": { ...runtime, InferenceSession: sessionsIn(async () => new Memory(plainKernels())) },
};
const GRAPH_CASES = Object.entries(expected).flatMap(([name, { calls }]) =>
  Object.entries(RUNTIMES).map(([engine, { InferenceSession }]) => ({ name, calls, engine, InferenceSession })),
);

for (const { name, calls, engine, InferenceSession } of GRAPH_CASES) {
  test(`an exported graph gives onnxruntime's vectors: ${name}, in ${engine}`, async () => {
    const session = await InferenceSession.create(gunzipSync(readFileSync(join(GRAPHS, `${name}.onnx.gz`))));
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
    for (const onnxruntime of Object.values(RUNTIMES)) {
      const report = await verify(place, { onnxruntime });
      assert.ok(report.golden.leastCosine > 0.999, String(place));
    }
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

test("a run that stands still between its steps gives the same vector, whatever runs meanwhile", async () => {
  for (const { InferenceSession } of Object.values(RUNTIMES)) {
    const session = await InferenceSession.create(gunzipSync(readFileSync(join(GRAPHS, "cls-int8.onnx.gz"))));
    const feeds = (ids: readonly bigint[]) => {
      const tensor = (values: readonly bigint[]) => new runtime.Tensor("int64", BigInt64Array.from(values), [1, ids.length]);
      return { input_ids: tensor(ids), attention_mask: tensor(ids.map(() => 1n)) };
    };
    const [long, short] = [feeds([2n, 5n, 6n, 7n, 8n, 3n]), feeds([2n, 9n, 3n])];
    const vectorOf = async (feed: typeof long, options = {}): Promise<unknown> =>
      (await session.run(feed, [OUTPUT], options))[OUTPUT]!.data;
    const [first, second] = [await vectorOf(long), await vectorOf(short)];
    let steps = 0;
    const nested = async (): Promise<void> => {
      if (++steps % 3 !== 0) assert.deepEqual(await vectorOf(short), second);
      else assert.deepEqual(await vectorOf(long, { between: () => assert.fail("two stand still") }), first);
    };
    assert.deepEqual(await vectorOf(long, { between: nested }), first);
    assert.ok(steps > 10);
    await assert.rejects(vectorOf(long, { between: () => Promise.reject(new Error("ended")) }), /^Error: ended$/);
    assert.deepEqual(await vectorOf(short), second);
  }
});

test("session options that would do nothing are refused", async () => {
  for (const sessionOptions of [{ executionProviders: ["webgpu"] }, { intraOpNumThreads: 4 }]) {
    const [name] = Object.keys(sessionOptions);
    await assert.rejects(load(TINY, { onnxruntime: runtime, sessionOptions }), (error: Error) => {
      assert.ok(error instanceof MissingExtraError, String(error));
      assert.match(error.message, new RegExp(`sessionOptions has ${name}, which pocketquery/runtime cannot run`));
      assert.match(error.message, /Pass onnxruntime-web, -node or -react-native as onnxruntime$/);
      return true;
    });
  }
  const given = { intraOpNumThreads: 1, logSeverityLevel: 0, executionProviders: undefined } as object;
  await (await load(TINY, { onnxruntime: runtime, sessionOptions: given })).close();
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

// A model of one node, written as protobuf: enough to ask for what no export has.
type Field = readonly [number, number | string | Uint8Array];

function message(...fields: Field[]): Uint8Array {
  const bytes: number[] = [];
  const varint = (value: number): void => {
    let left = BigInt.asUintN(64, BigInt(value));
    for (; left > 127n; left >>= 7n) bytes.push(Number(left & 127n) | 128);
    bytes.push(Number(left));
  };
  for (const [number, value] of fields) {
    varint(number * 8 + (typeof value === "number" ? 0 : 2));
    if (typeof value === "number") varint(value);
    else {
      const data = typeof value === "string" ? new TextEncoder().encode(value) : value;
      varint(data.length);
      bytes.push(...data);
    }
  }
  return Uint8Array.from(bytes);
}

const constant = (name: string, type: number, shape: number[], data: ArrayBufferView): Field => {
  const raw = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return [5, message(...shape.map((size): Field => [1, size]), [2, type], [8, name], [9, raw])];
};
const integer = (name: string, value: number): Field => [5, message([1, name], [3, value], [20, 2])];
const node = (operator: string, inputs: string[], outputs: string[], ...more: Field[]): Field => {
  const names = [...inputs.map((name): Field => [1, name]), ...outputs.map((name): Field => [2, name])];
  const domain: Field[] = operator.startsWith("com.microsoft.") ? [[7, "com.microsoft"]] : [];
  return [1, message(...names, [4, operator.replace("com.microsoft.", "")], ...more, ...domain)];
};
const model = (...parts: Field[]): Uint8Array =>
  message([7, message(...parts, [11, message([1, "x"])], [12, message([1, "y"])])]);

const run = async (bytes: Uint8Array, values = [1, 2, 3, 4], shape = [1, 4]): Promise<number[]> => {
  const session = await runtime.InferenceSession.create(bytes);
  const found = await session.run({ x: new runtime.Tensor("int64", BigInt64Array.from(values, BigInt), shape) }, ["y"]);
  return [...(found["y"]?.data as Float32Array)];
};
const cast = node("Cast", ["x"], ["f"], integer("to", 1));

test("what no export has is refused, or right", async () => {
  const refused: [string, Uint8Array, RegExp][] = [
    ["an operator", model(node("Softplus", ["x"], ["y"])), /the operator Softplus, which pocketquery\/runtime cannot run/],
    ["three arrays", model(cast, node("Max", ["f", "f", "f"], ["y"])), /a Max of 3 arrays/],
    ["a type", model(constant("c", 11, [1], new Uint8Array(8)), node("Cast", ["c"], ["y"], integer("to", 1))), /numbers of ONNX's type 11 \(c\)/],
    ["a cast", model(node("Cast", ["x"], ["y"], integer("to", 10))), /a Cast to ONNX's type 10/],
    ["order", model(cast, node("com.microsoft.MultiHeadAttention", ["f", "f", "f"], ["y"], integer("num_heads", 1), integer("unidirectional", 1))), /of what came before alone/],
    ["a zero point", model(cast, node("DynamicQuantizeLinear", ["f"], ["q", "s", "z"]), constant("w", 3, [4, 2], new Int8Array(8)), node("MatMulInteger", ["q", "w", "z", "z"], ["p"]), node("Cast", ["p"], ["y"], integer("to", 1))), /a MatMulInteger with 0 zero points for 2 columns/],
  ];
  refused.push(
    ["zero points of a product", model(cast, constant("w", 3, [4, 2], new Int8Array(8)), constant("s", 1, [], Float32Array.of(1)), node("com.microsoft.DynamicQuantizeMatMul", ["f", "w", "s", "f"], ["y"])), /a com.microsoft.DynamicQuantizeMatMul with 0 zero points for 2 columns/],
    ["parts of a size that is not said", model(cast, node("Split", ["f"], ["y", "z"], integer("axis", 1))), /a Split without sizes/],
  );
  for (const [name, bytes, reason] of refused) {
    await assert.rejects(run(bytes), (error: Error) => {
      assert.ok(error instanceof MissingExtraError, `${name}: ${error}`);
      assert.match(error.message, reason);
      return true;
    });
  }
  for (const asked of [[2, -1, 5], [-2, -2]]) {
    const shape = constant("s", 7, [asked.length], BigInt64Array.from(asked, BigInt));
    await assert.rejects(run(model(shape, cast, node("Reshape", ["f", "s"], ["y"]))), RangeError);
  }
  await assert.rejects(run(model(cast, node("Gelu", ["x"], ["y"]))), /Gelu: input 0 is of ONNX's type 7, expected float32/);
  const axes = constant("a", 7, [0], new BigInt64Array());
  assert.deepEqual(await run(model(cast, axes, node("ReduceSum", ["f", "a"], ["y"]))), [10]);
  for (const [start, end, sizes] of [[1, 2, [4]], [-1, 9, [5]], [-9, -1, [1, 4]], [2, 1, []]] as const) {
    const asked = node("Shape", ["x"], ["s"], integer("start", start), integer("end", end));
    const values = Array.from({ length: 20 }, () => 0);
    assert.deepEqual(await run(model(asked, node("Cast", ["s"], ["y"], integer("to", 1))), values, [1, 4, 5]), sizes);
  }
  const odd = model(cast, node("DynamicQuantizeLinear", ["f"], ["q", "s", "z"]), constant("w", 2, [4, 1], Uint8Array.of(255, 0, 1, 128)), constant("zero", 2, [], Uint8Array.of(3)), node("MatMulInteger", ["q", "w", "z", "zero"], ["p"]), node("Cast", ["p"], ["y"], integer("to", 1)));
  assert.deepEqual(await run(odd, [1, 2, 3, 5]), [51 * 252 - 102 * 3 - 153 * 2 + 255 * 125]); // with these codes
});

test("a product in one node is what its parts give, and parts of a Split are where they were", async () => {
  const weights = constant("w", 3, [4, 3], Int8Array.of(1, -2, 3, 40, 5, -60, 7, 8, 9, -10, 11, 12));
  const [one, each] = [constant("s", 1, [], Float32Array.of(0.03)), constant("s", 1, [3], Float32Array.of(0.03, 0.5, 0.007))];
  const points = constant("p", 3, [3], Int8Array.of(1, 2, -3));
  const bias = constant("b", 1, [3], Float32Array.of(0.1, -7, 3));
  const parts = [
    node("DynamicQuantizeLinear", ["f"], ["q", "scale", "z"]), node("Cast", ["i"], ["n"], integer("to", 1)),
    node("Mul", ["scale", "s"], ["factors"]), node("Mul", ["n", "factors"], ["scaled"]),
  ] as const;
  const [codes, numbers, factors, scaled] = parts;
  for (const scale of [one, each]) {
    for (const zeros of ["", "p"]) {
      const expected = await run(model(cast, weights, scale, points, bias, codes, node("MatMulInteger", zeros ? ["q", "w", "z", zeros] : ["q", "w", "z"], ["i"]), numbers, factors, scaled, node("Add", ["scaled", "b"], ["y"])), [1, 2, -3, 4, 5, 6, 7, 9], [2, 4]);
      const whole = node("com.microsoft.DynamicQuantizeMatMul", ["f", "w", "s", zeros, "b"], ["y"]);
      assert.deepEqual(await run(model(cast, weights, scale, points, bias, whole), [1, 2, -3, 4, 5, 6, 7, 9], [2, 4]), expected);
    }
  }
  const short = constant("b", 1, [2], new Float32Array(2));
  await assert.rejects(run(model(cast, weights, one, short, node("com.microsoft.DynamicQuantizeMatMul", ["f", "w", "s", "", "b"], ["y"]))), /a bias of \(2\) for 3 columns/);
  const sizes = constant("sizes", 7, [3], BigInt64Array.of(1n, 0n, 3n));
  for (const [axis, values, shape] of [[-1, [2, 3, 4, 6, 7, 8], [2, 4]], [0, [3, 4, 5, 6, 7, 8], [4, 2]]] as const) {
    const cut = node("Split", ["f", "sizes"], ["a", "b", "y"], integer("axis", axis));
    assert.deepEqual(await run(model(cast, sizes, cut), [1, 2, 3, 4, 5, 6, 7, 8], [...shape]), [...values]);
  }
  await assert.rejects(run(model(cast, sizes, node("Split", ["f", "sizes"], ["a", "y"], integer("axis", 1)))), /2 parts of sizes \(1, 0, 3\) of an axis of 4/);
});

test("feeds are checked, and a released session says so", async () => {
  const session = await runtime.InferenceSession.create(model(cast, node("Sum", ["f", "f"], ["y"])));
  const tensor = (count: number, shape: number[]) => new runtime.Tensor("int64", new BigInt64Array(count).fill(2n), shape);
  assert.deepEqual([...((await session.run({ x: tensor(2, [1, 2]) }))["y"]?.data as Float32Array)], [4, 4]);
  await assert.rejects(session.run({ x: tensor(2, [1, 6]) }), /x is int64 with 2 numbers, expected int64 of shape \(1, 6\)/);
  await assert.rejects(session.run({}), /expected x/);
  await assert.rejects(session.run({ x: tensor(1, [1]), z: tensor(1, [1]) }), /feeds x, z, expected x/);
  await session.release();
  await assert.rejects(session.run({ x: tensor(1, [1]) }), /the session was released/);
});

test("without WebAssembly the error says what to do", async () => {
  const { WebAssembly: there } = globalThis;
  Reflect.deleteProperty(globalThis, "WebAssembly");
  try {
    await assert.rejects(load(TINY, { onnxruntime: runtime }), (error: Error) => {
      assert.ok(error instanceof MissingExtraError, String(error));
      assert.match(error.message, /tiny: encoder.onnx: WebAssembly with SIMD is not there .*pocketquery\/react-native.*'wasm-unsafe-eval'/);
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
