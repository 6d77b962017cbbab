/** Byte for byte what Python's devices say to a gateway: conformance/gateway, which Python wrote. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { CorruptArtifactError, PocketQueryError } from "pocketquery";
import {
  boundedWeight,
  encodeUpdate,
  offerLimits,
  offerRefusal,
  readOfferMessage,
  signedHeaders,
  signerOfBytes,
  UnusableOfferError,
} from "pocketquery/gateway";
import { QueryStore } from "pocketquery/store";
import { packRemembered, parseRemembered, RoundMemory } from "../../dist/gateway/round_memory.js";
import { parseJson, type JsonObject } from "../../dist/json.js";
import { localConfigOf } from "../../dist/training/local_config.js";
import { normOf } from "../../dist/training/transforms.js";
import { CONFORMANCE } from "../fixtures.js";

type Packed = Record<string, { shape: number[]; data: string }>;
type Tensors = Map<string, { shape: readonly number[]; data: Float32Array }>;

const FOUND = JSON.parse(
  gunzipSync(readFileSync(join(CONFORMANCE, "gateway", "gateway.json.gz"))).toString("utf8"),
) as Record<string, any[]>;

function unpacked(packed: Packed): Tensors {
  return new Map(
    Object.entries(packed).map(([name, { shape, data }]) => {
      const bytes = Uint8Array.from(Buffer.from(data, "base64"));
      return [name, { shape, data: new Float32Array(bytes.buffer) }];
    }),
  );
}

function sha256(...pieces: Uint8Array[]): string {
  const hash = createHash("sha256");
  for (const piece of pieces) hash.update(piece);
  return hash.digest("hex");
}

const bytesOf = (data: Float32Array): Uint8Array => new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

function encoded(one: any): { data: Uint8Array; residual: Tensors } {
  const header = one.header;
  const found = encodeUpdate(unpacked(one.change), {
    header: {
      spaceId: header.space_id,
      encoderSha256: header.encoder_sha256,
      baseVersion: header.base_version,
      round: header.round,
      nonce: header.nonce,
      weight: header.weight,
    },
    clipNorm: one.clip_norm,
    residual: one.residual && unpacked(one.residual),
    compress: one.compress,
  });
  return found as { data: Uint8Array; residual: Tensors };
}

test("updates are Python's to the last byte, and so is what rounding lost", () => {
  const others: string[] = [];
  for (const one of FOUND["updates"] ?? []) {
    if (one.error) {
      assert.throws(() => encoded(one), (error: Error) => error.name === one.error, one.name);
      continue;
    }
    const { data, residual } = encoded(one);
    const ordered = [...residual.keys()].sort((a, b) => ((a.codePointAt(0) ?? 0) - (b.codePointAt(0) ?? 0)) || (a < b ? -1 : 1));
    const lost = sha256(...ordered.map((name) => bytesOf((residual.get(name) as { data: Float32Array }).data)));
    if (sha256(data) !== one.sha256 || lost !== one.lost_sha256) others.push(one.name);
  }
  assert.deepEqual(others, []);
  for (const [most, weight] of FOUND["weights"] ?? []) assert.equal(boundedWeight(1, most), weight);
});

test("norms are numpy's to the last bit", () => {
  for (const [sizes, norm] of FOUND["norms"] ?? []) {
    const tensors = (sizes as number[]).map((size, place): [string, { shape: number[]; data: Float32Array }] => {
      const data = Float32Array.from({ length: size }, (_, i) => 1 / (3 + ((i * 7919) % 10_007)));
      return [String(place), { shape: [size], data }];
    });
    assert.equal(normOf(new Map(tensors)), norm, `${sizes}`);
  }
});

test("requests are signed as Python signs them", async () => {
  for (const asked of FOUND["requests"] ?? []) {
    const signer = await signerOfBytes(Buffer.from(asked.key, "hex"));
    const headers = await signedHeaders(signer, {
      ...asked,
      body: Buffer.from(asked.body, "base64"),
      nonce: Buffer.from(asked.nonce, "hex"),
    });
    assert.deepEqual(headers, asked.headers);
  }
});

test("offers are read, or refused with the error that Python has", async () => {
  const others: string[] = [];
  for (const one of FOUND["offers"] ?? []) {
    const reading = readOfferMessage(Uint8Array.from(Buffer.from(one.data, "base64")));
    const found = await reading.catch((error: unknown) => error);
    if (one.error) {
      const round = found instanceof UnusableOfferError ? found.round : null;
      const name = found instanceof PocketQueryError ? found.name : `read, or ${String(found)}`;
      if (name !== one.error || round !== one.round) others.push(`${one.name}: ${name} ${round}`);
      continue;
    }
    if (found instanceof Error) {
      others.push(`${one.name}: ${found}`);
      continue;
    }
    const { offer, retryAfter } = found as Awaited<typeof reading>;
    assert.equal(retryAfter, one.retry_after);
    if (one.offer === null || offer === null) {
      assert.equal(offer, one.offer, one.name);
      continue;
    }
    const { releaseSha256, config, clipNorm, largestWeight, lineage, digest, announcement, settingsSha256, ...rest } = offer;
    assert.match(digest, /^[0-9a-f]{64}$/);
    const { settings: whole, ...expected } = one.offer;
    if (whole !== null) assert.equal(settingsSha256, whole, one.name);
    const { limits, viewPlan, ...settings } = config;
    const written = (values: object) => Object.fromEntries(Object.entries(values).map(([name, value]) => [snake(name), value]));
    assert.deepEqual(
      {
        ...rest,
        release: releaseSha256,
        clip_norm: clipNorm,
        largest_weight: largestWeight,
        lineage: Buffer.from(lineage).toString("base64"),
        announcement: Buffer.from(announcement).toString("base64"),
        local: { ...written(settings), limits: written(limits) },
      },
      expected,
      one.name,
    );
  }
  assert.deepEqual(others, []);
});

test("a device's limits are Python's", () => {
  for (const one of FOUND["limits"] ?? []) {
    const config = localConfigOf(parseJson(JSON.stringify(one.local)) as JsonObject, "local");
    const given = Object.entries(one.limits as Record<string, number>).map(([name, value]) => {
      return [name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()), value];
    });
    const reason = offerRefusal(offerLimits(Object.fromEntries(given)), config, one.clip_norm, one.queries);
    assert.equal(reason?.split(":")[0]?.split(" has ")[0] ?? null, one.refusal, one.name);
  }
});

test("what is kept between rounds is read as Python writes it", async () => {
  for (const one of FOUND["memories"] ?? []) {
    const data = Uint8Array.from(Buffer.from(one.file, "base64"));
    if (one.error) {
      await assert.rejects(parseRemembered(data), CorruptArtifactError);
      continue;
    }
    const found = await parseRemembered(data);
    assert.deepEqual([found.secret, found.epoch, found.roundKey], [one.secret, one.epoch, one.round_key]);
    assert.deepEqual(found.before.residual, unpacked(one.before));
    assert.deepEqual(found.after.residual, unpacked(one.after));
    assert.deepEqual(found.after.adapter, unpacked(one.adapter));
    assert.deepEqual(await packRemembered(found), data);
    const store = await QueryStore.open();
    await store.giveConsent();
    const epoch = await store.epoch();
    await store.keep({ rounds: await packRemembered({ ...found, epoch }) }, epoch);
    const memory = (await RoundMemory.of(store, epoch)) ?? assert.fail("nothing is kept");
    assert.equal(await memory.nonce(one.round_key), one.nonce);
    assert.equal(String(await memory.seed(one.round_key)), one.seed);
    assert.deepEqual(memory.recall(one.round_key).residual, unpacked(one.before));
    assert.deepEqual(memory.recall("the next").residual, unpacked(one.after));
  }
});
