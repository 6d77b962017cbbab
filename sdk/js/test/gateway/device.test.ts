/** One device's life in rounds: what it sends, declines and keeps, over closed pages too. */

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { after, test } from "node:test";
import * as onnxruntime from "onnxruntime-node";
import { CorruptArtifactError, InvalidInputError, readAdapter, RollbackError, SignatureError, SpaceMismatchError } from "pocketquery";
import {
  ALWAYS_POLICY,
  checkPolicy,
  type Contribution,
  type Declined,
  Device,
  type DeviceOptions,
  forgetRounds,
  MemoryPlace,
  type Offer,
  offerLimits,
  policyRefusal,
  guard,
  TrustedReleases,
} from "pocketquery/gateway";
import { FileBackend, FolderPlace, FolderSource, load } from "pocketquery/node";
import { MemoryBackend, QueryStore, type StoreBackend } from "pocketquery/store";
import { Bundle, LocalStep, localConfig, MatrixVectors, packAdapter, trainLocally } from "pocketquery/training";
import { parseMetadata, parseSafetensors } from "../../dist/bundle/safetensors.js";
import { parseRemembered } from "../../dist/gateway/round_memory.js";
import { normOf } from "../../dist/training/transforms.js";
import { BUNDLE, documents, TRAINED } from "../training/data.js";
import { EXPECTED, read } from "../fixtures.js";

const bundle = await Bundle.open(new FolderSource(BUNDLE));
const { manifest } = bundle;
const encoder = await load(BUNDLE);
const step = await LocalStep.open(bundle, { onnxruntime });
const { vectors, ids } = documents();
const matrix = new MatrixVectors(vectors, ids);
const release = await packAdapter(encoder.adapter, { manifest, version: "1" });
const second = await packAdapter(encoder.adapter, { manifest, version: "2", parentVersion: "1" });
const FOLDER = mkdtempSync(join(tmpdir(), "pocketquery-device-"));
after(() => rmSync(FOLDER, { recursive: true, force: true }));
const QUERIES = [...new Set(TRAINED.examples.map(({ query }) => query))];
const SETTINGS = { steps: 5, batchSize: 16, nearestPrototypes: 10, randomPrototypes: 10 };
const LIMITS = { leastQueries: 8, mostRepetitions: 20 };

function offer(changes: Partial<Offer> = {}): Offer {
  return {
    round: 0,
    releaseSha256: "0".repeat(64),
    config: localConfig(SETTINGS),
    clipNorm: 1,
    largestWeight: 256,
    compress: true,
    lineage: new Uint8Array(),
    announcement: new Uint8Array(),
    settingsSha256: "5".repeat(64),
    digest: "d".repeat(64),
    ...changes,
  };
}

async function storeAt(place: StoreBackend, queries = QUERIES): Promise<QueryStore> {
  const store = await QueryStore.open(place);
  await store.giveConsent();
  if ((await store.size()) === 0) for (const query of queries) await store.add(query, ["d0", "d1"], "d1");
  return store;
}

async function device(store: QueryStore, more: Partial<DeviceOptions> = {}): Promise<Device> {
  const releases = await TrustedReleases.open(new MemoryPlace());
  return new Device({
    encoder, step, documents: matrix, manifest, store, releases, policy: ALWAYS_POLICY, limits: LIMITS, ...more,
  });
}

function sent(answer: Contribution | Declined): Contribution {
  if ("declined" in answer) assert.fail(answer.declined);
  return answer;
}

test("the same offer gives the same bytes after the page was closed, the next round another nonce", async () => {
  const place = new FileBackend(join(FOLDER, "closed.json"));
  const first = sent(await (await device(await storeAt(place))).answer(offer(), release));
  // Anew from what is kept: what a page does that was closed before the update was sent.
  const again = sent(await (await device(await storeAt(place))).answer(offer(), release));
  assert.deepEqual(again.update, first.update);
  const other = sent(await (await device(await storeAt(place))).answer(offer({ digest: "e".repeat(64) }), release));
  const next = sent(await (await device(await storeAt(place))).answer(offer({ round: 1 }), release));
  const said = [first, other, next].map(({ update }) => parseMetadata(update, "update"));
  const [nonce, otherNonce, nextNonce] = said.map((header) => header.get("nonce"));
  assert.equal(otherNonce, nonce); // in one round it counts once, whatever is offered
  assert.notEqual(nextNonce, nonce);
  assert.notDeepEqual(other.update, first.update);
  assert.equal(said[0]?.get("weight"), `${QUERIES.length}.0`);
  assert.equal(said[0]?.get("encoder_sha256"), manifest.files.get("encoder.onnx")?.sha256);
  assert.deepEqual(Object.keys(first.figures), ["loss", "drift", "effective_rank"]);
});

test("what rounding lost joins the next round's change, once", async () => {
  const store = await storeAt(new MemoryBackend());
  const epoch = await store.epoch();
  const kept = async () => parseRemembered((await store.kept("rounds")) ?? assert.fail("nothing is kept"));
  sent(await (await device(store)).answer(offer(), release));
  const { after: first } = await kept();
  assert.ok(normOf(first.residual) > 0);
  sent(await (await device(store)).answer(offer(), release)); // the same round again
  assert.deepEqual((await kept()).after, first);
  sent(await (await device(store)).answer(offer({ round: 1 }), release));
  assert.deepEqual((await kept()).before, first);
  assert.notDeepEqual((await kept()).after, first);
  assert.equal(await store.epoch(), epoch);
});

test("what leaves is within the bound, in 8 bits or as it is", async () => {
  const store = await storeAt(new MemoryBackend());
  const answer = sent(await (await device(store)).answer(offer({ compress: false, clipNorm: 0.01 }), release));
  const tensors = new Map(
    [...parseSafetensors(answer.update, "update")].map(([name, { shape, bytes }]) => [
      name, { shape, data: new Float32Array(bytes.buffer) },
    ]),
  );
  assert.ok(normOf(tensors) <= 0.01 && normOf(tensors) > 0.0099);
});

test("a device that begins from its own last result keeps it, and goes on from there", async () => {
  const store = await storeAt(new MemoryBackend());
  const config = localConfig({ ...SETTINGS, clientInit: "ema" });
  sent(await (await device(store)).answer(offer({ config }), release));
  const { after: first } = await parseRemembered((await store.kept("rounds")) ?? assert.fail("nothing"));
  assert.deepEqual([...first.adapter.keys()].sort(), [...encoder.adapter.keys()].sort());
  sent(await (await device(store)).answer(offer({ config, round: 1 }), release));
  await forgetRounds(store);
  assert.equal(await store.kept("rounds"), null);
  // With steps too small to see, a training ends where it begins: at the share of its own.
  const given = encoder.adapter;
  const previous = new Map([...given].map(([name, { shape, data }]) => [name, { shape, data: data.map((value) => value + 0.5) }]));
  const start = async (clientInit: "ema" | "global", initScale: number) => {
    const config = { ...SETTINGS, steps: 1, learningRate: 1e-12, clientInit, initScale };
    const limits = { rankKept: 0, spreadKept: 0, drift: 2 };
    const options = { encoder, step, documents: matrix, adapter: given, previous };
    const { adapter } = await trainLocally({ ...options, examples: TRAINED.examples, config: { ...config, limits } });
    const [name = "", { data } = { data: new Float32Array() }] = [...(adapter ?? assert.fail("stopped"))][0] ?? [];
    return (data[0] as number) - (given.get(name)?.data[0] as number);
  };
  const distance = normOf(new Map([...given].map(([name, { shape, data }]) => [name, { shape, data: data.map(() => 0.5) }])));
  for (const [scale, moved] of [[1e6, 0.5], [0.25 / distance, 0.125], [0, 0]] as const) {
    assert.ok(Math.abs((await start("ema", scale)) - moved) < 1e-5, `${scale}`);
  }
  assert.ok(Math.abs(await start("global", 1e6)) < 1e-5);
});

async function declined(answer: Promise<Contribution | Declined>, reason: RegExp): Promise<void> {
  const found = await answer;
  assert.ok("declined" in found, "it took part");
  assert.match(found.declined, reason);
}

test("it declines, and says why to its user alone", async () => {
  const store = await storeAt(new MemoryBackend());
  const ask = async (more: Partial<DeviceOptions>, changes: Partial<Offer> = {}) =>
    (await device(store, more)).answer(offer(changes), release);
  await declined(ask({}, { announcement: new Uint8Array(1) }), /^a private round \(a secure sum\) was offered, which a Participant/);
  await declined(ask({ plain: false }), /^this device takes part in private rounds alone/);
  await declined(ask({ limits: {} }), /^distinct queries to train on: found \d+, this device accepts at least 32/);
  await declined(ask({}, { clipNorm: 3 }), /^clip_norm: found 3, this device accepts at most 2/);
  await declined(ask({ policy: {} }), /^idle is unknown on this device/);
  await declined(ask({ policy: { ...ALWAYS_POLICY, charging: true }, readings: { read: () => reading(false) } }), /not charging/);
  await declined((await device(store)).answer(offer(), release.map((byte, i) => (i === 300 ? byte ^ 1 : byte))), /adapter/);
  const limits = { rankKept: 0.5, spreadKept: 0.5, drift: 1e-9 };
  await declined(ask({}, { config: localConfig({ ...SETTINGS, learningRate: 0.01, limits }) }), /drift: queries moved/);
  assert.equal(await store.kept("rounds").then((data) => data && parseRemembered(data)).then((found) => found?.roundKey), "");
  await store.withdrawConsent();
  await declined(ask({}), /^the user has not consented/);
});

function reading(charging: boolean) {
  return { idle: true, charging, unmetered: true, temperatureC: 20 };
}

test("what is erased during the training is not sent, and nothing of it is kept", async () => {
  for (const erase of [
    (store: QueryStore) => store.forget(QUERIES[0] ?? ""),
    (store: QueryStore) => store.withdrawConsent(),
    (store: QueryStore) => store.eraseAll(),
  ]) {
    const store = await storeAt(new MemoryBackend());
    const before = sent(await (await device(store)).answer(offer(), release));
    const onStep = (done: number) => void (done === 2 && erase(store));
    await declined((await device(store, { onStep })).answer(offer({ round: 1 }), release), /^the user /);
    assert.equal(await store.kept("rounds"), null);
    await store.giveConsent();
    for (const query of QUERIES) await store.add(query);
    const later = sent(await (await device(store)).answer(offer(), release));
    const nonces = [before, later].map(({ update }) => parseMetadata(update, "update").get("nonce"));
    assert.notEqual(nonces[0], nonces[1]); // the secret went, too
  }
});

test("what expired is not trained on, also where the store stays open and nothing is added", async () => {
  let now = 1_800_000_000;
  const store = await QueryStore.open(new MemoryBackend(), { clock: () => now, maxAgeDays: 7 });
  await store.giveConsent();
  for (const query of QUERIES) await store.add(query);
  const [waiting, training] = [await device(store, { policy: {} }), await device(store)];
  sent(await training.answer(offer(), release));
  for (let day = 0; day < 8; day++) {
    now += 86_400;
    await declined(waiting.answer(offer({ round: 1 }), release), day < 7 ? /^idle is unknown/ : /^0 queries/);
  }
  await declined(training.answer(offer({ round: 1 }), release), /^0 queries|found 0/);
});

test("a damaged memory is begun anew", async () => {
  const store = await storeAt(new MemoryBackend());
  for (const damaged of [Uint8Array.of(1, 2, 3), new Uint8Array(200)]) {
    await store.keep({ rounds: damaged }, await store.epoch());
    sent(await (await device(store)).answer(offer(), release));
  }
});

test("policies are checked, and a guard says no from then on", async () => {
  assert.equal(await policyRefusal(ALWAYS_POLICY, null, 1), null);
  const policy = checkPolicy({ allowUnknown: ["idle", "unmetered", "temperatureC"] });
  const only = (charging: boolean | null) => ({ read: () => ({ idle: null, unmetered: null, temperatureC: null, charging }) });
  assert.equal(await policyRefusal(policy, only(true), 16), null);
  assert.match((await policyRefusal(policy, only(null), 16)) ?? "", /^charging is unknown/);
  assert.match((await policyRefusal(policy, only(true), 15)) ?? "", /^15 queries/);
  const hot = { read: () => ({ ...reading(true), temperatureC: 45.1 }) };
  assert.match((await policyRefusal(checkPolicy(), hot, 16)) ?? "", /45.1 °C, at most 45/);
  let [now, charging] = [0, true];
  const may = guard(checkPolicy({ maxSeconds: 10 }), { read: () => reading(charging) }, 16, () => now);
  assert.equal(await may(), null);
  charging = false;
  assert.equal(await may(), null); // read a moment ago
  now = 1;
  assert.equal(await may(), "the device is not charging");
  charging = true;
  now = 5;
  assert.equal(await may(), "the device is not charging");
  for (const wrong of [
    { minExamples: 0 }, { maxSeconds: 0 }, { allowUnknown: ["battery"] }, { allowUnknown: "idle" }, { idle: 1 }, { more: 1 }, null,
  ]) {
    assert.throws(() => checkPolicy(wrong as never), InvalidInputError);
  }
  for (const wrong of [{ leastQueries: 0 }, { leastSteps: 1.5 }, { largestClip: -1 }, { more: 1 }, null]) {
    assert.throws(() => offerLimits(wrong as never), InvalidInputError);
  }
});

test("a device requires signatures from the first on, and takes no older release", async () => {
  const folder = join(FOLDER, "device");
  const place = new FolderPlace(folder);
  const trusted = await TrustedReleases.open(place);
  assert.equal(trusted.publicKey, null);
  const nothing = new Uint8Array();
  assert.equal((await trusted.releaseForSearch(second, nothing, manifest)).version, "2");
  const signed = await TrustedReleases.open(place, { publicKey: EXPECTED.key });
  await assert.rejects(signed.releaseForSearch(second, nothing, manifest), SignatureError);
  await assert.rejects(TrustedReleases.open(place, { publicKey: EXPECTED.other_key }), SignatureError);
  assert.equal((await TrustedReleases.open(place)).publicKey, EXPECTED.key);
  const moved = await TrustedReleases.open(place, { publicKey: EXPECTED.other_key, replaces: EXPECTED.key });
  assert.equal(moved.publicKey, EXPECTED.other_key);
  await TrustedReleases.open(place, { publicKey: EXPECTED.key, replaces: EXPECTED.other_key });
  assert.equal(await signed.target(manifest), null);
  // The tiny bundle's release is signed; nothing older of it is taken, also by another program.
  const tiny = await Bundle.open(new FolderSource(join(BUNDLE, "..", "..", "encoder", "tiny")));
  const newest = await signed.releaseForTraining(read("release.safetensors"), nothing, tiny.manifest);
  const again = await TrustedReleases.open(place);
  assert.equal((await again.releaseForSearch(read("release.safetensors"), nothing, tiny.manifest)).version, newest.version);
  const path = join(folder, "trusted-releases.json");
  assert.equal(statSync(path).mode & 0o077, 0);
  const text = readFileSync(path, "utf8");
  writeFileSync(path, text.replace(`"version":"${newest.version}"`, '"version":"999"'));
  await assert.rejects(again.releaseForSearch(read("release.safetensors"), nothing, tiny.manifest), RollbackError);
  writeFileSync(path, text.replace("public_key", "public_kex"));
  await assert.rejects(TrustedReleases.open(place), CorruptArtifactError);
  await place.destroy();
  assert.equal((await TrustedReleases.open(place)).publicKey, null);
});

test("an encoder takes what the device trusts, and nothing that was read without a key", async () => {
  const folder = join(BUNDLE, "..", "..", "encoder", "tiny");
  const signed = await load(folder, { publicKey: EXPECTED.key });
  const data = read("release.safetensors");
  const trusted = await TrustedReleases.open(new MemoryPlace(), { publicKey: EXPECTED.key });
  const before = await signed.encodeQuery("castle");
  await assert.rejects(signed.swapAdapter(await readAdapter(data, signed.manifest)), SignatureError);
  await assert.rejects(signed.swapAdapter({ ...(await readAdapter(data, signed.manifest)), spaceId: "another" }), SpaceMismatchError);
  assert.deepEqual(await signed.encodeQuery("castle"), before);
  const release = await trusted.releaseForSearch(data, new Uint8Array(), signed.manifest);
  await signed.swapAdapter(release);
  assert.equal(signed.version, release.version);
  assert.notDeepEqual(await signed.encodeQuery("castle"), before);
  await signed.close();
});

test("a place keeps one key, and replaces only what is expected", async () => {
  for (const place of [new MemoryPlace(), new FolderPlace(join(FOLDER, "place"))]) {
    const [one, two] = await Promise.all([place.signer(), place.signer()]);
    assert.deepEqual(one?.publicKey, two?.publicKey);
    assert.equal(await place.read("adapter.safetensors"), null);
    assert.ok(await place.replace("adapter.safetensors", null, release));
    assert.ok(!(await place.replace("adapter.safetensors", second, release)));
    assert.ok(!(await place.replace("adapter.safetensors", null, second)));
    assert.ok(await place.replace("adapter.safetensors", release, second));
    assert.deepEqual(await place.read("adapter.safetensors"), second);
    await place.destroy();
    assert.notDeepEqual((await place.signer()).publicKey, one?.publicKey);
  }
  const [folder, other] = [join(FOLDER, "place"), new FolderPlace(relative(".", join(FOLDER, "place")))];
  const places = Array.from({ length: 20 }, (_, i) => (i % 2 ? other : new FolderPlace(folder)));
  const put = await Promise.all(places.map((place, i) => place.replace("privacy.json", null, Uint8Array.of(i))));
  assert.equal(put.filter(Boolean).length, 1);
  assert.deepEqual(await other.read("privacy.json"), Uint8Array.of(put.indexOf(true)));
  // What a killed program left beside the files goes with them.
  writeFileSync(join(folder, "privacy.json.4711.tmp"), "left");
  assert.ok(await other.replace("privacy.json", await other.read("privacy.json"), null));
  writeFileSync(join(folder, "device.key.0a1b2c3d.tmp"), "left");
  await other.destroy();
  assert.deepEqual(readdirSync(folder), []);
  writeFileSync(join(folder, "gateway.key"), "short");
  await assert.rejects(new FolderPlace(join(FOLDER, "place")).signer(), /has 5 bytes, expected a key of 32/);
  await assert.rejects(new FolderPlace(FOLDER).read("../x"), InvalidInputError);
});
