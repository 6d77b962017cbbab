/** What must be refused, whoever reads it: conformance/refused.json.gz, made by Python. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import * as onnxruntime from "onnxruntime-node";
import { MemorySource, openTokenizer, PocketQueryError, readAdapter, ZipSource } from "pocketquery";
import { openIndex } from "pocketquery/index";
import { load, verify } from "pocketquery/node";
import { Bundle, LocalStep } from "pocketquery/training";
import { CONFORMANCE } from "./fixtures.js";

interface Case {
  name: string;
  kind: "bundle" | "tokenizer" | "release" | "index" | "step" | "delta";
  place: string;
  changes: { file: string; absent?: boolean; at?: number; cut?: number; put?: string }[];
  key: string | null;
  error: string;
}

const CASES = JSON.parse(
  gunzipSync(readFileSync(join(CONFORMANCE, "refused.json.gz"))).toString("utf8"),
) as Case[];

/** The changed files by name; "" where the place is one file. */
function made({ place, changes }: Case): Map<string, Uint8Array> {
  const path = join(CONFORMANCE, place);
  const names = statSync(path).isDirectory() ? readdirSync(path) : [""];
  const files = new Map(names.map((name) => [name, Uint8Array.from(readFileSync(join(path, name)))]));
  for (const { file, absent, at = 0, cut = 0, put = "" } of changes) {
    const data = files.get(file) ?? new Uint8Array();
    if (absent) files.delete(file);
    else {
      const pieces = [data.subarray(0, at), Buffer.from(put, "base64"), data.subarray(at + cut)];
      files.set(file, Uint8Array.from(Buffer.concat(pieces)));
    }
  }
  return files;
}

async function opened(one: Case): Promise<void> {
  const files = made(one);
  const memory = new MemorySource(files, basename(one.place));
  const key = one.key === null ? {} : { publicKey: one.key };
  const source = one.place.endsWith(".zip") ? await ZipSource.open(memory, "", "tiny.zip") : memory;
  if (one.kind === "bundle") {
    const encoder = await load(source, key);
    await encoder.close();
    await verify(source, key);
  } else if (one.kind === "tokenizer") {
    openTokenizer("sentencepiece", files.get("") ?? new Uint8Array(), 64, new Map([["layout", "plain"]]));
  } else if (one.kind === "step") {
    await LocalStep.open(source, { onnxruntime });
  } else if (one.kind === "index") {
    const index = await openIndex(source, key);
    await index.search("sea", { mode: "lexical", filter: { any: 1 } }); // which reads all metadata
  } else if (one.kind === "delta") {
    const index = one.place.endsWith("plain.delta") ? "index/compact" : "search/index";
    const old = new MemorySource(made({ ...one, place: index, changes: [] }), index);
    await openIndex(old, { ...key, deltas: [files.get("") ?? new Uint8Array()] });
  } else {
    const sound = made({ ...one, place: "encoder/tiny", changes: [] });
    const { manifest } = await Bundle.open(new MemorySource(sound, "tiny"));
    await readAdapter(files.get("") ?? new Uint8Array(), manifest, one.key ?? undefined);
  }
}

test("what must be refused is refused, with the error that Python has", async () => {
  assert.ok(CASES.length > 100);
  const others: string[] = [];
  for (const one of CASES) {
    const error = await opened(one).then(() => null, (thrown: unknown) => thrown);
    const found = error instanceof PocketQueryError ? error.name : `${String(error)}`;
    if (found !== one.error) others.push(`${one.name}: ${found}, expected ${one.error}`);
  }
  assert.deepEqual(others, []);
});

test("the vectors are small", () => {
  const size = (path: string): number =>
    statSync(path).isDirectory()
      ? readdirSync(path).reduce((sum, name) => sum + size(join(path, name)), 0)
      : statSync(path).size;
  assert.ok(size(CONFORMANCE) < 2_900_000, `${size(CONFORMANCE)} bytes`);
});
