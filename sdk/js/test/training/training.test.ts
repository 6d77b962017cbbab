/** Training on the device beside Python's: steps, monitors, views, whole trainings, releases. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import * as onnxruntime from "onnxruntime-node";
import { InvalidInputError, MemorySource, SpaceMismatchError } from "pocketquery";
import { MemoryChanges, openIndex } from "pocketquery/index";
import { FolderSource, load } from "pocketquery/node";
import {
  Bundle,
  distinct,
  dropoutView,
  LocalStep,
  localConfig,
  makeViews,
  MatrixVectors,
  measure,
  mistype,
  noiseCase,
  packAdapter,
  Random,
  trainLocally,
  typo,
  unfinished,
} from "pocketquery/training";
import { apart, batchOf, BUNDLE, documents, floats, hyperparameters, TRAINED, TRAINING } from "./data.js";
import { plainQuery } from "../../dist/store/example.js";
import { cosine, tiny } from "../fixtures.js";

const bundle = await Bundle.open(new FolderSource(BUNDLE));
const encoder = await load(BUNDLE);
const step = await LocalStep.open(bundle, { onnxruntime });
const { vectors, ids } = documents();
const matrix = new MatrixVectors(vectors, ids);
const given = encoder.adapter;
const { examples } = TRAINED;
const LOCAL = {
  steps: TRAINED.local.steps,
  batchSize: 8,
  nearestPrototypes: 10,
  randomPrototypes: 10,
  typoRate: 0.2,
  openedLossWeight: 1,
  learningRate: 3e-3,
};
const train = (more: object = {}) =>
  trainLocally({
    encoder, step, examples, documents: matrix, adapter: given, config: LOCAL, seed: TRAINED.local.seed,
    ...more,
  });

test("twenty steps give Python's tensors", async (t) => {
  const { batches, losses } = TRAINED.steps;
  const hyper = hyperparameters();
  let state = await step.initialState(given);
  let last: Float32Array = new Float32Array(0);
  for (const [i, fed] of batches.entries()) {
    const outcome = await step.run(batchOf(fed), state, hyper);
    assert.ok(apart(Object.values(outcome.losses), losses[i] ?? []) < 1e-4, `losses of step ${i}`);
    state = outcome.state;
    last = outcome.vectors;
  }
  assert.equal(state.step, 20);
  assert.ok(apart(last, floats(TRAINED.steps.vectors)) < 1e-4);
  let most = 0;
  for (const kind of ["online", "target", "second_moment"] as const) {
    assert.deepEqual([...state[kind].keys()].sort(), Object.keys(TRAINED.steps[kind]).sort());
    for (const [name, { data }] of state[kind]) {
      const difference = apart(data, floats(TRAINED.steps[kind][name] ?? assert.fail(name)));
      assert.ok(difference < 1e-4, `${kind} ${name}: ${difference}`);
      most = Math.max(most, difference);
    }
  }
  const moved = Math.max(...[...state.online].map(([name, { data }]) => apart(data, given.get(name)?.data ?? [])));
  t.diagnostic(`largest difference ${most}, of tensors that moved by up to ${moved}`);
  assert.ok(moved > 0.01);
});

test("a whole training gives Python's adapter, and the encoder takes it", async (t) => {
  const seen: number[] = [];
  const result = await train({ onStep: (done: number) => seen.push(done) });
  assert.equal(result.stopped, null);
  assert.equal(result.examples, examples.length);
  assert.deepEqual(seen, Array.from({ length: LOCAL.steps }, (_, i) => i + 1));
  const losses = result.losses.map((found, i) => apart(Object.values(found), TRAINED.local.losses[i] ?? []));
  const adapter = result.adapter ?? assert.fail("no adapter");
  const tensors = Object.entries(TRAINED.local.adapter).map(([name, packed]) =>
    apart(adapter.get(name)?.data ?? [], floats(packed)),
  );
  t.diagnostic(`losses within ${Math.max(...losses)}, tensors within ${Math.max(...tensors)}`);
  // Wider than the steps': the anchors come from the int8 encoder, which rounds by the processor.
  assert.ok(Math.max(...losses) < 1e-2 && Math.max(...tensors) < 1e-2);
  assert.ok(Math.abs((result.health?.drift ?? 9) - (TRAINED.local.health["drift"] ?? 0)) < 1e-3);

  const before = await encoder.encodeQuery("castle of the rock");
  await encoder.swapAdapter(adapter);
  const after = await encoder.encodeQuery("castle of the rock");
  await encoder.swapAdapter(null);
  assert.ok(cosine(before, after) < 0.99999 && cosine(before, after) > 0.8);
  assert.deepEqual(await encoder.encodeQuery("castle of the rock"), before);
});

const HYBRID = {
  ...LOCAL,
  steps: TRAINED.hybrid.steps,
  openedLossWeight: 0,
  anchorWeight: 0.5,
  hybridLossWeight: 1,
  hybridCandidates: 6,
  hybridSharpness: 0.2,
  hybridMistyped: 0.25,
};

test("the hybrid ranking of the device's index teaches as in Python", async (t) => {
  const index = await openIndex(new FolderSource(join(TRAINING, "index")));
  const taught = { documents: index.vectors(), config: HYBRID, seed: TRAINED.hybrid.seed };
  const result = await train(taught);
  assert.equal(result.stopped, null);
  const losses = result.losses.map((found, i) => apart(Object.values(found), TRAINED.hybrid.losses[i] ?? []));
  const tensors = Object.entries(TRAINED.hybrid.adapter).map(([name, packed]) =>
    apart(result.adapter?.get(name)?.data ?? [], floats(packed)),
  );
  t.diagnostic(`losses within ${Math.max(...losses)}, tensors within ${Math.max(...tensors)}`);
  assert.ok(Math.max(...losses) < 1e-2 && Math.max(...tensors) < 1e-2);
  assert.deepEqual(await train({ ...taught, leastOpened: 100 }), result); // what was opened says nothing here
  await assert.rejects(train({ config: HYBRID }), /document vectors alone/);
  for (const config of [{ openedLossWeight: 1, hybridLossWeight: 1 }, { hybridCandidates: 1 }, { hybridSharpness: 0 }]) {
    assert.throws(() => localConfig(config), InvalidInputError);
  }
});

test("the rows found by words and meaning are those of a hybrid search", async () => {
  const changes = new MemoryChanges();
  const index = await openIndex(new FolderSource(join(TRAINING, "index")), { encoder, changes });
  await index.delete(["d3"]);
  const rows = index.vectors();
  const [id = "", text = ""] = ["new", examples[0]?.query];
  await index.add([{ id, text }], [vectors[0] as Float32Array]);
  const asked = await Promise.all(examples.map(async ({ query }) => ({ query, vector: await encoder.encodeQuery(query) })));
  const found = await Promise.all(asked.map(({ query, vector }) => rows.ranked(query, vector, 5)));
  await index.delete([id]); // its terms count on, as they did for the rows
  for (const [i, { query, vector }] of asked.entries()) {
    const hits = await index.search(query, { mode: "hybrid", k: 5, vector });
    assert.deepEqual(found[i]?.rows, hits.map((hit) => rows.rowOf(hit.id)));
    assert.deepEqual(found[i]?.scores, hits.map(({ score }) => score));
  }
  const all = Array.from({ length: 60 }, (_, i) => `d${i}`);
  await index.delete(all);
  const late = await rows.ranked(examples[0]!.query, vectors[0]!, 5);
  assert.equal(late.rows.length, 5); // what was deleted since is still in the rows
  class Own extends MatrixVectors {
    found = [0, 1];
    async ranked() {
      return { rows: this.found, scores: this.found.map((row) => 1 - row / 10) };
    }
  }
  const own = new Own(vectors, ids);
  assert.equal((await train({ config: HYBRID, documents: own })).stopped, null);
  own.found = [];
  await assert.rejects(train({ config: HYBRID, documents: own }), /nothing is found for query 0/);
  await assert.rejects(rows.ranked("  ", vectors[0] as Float32Array, 5), /the query is blank/);
  await assert.rejects(rows.ranked("sea", new Float32Array(3), 5), InvalidInputError);
});

test("the same seed gives the same bits, another one others", async () => {
  const [first, again, other] = [await train(), await train(), await train({ seed: 8 })];
  assert.deepEqual(first, again);
  assert.notDeepEqual(first.adapter, other.adapter);
});

test("a release is written as Python writes it", async () => {
  const { manifest } = bundle;
  const tensors = new Map(
    Object.entries(TRAINED.local.adapter).map(([name, packed]) => [
      name, { shape: packed.shape, data: floats(packed) },
    ]),
  );
  const written = await packAdapter(tensors, { manifest, version: "1-local", parentVersion: "1" });
  assert.deepEqual(written, Uint8Array.from(readFileSync(join(TRAINING, "adapter.safetensors"))));
  await encoder.swapAdapter(written);
  assert.equal(encoder.version, "1-local");
  await encoder.swapAdapter(null);
  const wrong = new Map([["a", { shape: [1], data: Float32Array.of(70_000) }]]);
  await assert.rejects(packAdapter(wrong, { manifest, version: "2" }), /what float16 cannot hold/);
  await assert.rejects(packAdapter(new Map(), { manifest, version: "2" }), /at least one tensor/);
  await assert.rejects(packAdapter(tensors, { manifest, version: "" }), InvalidInputError);
});

test("opened results of a few count for nothing", async () => {
  const without = await train({ config: { ...LOCAL, openedLossWeight: 0 } });
  const { length } = examples.filter(({ opened, shown }) => opened !== null && shown.length > 1);
  assert.ok(length > 1 && examples.length <= LOCAL.steps * LOCAL.batchSize);
  assert.deepEqual(await train({ leastOpened: length }), await train());
  assert.deepEqual(await train({ leastOpened: length + 1 }), without);
  const gone = examples.map((one) => ({ ...one, shown: ["gone", "away"], opened: "gone" }));
  assert.deepEqual(await train({ examples: gone, leastOpened: 1 }), without);
  const few = { config: { ...LOCAL, steps: 1, batchSize: 2 }, leastOpened: 3 }; // of two that are drawn
  assert.ok((await train(few)).losses[0]?.openedLoss === 0);
});

test("what stops a training leaves nothing of it", async () => {
  const drifting = { ...LOCAL, learningRate: 5, anchorWeight: 0 };
  const drifted = await train({ config: drifting });
  assert.match(drifted.stopped ?? "", /^step \d+: (drift: queries moved|collapse: )/);
  assert.equal(drifted.adapter, null);
  const limits = { rankKept: 1, spreadKept: 1, drift: 2 };
  const collapsed = await train({ config: { ...LOCAL, learningRate: 0.05, anchorWeight: 0, limits } });
  assert.match(collapsed.stopped ?? "", /collapse: the (spread|effective rank) fell to/);
  const refused = await train({ mayContinue: () => "the user withdrew" });
  assert.deepEqual([refused.stopped, refused.examples], ["the user withdrew", 0]);
  let asked = 0;
  const later = await train({ mayContinue: async () => (++asked > 3 ? "later" : null) });
  assert.deepEqual([later.stopped, later.losses.length, later.adapter], ["later", 2, null]);
  await assert.rejects(train({ signal: AbortSignal.abort(new Error("enough")) }), /enough/);
});

test("what cannot be trained on is refused", async () => {
  await assert.rejects(train({ examples: [] }), /found 0 examples/);
  await assert.rejects(train({ documents: new MatrixVectors([]) }), /the index has no documents/);
  const strange = new Map([["adapter.of.others", { shape: [1], data: Float32Array.of(1) }]]);
  await assert.rejects(train({ adapter: strange }), /they are of different encoders/);
  const broken = new Map([...given].map(([name, { shape, data }]) => {
    return [name, { shape, data: data.map(() => Number.NaN) }];
  }));
  await assert.rejects(train({ adapter: broken }), /holds NaN or infinity/);
  const elsewhere = Object.assign(Object.create(matrix), { spaceId: "elsewhere", count: 60 }) as MatrixVectors;
  await assert.rejects(train({ documents: elsewhere }), SpaceMismatchError);
  for (const [wrong, message] of [
    [{ examples: null }, /^InvalidInputError: examples is null/], [{ documents: null }, /documents is null/],
    [{ adapter: undefined }, /adapter is undefined/], [{ sed: 1 }, /found 'sed'/],
  ] as const) {
    await assert.rejects(train(wrong), message);
  }
  for (const config of [
    null, { heavyViews: "typo" }, { limits: null }, { steps: 0 }, { typoRate: 2 }, { learningRate: 0 }, { heavyViews: ["rot13"] }, { heavyViews: [] },
    { lightViews: ["typo"] }, { limits: { rankKept: 2, spreadKept: 0, drift: 1 } }, { speed: 1 },
  ]) {
    assert.throws(() => localConfig(config as never), InvalidInputError, JSON.stringify(config));
  }
  await assert.rejects(LocalStep.open(tiny(), { onnxruntime }), /cannot learn on the device/);
});

test("a damaged step is refused before it runs", async () => {
  const folder = new FolderSource(BUNDLE);
  const sound = new Map<string, Uint8Array>();
  for (const name of ["manifest.json", "train_step.onnx", "encoder.onnx", "adapter.safetensors", "tokenizer.json", "golden.json"]) {
    sound.set(name, await folder.read(name));
  }
  const opened = async (change: (text: string) => string) => {
    const files = new Map(sound);
    const model = Buffer.from(change(Buffer.from(sound.get("train_step.onnx") ?? []).toString("latin1")), "latin1");
    const manifest = JSON.parse(Buffer.from(sound.get("manifest.json") ?? []).toString("utf8"));
    const digest = await crypto.subtle.digest("SHA-256", model);
    manifest.files["train_step.onnx"] = { sha256: Buffer.from(digest).toString("hex"), bytes: model.length };
    files.set("train_step.onnx", model);
    files.set("manifest.json", Buffer.from(JSON.stringify(manifest)));
    return LocalStep.open(new MemorySource(files, "changed"), { onnxruntime });
  };
  await (await opened((text) => text)).close();
  const cases: [RegExp, (text: string) => string][] = [
    [/was made for the encoder/, (t) => t.replace(/"encoder_sha256": "...../, '"encoder_sha256": "00000')],
    [/lives in space/, (t) => t.replace(/"space_id": "space-../, '"space_id": "space-__')],
    [/found 4 views/, (t) => t.replace('"views": 2', '"views": 4')],
    [/'version': found|version is 9/, (t) => t.replace('"version": 1', '"version": 9')],
    [/onnxruntime cannot load train_step.onnx|no metadata/, (t) => t.slice(0, 100)],
    [/'anchoR' is unknown/, (t) => t.replaceAll("anchor", "anchoR")],
  ];
  for (const [message, change] of cases) await assert.rejects(opened(change), message);
});

test("the monitors' figures are Python's", () => {
  for (const { columns, vectors: moved, shipped, health } of TRAINED.monitors) {
    const found = measure({ data: floats(moved), columns }, { data: floats(shipped), columns });
    const expected = ["effective_rank", "std_ratio", "drift", "rank_kept", "spread_kept"].map(
      (name) => health[name] ?? Number.NaN,
    );
    assert.ok(apart(Object.values(found), expected) < 1e-6, JSON.stringify([found, health]));
  }
  const broken = measure({ data: Float32Array.of(Number.NaN, 1), columns: 2 }, { data: Float32Array.of(0, 1), columns: 2 });
  assert.ok(Object.values(broken).every(Number.isNaN));
});

test("where there is nothing to draw, nothing is drawn", () => {
  const random = new Random(1);
  for (const draw of [
    () => random.choice([]), () => random.below(NaN), () => random.below(0.5), () => random.between(5, 3), () => random.sample(2, 3),
  ]) {
    assert.throws(draw, InvalidInputError);
  }
});

test("the generator's numbers and the views are Python's, bit for bit", () => {
  const { texts, numbers, typed, rewritten } = TRAINED.views;
  for (const [seed, [shares, whole, order, wide]] of Object.entries(numbers)) {
    const random = new Random(BigInt(seed));
    const shuffled = random.permutation(9);
    assert.deepEqual(shuffled, order, seed);
    assert.deepEqual(shares.map(() => random.random()), shares, seed);
    const counts = [1, 2, 3, 10, 1000, 2 ** 31];
    assert.deepEqual(counts.map((count) => random.below(count)), whole);
    assert.equal(String(random.seed()), wide);
  }
  for (const { seed, rate, texts: expected } of typed) {
    const random = new Random(seed);
    assert.deepEqual(Array.from({ length: 8 }, () => texts.map((text) => mistype(text, rate, random))).flat(), expected);
  }
  const augmenters = { unfinished: unfinished(), noise_case: noiseCase, dropout_view: dropoutView };
  for (const [name, augmenter] of Object.entries(augmenters)) {
    const random = new Random(6);
    const found = Array.from({ length: 6 }, () =>
      texts.map((text) => augmenter.rewrite(text, random) || text),
    ).flat();
    assert.deepEqual(found, rewritten[name], name);
  }
  assert.throws(() => new Random(-1), InvalidInputError);
  const plan = { views: 4, heavy: [typo(1)], light: [noiseCase] } as const;
  const [first, second, ...heavy] = makeViews("Plants make sugar", new Random(1), plan);
  for (const light of [first, second]) assert.equal(light?.toLowerCase(), "plants make sugar");
  assert.ok(heavy.length === 2 && !heavy.includes("Plants make sugar"));
  assert.throws(() => typo(1.5), InvalidInputError);
});

test("one query counts once", () => {
  for (const [text, plain] of Object.entries(TRAINED.plain)) assert.equal(plainQuery(text), plain, text);
  const example = (query: string, opened: string | null) => ({ query, shown: ["a", "b"], opened });
  const found = distinct([example("Oil crisis?", "a"), example("sea", null), example("oil  CRISIS", null)]);
  assert.deepEqual(found, [example("Oil crisis?", "a"), example("sea", null)]);
});
