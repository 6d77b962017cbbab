/** The release that tabs share, each with an encoder of its own. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { ArtifactError } from "pocketquery";
import { type Answer, type GatewayConnection, MemoryPlace, Participation, RELEASE, TrustedReleases } from "pocketquery/gateway";
import { Bundle, FolderSource } from "pocketquery/node";
import { packAdapter } from "pocketquery/training";
import { EXPECTED, read, TINY } from "../fixtures.js";

const { manifest } = await Bundle.open(new FolderSource(TINY));
const tensors = (value: number) => new Map([["t", { shape: [1], data: Float32Array.of(value) }]]);
const first = await packAdapter(tensors(1), { manifest, version: "1" });
const second = await packAdapter(tensors(2), { manifest, version: "2" });
const digest = (data: Uint8Array): string => createHash("sha256").update(data).digest("hex");

/** A gateway with the release in force; the paths that were asked for. */
function gatewayOf(current: { release: Uint8Array }): { connection: GatewayConnection; paths: string[] } {
  const paths: string[] = [];
  const ask: GatewayConnection["ask"] = async (_, path, { headers = {} } = {}): Promise<Answer> => {
    paths.push(path);
    const answer = { body: new Uint8Array(), stage: 0, retryAfter: 0 };
    const etag = digest(current.release);
    if (path !== "/v1/releases/current") return { ...answer, status: 200, etag: "", body: current.release };
    if (headers["if-none-match"] === etag) return { ...answer, status: 304, etag };
    const body = new TextEncoder().encode(JSON.stringify({ sha256: etag }));
    return { ...answer, status: 200, etag, body };
  };
  return { connection: { ask } as GatewayConnection, paths };
}

test("each of several tabs is given every release once, and one of them fetches it", async () => {
  const current = { release: first };
  const { connection, paths } = gatewayOf(current);
  const place = new MemoryPlace();
  const tab = async () => {
    const [participation, releases] = [new Participation(connection, place), await TrustedReleases.open(place)];
    return {
      refresh: async () => (await participation.refresh(manifest, releases))?.version ?? null,
      kept: async () => (await participation.kept(manifest, releases))?.version ?? null,
    };
  };
  const [one, two, three] = [await tab(), await tab(), await tab()];
  assert.equal(await one.kept(), null);
  assert.equal(await one.refresh(), "1");
  assert.equal(await two.kept(), "1");
  assert.equal(await two.refresh(), null); // it has that one
  assert.equal(await three.refresh(), "1"); // nobody gave it that one
  current.release = second;
  for (const { refresh } of [one, two, three]) {
    assert.equal(await refresh(), "2");
    assert.equal(await refresh(), null);
  }
  const fetched = paths.filter((path) => path !== "/v1/releases/current");
  assert.deepEqual(fetched, [first, second].map((release) => `/v1/releases/${digest(release)}`));
});

test("a release that could not be taken up is handed out again", async () => {
  const { connection, paths } = gatewayOf({ release: first });
  const [place, taken] = [new MemoryPlace(), [] as string[]];
  const releases = await TrustedReleases.open(place);
  let isFull = true;
  const take = async ({ version }: { version: string }) => {
    if (isFull) throw new RangeError("out of memory");
    taken.push(version);
  };
  const participation = new Participation(connection, place);
  for (let i = 0; i < 2; i++) await assert.rejects(participation.refresh(manifest, releases, take), RangeError);
  await assert.rejects(participation.kept(manifest, releases, take), RangeError);
  assert.notEqual(await place.read(RELEASE), null); // which is sound
  isFull = false;
  assert.equal((await participation.refresh(manifest, releases, take))?.version, "1");
  assert.equal(await participation.refresh(manifest, releases, take), null);
  assert.deepEqual(taken, ["1"]);
  const again = new Participation(connection, place);
  assert.equal((await again.kept(manifest, releases, take))?.version, "1");
  assert.equal(await again.refresh(manifest, releases, take), null);
  assert.deepEqual(taken, ["1", "1"]);
  assert.equal(paths.filter((path) => path !== "/v1/releases/current").length, 1); // fetched once
});

test("a release is removed where it is not one to trust, and not where nothing can be written", async () => {
  const signed = Uint8Array.from(read("release.safetensors"));
  const place = new MemoryPlace();
  const releases = await TrustedReleases.open(place, { publicKey: EXPECTED.key });
  const participation = new Participation(gatewayOf({ release: signed }).connection, place);
  await place.replace(RELEASE, null, signed);
  const replace = place.replace.bind(place);
  place.replace = async (file, expected, data) => {
    if (data !== null) throw new ArtifactError("no space left");
    return replace(file, expected, data);
  };
  await assert.rejects(participation.kept(manifest, releases), /^ArtifactError: no space left/);
  place.replace = replace;
  assert.equal((await participation.kept(manifest, releases))?.version, "2");
  await place.replace(RELEASE, signed, first); // unsigned
  assert.equal(await participation.kept(manifest, releases), null);
  assert.equal(await place.read(RELEASE), null);
});
