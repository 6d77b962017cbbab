/** An index and its deltas find what the newest version finds: conformance/deltas, made by Python. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import {
  ArtifactError,
  CorruptArtifactError,
  InvalidInputError,
  MemorySource,
  SignatureError,
} from "pocketquery";
import { MemoryChanges, openIndex } from "pocketquery/index";
import { CONFORMANCE } from "../fixtures.js";
import { type Answers, source, unpacked } from "./data.js";
import { assertSame } from "./hits.js";

const DELTAS = join(CONFORMANCE, "deltas");
const EXPECTED = unpacked(join(DELTAS, "expected.json.gz")) as Record<
  "signed" | "plain",
  Omit<Answers, "filters">
>;
const { key: KEY } = JSON.parse(
  readFileSync(join(CONFORMANCE, "encoder", "expected.json"), "utf8"),
) as { key: string };
const [FIRST, SECOND, PLAIN] = ["first.delta", "second.delta", "plain.delta"].map((name) =>
  Uint8Array.from(readFileSync(join(DELTAS, name))),
) as [Uint8Array, Uint8Array, Uint8Array];

/** The signed index that the first delta was made from. */
function signed(): MemorySource {
  const folder = join(CONFORMANCE, "search", "index");
  return new MemorySource(
    new Map(readdirSync(folder).map((name) => [name, Uint8Array.from(readFileSync(join(folder, name)))])),
    "search",
  );
}

/** The files of that index after Python applied the first delta to it. */
function applied(): Map<string, Uint8Array> {
  const files = unpacked(join(DELTAS, "applied.json.gz")) as Record<string, string>;
  return new Map(
    Object.entries(files).map(([name, data]) => [name, Uint8Array.from(Buffer.from(data, "base64"))]),
  );
}

test("two deltas, one behind the other, signed", async () => {
  const index = await openIndex(signed(), { deltas: [FIRST, SECOND], publicKey: KEY });
  await assertSame(index, EXPECTED.signed);
  const added = index.get("new 1 0");
  assert.deepEqual(added, { id: "new 1 0", text: "a bridge by the sea", metadata: { new: true, year: 2 ** 53 } });
  assert.equal(index.get("d0"), undefined);
  await assertSame(await openIndex(signed(), { deltas: [FIRST, SECOND] }), EXPECTED.signed);
});

test("a server that answers with a page where nothing is", async () => {
  const files = signed();
  const page = new TextEncoder().encode("<!doctype html><title>app</title>");
  const read = files.read.bind(files);
  const served = Object.assign(Object.create(files) as MemorySource, {
    size: async (file: string) => (await files.size(file)) ?? page.length,
    read: async (file: string) => ((await files.size(file)) === null ? page : read(file)),
  });
  assert.equal((await openIndex(served, { publicKey: KEY })).size, (await openIndex(signed())).size);
});

test("a delta that nobody signed", async () => {
  await assertSame(await openIndex(source("compact"), { deltas: [PLAIN] }), EXPECTED.plain);
});

test("a delta that the index has is passed over", async () => {
  const options = { deltas: [FIRST, SECOND], publicKey: KEY };
  await assertSame(await openIndex(new MemorySource(applied(), "applied"), options), EXPECTED.signed);
  const first = await openIndex(signed(), { deltas: [FIRST] });
  const again = await openIndex(new MemorySource(applied(), "applied"), { deltas: [FIRST] });
  assert.deepEqual(await again.search("sea", { mode: "lexical" }), await first.search("sea", { mode: "lexical" }));
});

test("an index that Python applied a delta to is its publisher's as long as it is that", async () => {
  const open = (files: Map<string, Uint8Array>) =>
    openIndex(new MemorySource(files, "applied"), { publicKey: KEY });
  const index = await open(applied());
  const made = await openIndex(signed(), { deltas: [FIRST] });
  assert.deepEqual(await index.search("sea", { mode: "lexical" }), await made.search("sea", { mode: "lexical" }));

  const edited = applied(); // as a change in Python leaves it
  const info = JSON.parse(Buffer.from(edited.get("index.json")!).toString()) as Record<string, unknown>;
  delete info["signature_key_id"];
  edited.set("index.json", Buffer.from(JSON.stringify(info)));
  await assert.rejects(open(edited), SignatureError);

  const other = applied(); // the proof of another version
  const { files } = new ZipFiles(SECOND);
  for (const name of ["delta.json", "signature"]) other.set(name, files.get(name)!);
  await assert.rejects(open(other), CorruptArtifactError);
  other.delete("signature");
  await assert.rejects(open(other), SignatureError);
});

test("what was changed here is changed in the newer version, too", async () => {
  const changes = new MemoryChanges();
  const before = await openIndex(signed(), { changes });
  const vector = new Float32Array(before.dimension).fill(1);
  await before.add([{ id: "mine", text: "my own sea", metadata: {} }], [vector]);
  await before.delete(["d9"]);
  const index = await openIndex(signed(), { changes, deltas: [FIRST, SECOND] });
  assert.equal(index.size, EXPECTED.signed.size); // one more, one less
  assert.equal(index.get("d9"), undefined);
  assert.equal((await index.search(vector, { k: 1 }))[0]?.id, "mine");
  await index.compact();
  const found = await index.search("sea bridge", { mode: "lexical", k: 40 });
  const again = await openIndex(signed(), { changes, deltas: [FIRST, SECOND] });
  assert.deepEqual(await again.search("sea bridge", { mode: "lexical", k: 40 }), found);
});

test("deltas in the wrong order, of another index, or none at all", async () => {
  const opened = (deltas: unknown, from = signed()) =>
    openIndex(from, { deltas: deltas as Uint8Array[] });
  await assert.rejects(opened([SECOND, FIRST]), (error) => error instanceof ArtifactError && /order/.test(error.message));
  await assert.rejects(opened([SECOND]), /made from an index of/);
  await assert.rejects(opened([PLAIN]), /Space|space/);
  await assert.rejects(opened([FIRST], new MemorySource(applied(), "applied")).then((index) => index.get(7 as never)), InvalidInputError);
  await assert.rejects(opened(FIRST), /deltas is .*, expected a list of Uint8Array/);
  await assert.rejects(opened(["a.delta"]), /a list with .* in it/);
  const none = await opened([]);
  assert.equal(none.size, 30);
});

/** The files of a stored zip, for a test. */
class ZipFiles {
  readonly files = new Map<string, Uint8Array>();

  constructor(bytes: Uint8Array) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let at = 0; view.getUint32(at, true) === 0x04034b50; ) {
      const size = view.getUint32(at + 18, true);
      const name = at + 30;
      const start = name + view.getUint16(at + 26, true) + view.getUint16(at + 28, true);
      const text = Buffer.from(bytes.subarray(name, name + view.getUint16(at + 26, true))).toString();
      this.files.set(text, bytes.slice(start, start + size));
      at = start + size;
    }
  }
}
