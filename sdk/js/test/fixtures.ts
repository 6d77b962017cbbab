/** What Python computed: `python -m tests.sdk.javascript_fixtures` writes it. */

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { MemorySource } from "pocketquery";

const PACKAGE = join(dirname(fileURLToPath(import.meta.url)), "..");
export const CONFORMANCE = join(PACKAGE, "..", "..", "conformance");
export const FIXTURES = join(CONFORMANCE, "encoder");
export const TINY = join(FIXTURES, "tiny");
export const REFERENCE = join(PACKAGE, "..", "..", "benchmarks", "reference", "bundle");
export { PACKAGE };

export interface Vectors {
  ids: number[][];
  vectors: number[][];
  queries: number[][];
}

interface Expected {
  texts: string[];
  tiny: Vectors;
  swapped: Vectors;
  reference: Vectors;
  models: Record<string, { texts: string[]; ids: number[][] }>;
  key: string;
  other_key: string;
  key_id: string;
}

export const EXPECTED = JSON.parse(read("expected.json").toString("utf8")) as Expected;

export function read(name: string): Buffer {
  return readFileSync(join(FIXTURES, name));
}

export const TINY_FILES = [
  "adapter.safetensors",
  "encoder.onnx",
  "golden.json",
  "manifest.json",
  "signature",
  "tokenizer.json",
];

/** The tiny bundle in memory; `changes` replace files (null takes one away). */
export function tiny(changes: Record<string, Uint8Array | null> = {}): MemorySource {
  const files = new Map<string, Uint8Array>(TINY_FILES.map((name) => [name, read(`tiny/${name}`)]));
  for (const [name, content] of Object.entries(changes)) {
    if (content === null) files.delete(name);
    else files.set(name, content);
  }
  return new MemorySource(files, "tiny");
}

/** The tiny bundle's manifest with `change` done to it, unsigned. */
export function changedManifest(change: (manifest: Record<string, any>) => void): Uint8Array {
  const manifest = JSON.parse(read("tiny/manifest.json").toString("utf8")) as Record<string, any>;
  manifest["signature_key_id"] = null;
  change(manifest);
  return new TextEncoder().encode(JSON.stringify(manifest));
}

export function cosine(left: ArrayLike<number>, right: ArrayLike<number>): number {
  let product = 0;
  let a = 0;
  let b = 0;
  for (let i = 0; i < left.length; i++) {
    const x = left[i] ?? Number.NaN;
    const y = right[i] ?? Number.NaN;
    product += x * y;
    a += x * x;
    b += y * y;
  }
  return product / Math.sqrt(a * b);
}
