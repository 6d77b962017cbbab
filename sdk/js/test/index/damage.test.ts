/** Damaged index folders are refused with CorruptArtifactError, or answer as before. */
import assert from "node:assert/strict";
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { test } from "node:test";
import {
  ArtifactNotFoundError,
  CorruptArtifactError,
  MemorySource,
  SignatureError,
  SpaceMismatchError,
  UnsupportedVersionError,
} from "pocketquery";
import { type Index, openIndex } from "pocketquery/index";
import { DIMENSION, drawer, files } from "./data.js";

const VECTOR = Float32Array.from({ length: DIMENSION }, (_, i) => i - 7);
const QUERIES = ["bridge river", "東京都庁", "of the", "don't e-mail overflow"];

/** What a caller sees of an index. */
async function everything(index: Index): Promise<unknown> {
  const found: unknown[] = [index.size, index.spaceId, index.dimension, index.get("long")];
  for (const query of QUERIES) {
    for (const filter of [{}, { year: { $gte: 2000 } }, { lang: "en", note: { $exists: false } }]) {
      found.push(await index.search(query, { k: 40, filter, vector: VECTOR }));
    }
  }
  return found;
}

const ROUNDS = Number(process.env["ROUNDS"] ?? 100); // 1,000 for a search

/** Flip bits of `name`, open and ask, `share` times a round; which share was refused. */
async function flipped(
  name: string,
  share: number,
  check: "hashes" | "sizes",
  answersMustBeRight: boolean,
): Promise<number> {
  const draw = drawer(name.length);
  const right = await everything(await openIndex(new MemorySource(files("base"))));
  const base = files("base");
  let refused = 0;
  for (let round = 0; round < share * ROUNDS; round++) {
    const bytes = base.get(name)!.slice();
    for (let flips = 0; flips <= draw() * 3; flips++) {
      const at = draw() < 0.5 ? draw() ** 3 * bytes.length : draw() * bytes.length;
      bytes[Math.floor(at)]! ^= 1 << Math.floor(draw() * 8);
    }
    try {
      const source = new MemorySource(new Map(base).set(name, bytes), "damaged");
      const found = await everything(await openIndex(source, { check }));
      if (answersMustBeRight) assert.deepEqual(found, right);
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      // Where the flipped bit is the version's or the space's, and nothing has compared a hash yet.
      const before = error instanceof UnsupportedVersionError || error instanceof SpaceMismatchError;
      const newer = name !== "vectors-0.u8" && before;
      assert.ok(error instanceof CorruptArtifactError || newer, String((error as Error).stack));
      refused++;
    }
  }
  return refused / (share * ROUNDS);
}

test("flipped bits are found by the hashes", async () => {
  assert.equal(await flipped("documents.sqlite", 2, "hashes", true), 1);
  assert.equal(await flipped("vectors-0.u8", 2, "hashes", true), 1);
  assert.ok((await flipped("index.json", 4, "hashes", true)) > 0.75);
});

test("without hashes they give a CorruptArtifactError or some answer, never another error", async () => {
  assert.ok((await flipped("documents.sqlite", 1, "sizes", false)) > 0.1);
  assert.ok((await flipped("vectors-0.u8", 0.5, "sizes", false)) > 0.1);
});

async function refuses(
  change: (all: Map<string, Uint8Array>) => void,
  error: typeof CorruptArtifactError | typeof ArtifactNotFoundError | typeof SpaceMismatchError,
  message: RegExp,
): Promise<void> {
  const all = files("base");
  change(all);
  await assert.rejects(openIndex(new MemorySource(all)), (found: Error) => {
    return found instanceof error && message.test(found.message);
  });
}

function json(all: Map<string, Uint8Array>, change: (fields: Record<string, any>) => void): void {
  const fields = JSON.parse(Buffer.from(all.get("index.json")!).toString());
  change(fields);
  all.set("index.json", Buffer.from(JSON.stringify(fields)));
}

test("a missing, cut or foreign file is named", async () => {
  await refuses((all) => all.delete("index.json"), ArtifactNotFoundError, /no index at/);
  for (const name of ["documents.sqlite", "vectors-0.u8"]) {
    await refuses((all) => all.delete(name), ArtifactNotFoundError, new RegExp(name));
    const cut = (all: Map<string, Uint8Array>) => all.set(name, all.get(name)!.slice(0, -1));
    await refuses(cut, CorruptArtifactError, /truncated/);
  }
  const other = files("compact").get("documents.sqlite")!;
  await refuses((all) => all.set("documents.sqlite", other), CorruptArtifactError, /truncated|changed/);
  const written = (all: Map<string, Uint8Array>): void => {
    all.set("documents.sqlite", other);
    json(all, (fields) => (fields["state"] = "writing")); // it may have been written since
  };
  await refuses(written, ArtifactNotFoundError, /vectors-\d+/);
});

test("files of two states, or of another space, are refused", async () => {
  const generation = (by: number, state?: string) => (all: Map<string, Uint8Array>) =>
    json(all, (fields) => {
      fields["generation"] += by;
      if (state) fields["state"] = state;
    });
  await refuses(generation(1), CorruptArtifactError, /generation/);
  await refuses(generation(-1, "sealed"), CorruptArtifactError, /generation/);
  const space = (all: Map<string, Uint8Array>) =>
    json(all, (fields) => (fields["space"].id = "another"));
  await refuses(space, SpaceMismatchError, /lives in space/);
  const encoder = { spaceId: "another", encodeQuery: () => VECTOR };
  for (const given of [encoder, Promise.resolve(encoder)]) {
    const opened = openIndex(new MemorySource(files("base")), { encoder: given });
    await assert.rejects(opened, SpaceMismatchError);
  }
  const refused = openIndex(new MemorySource(files("base")), { encoder: Promise.reject(new Error("no bundle")) });
  await assert.rejects(refused, /no bundle/);
});

test("after a writer was killed, the vectors are compared segment by segment", async () => {
  const all = files("base");
  json(all, (fields) => {
    fields["generation"] -= 1;
    fields["state"] = "writing";
    fields["language"] = "auto"; // as before the first document
  });
  const longer = new Uint8Array(all.get("vectors-0.u8")!.length + 40); // an add that never committed
  longer.set(all.get("vectors-0.u8")!);
  all.set("vectors-0.u8", longer);
  const right = await everything(await openIndex(new MemorySource(files("base"))));
  assert.deepEqual(await everything(await openIndex(new MemorySource(all))), right);
  longer[100]! ^= 1;
  await assert.rejects(openIndex(new MemorySource(all)), CorruptArtifactError);
});

test("a journal counts where a writer was at work and the database is not as recorded", async () => {
  const magic = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
  const journal = new Uint8Array(512);
  const opened = (all: Map<string, Uint8Array>) => openIndex(new MemorySource(all));
  const all = files("base").set("documents.sqlite-journal", journal);
  journal.set(magic);
  await opened(all); // the database is what was sealed: nothing is to be undone
  json(all, (fields) => (fields["state"] = "writing"));
  await opened(all);
  const longer = new Uint8Array(all.get("documents.sqlite")!.length + 4096);
  longer.set(all.get("documents.sqlite")!);
  all.set("documents.sqlite", longer); // pages of a commit that never ended
  await assert.rejects(opened(all), { name: "CorruptArtifactError", message: /documents\.sqlite-journal is there: a writer was killed/ });
  journal.fill(0);
  await opened(all);
});

test("a schema that is not ours is refused", async () => {
  const from = "CREATE TABLE tombstones (row INTEGER PRIMARY KEY)";
  for (const to of ["CREATE VIEW  tombstones (row INTEGER PRIMARY KEY)", from.replace("row", "raw")]) {
    await refuses(
      (all) => {
        const bytes = Buffer.from(all.get("documents.sqlite")!);
        const at = bytes.indexOf(from);
        assert.ok(at > 0);
        bytes.write(to, at);
        all.set("documents.sqlite", bytes);
        const sha256 = createHash("sha256").update(bytes).digest("hex");
        json(all, (fields) => (fields["files"]["documents.sqlite"].sha256 = sha256));
      },
      CorruptArtifactError,
      /not of an index/,
    );
  }
});

test("with a key, only what its owner signed is opened", async () => {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const key = publicKey.export({ type: "spki", format: "pem" }) as string;
  const open = (all: Map<string, Uint8Array>) =>
    openIndex(new MemorySource(all), { publicKey: key, check: "sizes" });
  const all = files("base");
  await assert.rejects(open(all), SignatureError);
  all.set("signature", sign(null, all.get("index.json")!, privateKey));
  assert.ok((await open(all)).size > 100);
  const other = new Map(all).set("signature", all.get("signature")!.map((byte) => byte ^ 1));
  await assert.rejects(open(other), SignatureError);
  for (const name of ["documents.sqlite", "vectors-0.u8"]) {
    const bytes = all.get(name)!.slice();
    bytes[bytes.length - 1]! ^= 1;
    await assert.rejects(open(new Map(all).set(name, bytes)), CorruptArtifactError);
  }
  // A state that no signature covers: hashes of segments vouch for nothing.
  json(all, (fields) => {
    fields["generation"] -= 1;
    fields["state"] = "writing";
  });
  all.set("signature", sign(null, all.get("index.json")!, privateKey));
  await assert.rejects(open(all), CorruptArtifactError);
});
