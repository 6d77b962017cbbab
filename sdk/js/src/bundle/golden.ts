/**
 * `golden.json`: texts with the ids and the vectors the exporter got for them.
 *
 * Replaying them tells whether this machine computes what the exporting one did: the tokenizer to the
 * id, the encoder to the rounding of its processor.
 */

import { throwIfAborted } from "../platform/cancelling.js";
import type { Encoder } from "../encoder.js";
import { CorruptArtifactError } from "../errors.js";
import { Fields } from "../fields.js";
import { isInteger, type Json } from "../json.js";
import { GOLDEN_FILE, MOST_DIMENSIONS, MOST_IDS } from "./manifest.js";
import { repr } from "../python_text.js";

export const LEAST_COSINE = 0.999;
const MOST_TEXTS = 10_000;
const MOST_CHARACTERS = 1 << 20; // of one text
const LARGEST = 1.001; // of a unit vector's numbers, rounded

/** One text with its ids and its vector (L2-normalised, rounded to 6 decimals). */
export interface GoldenText {
  readonly text: string;
  readonly ids: readonly number[];
  readonly vector: readonly number[];
}

/** How near this machine's vectors are to the golden ones, over all texts. */
export interface GoldenAgreement {
  readonly texts: number;
  readonly leastCosine: number;
  readonly largestDifference: number;
}

/** The texts in the bytes of `golden.json`. Throws CorruptArtifactError; names the field. */
export function parseGolden(data: Uint8Array): GoldenText[] {
  const items = Fields.ofJson(data, GOLDEN_FILE).sequence("texts", MOST_TEXTS);
  if (items.length === 0) {
    throw new CorruptArtifactError(`${GOLDEN_FILE}: field 'texts': found none, expected some`);
  }
  return items.map((item, index) => goldenText(item, `texts[${index}].`));
}

function goldenText(item: Json, path: string): GoldenText {
  const text = item instanceof Map ? item.get("text") : undefined;
  if (!(item instanceof Map) || typeof text !== "string") {
    throw new CorruptArtifactError(
      `${GOLDEN_FILE}: field '${path}text': missing or no text, expected one`,
    );
  }
  const fields = new Fields(item, GOLDEN_FILE, path);
  if (text !== "") fields.text("text", MOST_CHARACTERS);
  const ids = fields.sequence("ids", MOST_IDS);
  const vector = fields.sequence("vector", MOST_DIMENSIONS);
  if (!ids.every((id, i) => isInteger(ids, i) && (id as number) >= 0)) {
    throw new CorruptArtifactError(`${GOLDEN_FILE}: field '${path}ids': expected token ids only`);
  }
  if (!vector.every((value) => typeof value === "number" && Math.abs(value) <= LARGEST)) {
    throw new CorruptArtifactError(
      `${GOLDEN_FILE}: field '${path}vector': expected numbers of a unit vector only`,
    );
  }
  return { text, ids: ids as number[], vector: vector as number[] };
}

/**
 * Encode each text again and compare; prompts take no part.
 *
 * Throws CorruptArtifactError: other ids, a vector of another length, or a cosine below 0.999.
 */
export async function replay(
  encoder: Encoder,
  texts: readonly GoldenText[],
  signal?: AbortSignal,
): Promise<GoldenAgreement> {
  let leastCosine = 1;
  let largestDifference = 0;
  for (const golden of texts) {
    throwIfAborted(signal);
    checkIds(golden, encoder.tokenize(golden.text));
    const found = await encoder.encode(golden.text, { prompt: "" });
    const expected = Float32Array.from(golden.vector);
    if (expected.length !== found.length) {
      throw new CorruptArtifactError(
        `${GOLDEN_FILE}: the vector of ${short(golden.text)} has ${expected.length} numbers, ` +
          `the encoder's space has ${found.length} dimensions`,
      );
    }
    const cosine = cosineOf(found, expected);
    // So that NaN fails too.
    if (!(cosine >= LEAST_COSINE)) {
      throw new CorruptArtifactError(
        `${GOLDEN_FILE}: the vector of ${short(golden.text)} has cosine ${cosine.toFixed(4)} with ` +
          `the golden one, expected at least ${LEAST_COSINE}; this machine computes ` +
          "something else than the exporting one did, or the bundle was put together wrongly",
      );
    }
    leastCosine = Math.min(leastCosine, cosine);
    for (const [i, value] of found.entries()) {
      largestDifference = Math.max(largestDifference, Math.abs(value - (expected[i] as number)));
    }
  }
  return { texts: texts.length, leastCosine, largestDifference };
}

function checkIds(golden: GoldenText, found: readonly number[]): void {
  if (found.join() === golden.ids.join()) return;
  throw new CorruptArtifactError(
    `${GOLDEN_FILE}: ${short(golden.text)} gives the ids ${some(found)}, expected ` +
      `${some(golden.ids)}; the tokenizer is not the one the bundle was made with`,
  );
}

function cosineOf(left: Float32Array, right: Float32Array): number {
  let product = 0;
  let a = 0;
  let b = 0;
  for (const [i, x] of left.entries()) {
    const y = right[i] as number;
    product += x * y;
    a += x * x;
    b += y * y;
  }
  const norms = Math.sqrt(a) * Math.sqrt(b);
  return norms > 0 ? product / norms : Number.NaN;
}

function short(text: string): string {
  const characters = Array.from(text.slice(0, 200));
  return repr(characters.length <= 40 ? text : `${characters.slice(0, 37).join("")}...`);
}

function some(ids: readonly number[]): string {
  return `[${ids.slice(0, 12).join(", ")}${ids.length > 12 ? ", ...]" : "]"}`;
}
