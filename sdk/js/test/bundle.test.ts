import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Bundle,
  CorruptArtifactError,
  InvalidInputError,
  keyId,
  type PocketQueryError,
  SignatureError,
  UnsupportedVersionError,
} from "pocketquery";
import { changedManifest, EXPECTED, read, tiny } from "./fixtures.js";

type Kind = new (message: string) => PocketQueryError;
type Change = (manifest: Record<string, any>) => void;

async function assertRefused(work: Promise<unknown>, kind: Kind, message: RegExp): Promise<void> {
  await assert.rejects(work, (error: Error) => {
    assert.ok(error instanceof kind, String(error));
    assert.match(error.message, message);
    assert.equal(error.name, kind.name);
    return true;
  });
}

const WRONG: [string, Change, RegExp][] = [
  ["format", (m) => (m["format"] = "x"), /^manifest.json: field 'format': found 'x', expected 'pocketquery-bundle'$/],
  ["no name", (m) => delete m["name"], /field 'name': missing, expected it to be there$/],
  ["name", (m) => (m["name"] = ""), /field 'name': found "", expected a text that is not empty$/],
  ["long name", (m) => (m["name"] = "é".repeat(1025)), /found 1025 characters, expected at most 1024$/],
  ["half a name", (m) => (m["name"] = "a\ud800"), /expected a text without halves of characters/],
  ["dimension", (m) => (m["space"].dimension = 0), /field 'space.dimension': found 0, expected an integer above 0, at most 16384$/],
  ["dimensions", (m) => (m["space"].dimension = 16385), /found 16385, expected an integer above 0/],
  ["dimension text", (m) => (m["space"].dimension = "16"), /field 'space.dimension': found "16", expected an integer$/],
  ["dimension true", (m) => (m["space"].dimension = true), /found true, expected an integer$/],
  ["length", (m) => (m["max_length"] = 2), /field 'max_length': found 2, expected at least 3 \(two special tokens and one of the text\), at most 32768$/],
  ["length above", (m) => (m["max_length"] = 32769), /found 32769, expected at least 3/],
  ["prompts", (m) => (m["prompts"] = { a: 1 }), /field 'prompts.a': found 1, expected a text$/],
  ["default", (m) => (m["default_prompt_name"] = "b"), /field 'default_prompt_name': found 'b', expected null or one of \['document', 'query'\]$/],
  ["kind", (m) => (m["tokenizer"].kind = "bpe"), /field 'tokenizer.kind': found "bpe", expected one of 'wordpiece', 'sentencepiece'$/],
  ["tokenizer", (m) => (m["tokenizer"].file = "x.json"), /field 'files': found no entry 'x.json', expected an entry for it$/],
  ["no encoder", (m) => delete m["files"]["encoder.onnx"], /found no entry 'encoder.onnx'/],
  ["no golden", (m) => delete m["files"]["golden.json"], /found no entry 'golden.json'/],
  ["quality", (m) => (m["quality"] = []), /field 'quality': found \[\], expected an object$/],
  ["files", (m) => (m["files"] = Object.fromEntries(Array.from({ length: 65 }, (_, i) => [i, {}]))), /field 'files': found 65 entries, expected at most 64$/],
  ...["../x", ".x", "a/b", "a\\b", "c:x", "manifest.json", "signature", "a\nb", "x".repeat(129)].map(
    (name): [string, Change, RegExp] => [
      `file ${name.slice(0, 9)}`,
      (m) => (m["files"][name] = m["files"]["golden.json"]),
      /field 'files': found the name '.*', expected plain file names inside the bundle's folder$/,
    ],
  ),
  ["hash", (m) => (m["files"]["golden.json"].sha256 = "A".repeat(64)), /field 'files.golden.json.sha256': found 'A+', expected 64 lowercase hexadecimal digits$/],
  ["size", (m) => (m["files"]["golden.json"].bytes = -1), /field 'files.golden.json.bytes': found -1, expected an integer not below 0, at most 16777216$/],
  ["size of all", (m) => (m["files"]["encoder.onnx"].bytes = 2 ** 31), /found 2147483648, expected an integer not below 0, at most 2147483647$/],
  ["size of tokenizer", (m) => (m["files"]["tokenizer.json"].bytes = 2 ** 27), /at most 67108864$/],
];

for (const [name, change, message] of WRONG) {
  test(`a manifest with a wrong field is refused: ${name}`, async () => {
    const source = tiny({ "manifest.json": changedManifest(change), signature: null });
    await assertRefused(Bundle.open(source), CorruptArtifactError, message);
  });
}

test("a manifest of a newer version is refused, unknown fields are not", async () => {
  const newer = changedManifest((m) => (m["format_version"] = 2));
  await assertRefused(
    Bundle.open(tiny({ "manifest.json": newer })),
    UnsupportedVersionError,
    /^manifest.json: format_version is 2, this release reads up to 1; update pocketquery$/,
  );
  const richer = changedManifest((m) => (m["colour"] = "red"));
  assert.equal((await Bundle.open(tiny({ "manifest.json": richer }))).manifest.name, "tiny");
});

test("what is no JSON of ours is refused", async () => {
  const text = new TextDecoder().decode(changedManifest(() => {}));
  const wrong = [
    "", "[]", "null", "{", "\ufeff{}", `${text}x`, "\xff",
    text.replace('"name"', '"format":"x","name"'),
    text.replace('"max_length":24', '"max_length":24.0'),
    text.replace('"max_length":24', '"max_length":2.4e1'),
    text.replace('"max_length":24', `"max_length":${"9".repeat(21)}`),
    text.replace('"quality":{}', '"quality":{"x":1e999}'),
    text.replace('"quality":{}', '"quality":{"x":NaN}'),
    text.replace('"quality":{}', `"quality":{"x":${"[".repeat(64)}${"]".repeat(64)}}`),
    text.replace('"quality":{}', `"quality":{"x":${"[".repeat(100_000)}`),
    `{"x":"${"y".repeat(1 << 20)}"}`,
  ];
  for (const [i, content] of wrong.entries()) {
    assert.notEqual(content, text, String(i));
    const bytes = new TextEncoder().encode(content);
    const source = tiny({ "manifest.json": bytes });
    await assertRefused(Bundle.open(source), CorruptArtifactError, /^manifest.json: /);
  }
});

test("files that differ from the manifest are refused", async () => {
  const golden = Uint8Array.from(read("tiny/golden.json"));
  const bundle = (content: Uint8Array | null) => Bundle.open(tiny({ "golden.json": content }));
  const changed = golden.slice();
  changed[10] = 0x20;
  const cases: [Uint8Array | null, RegExp][] = [
    [changed, /^tiny: golden.json has SHA-256 \w{64}, the manifest says \w{64}; it was changed. Fetch/],
    [golden.slice(1), /^tiny: golden.json has \d+ bytes, the manifest says \d+; it is truncated or was/],
    [Uint8Array.from([...golden, 1]), /has more bytes, the manifest says/],
  ];
  for (const [content, message] of cases) {
    const opened = await bundle(content);
    await assertRefused(opened.read("golden.json"), CorruptArtifactError, message);
  }
  await assert.rejects((await bundle(null)).read("golden.json"), { name: "ArtifactNotFoundError" });
  const opened = await bundle(changed);
  assert.deepEqual(await opened.read("golden.json", { verifyHash: false }), changed);
  await assertRefused(
    opened.read("x"),
    InvalidInputError,
    /the manifest names no file 'x', only adapter.safetensors, encoder.onnx, golden.json/,
  );
});

test("signatures are checked over the manifest's very bytes", async () => {
  const { key, other_key, key_id } = EXPECTED;
  assert.equal(await keyId(key), key_id);
  assert.equal((await Bundle.open(tiny(), { publicKey: key })).signedBy, key_id);
  const pair = key.match(/../g) ?? [];
  const raw = Uint8Array.from(pair, (digits) => Number.parseInt(digits, 16));
  const der = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), raw]);
  const pem = `-----BEGIN PUBLIC KEY-----\n${der.toString("base64")}\n-----END PUBLIC KEY-----\n`;
  for (const publicKey of [raw, pem]) {
    assert.equal((await Bundle.open(tiny(), { publicKey })).signedBy, key_id);
  }
  assert.equal((await Bundle.open(tiny())).signedBy, null);
  const spaced = Buffer.concat([read("tiny/manifest.json"), Buffer.from(" ")]);
  const cut = read("tiny/signature").subarray(1);
  const refused: [Record<string, Uint8Array | null>, string, RegExp][] = [
    [{}, other_key, /^tiny: the signature was not made over this manifest by the key/],
    [{ "manifest.json": spaced }, key, /not made over this manifest/],
    [{ signature: cut }, key, /^tiny: the signature has 63 bytes, expected 64 \(raw Ed25519\)$/],
    [{ signature: null }, key, /^tiny: found no signature, expected one by the key/],
    // A broken manifest is not even read.
    [{ "manifest.json": new Uint8Array(3) }, key, /not made over this manifest/],
  ];
  for (const [changes, publicKey, message] of refused) {
    await assertRefused(Bundle.open(tiny(changes), { publicKey }), SignatureError, message);
  }
  const taken = /^tiny says it is signed by the key '\w{16}' and has no signature of 64 bytes; it was taken away/;
  await assertRefused(Bundle.open(tiny({ signature: null })), SignatureError, taken);
  await assertRefused(Bundle.open(tiny({ signature: cut })), SignatureError, taken);
  for (const publicKey of [raw.subarray(1), "00", "not a key", pem.replace("MC", "MD")]) {
    await assertRefused(Bundle.open(tiny(), { publicKey }), InvalidInputError, /key/);
  }
});

test("without WebCrypto nothing is skipped in silence", async () => {
  const own = Object.getOwnPropertyDescriptor(globalThis, "crypto") as PropertyDescriptor;
  Object.defineProperty(globalThis, "crypto", { value: {}, configurable: true });
  try {
    const missing = { name: "MissingExtraError", message: /WebCrypto \(crypto.subtle\) is needed/ };
    await assert.rejects(Bundle.open(tiny(), { publicKey: EXPECTED.key }), missing);
    await assert.rejects((await Bundle.open(tiny())).read("golden.json"), missing);
  } finally {
    Object.defineProperty(globalThis, "crypto", own);
  }
});
