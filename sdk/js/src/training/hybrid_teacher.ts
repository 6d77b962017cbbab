/**
 * The index's hybrid ranking as a teacher of its dense one: Python's
 * `client/training/hybrid_teacher.py`, which says why opening results by chance, each as often as the
 * softmax of its hybrid score says, teaches that ranking.
 */

import { fromEnd } from "../platform/lists.js";
import { InvalidInputError } from "../errors.js";
import type { Batches } from "./batches.js";
import { type DocumentVectors, withRandom } from "./documents.js";
import type { LocalConfig } from "./local_config.js";
import type { Random } from "./random.js";
import type { StepBatch } from "./step.js";

interface Ranked {
  readonly rows: readonly number[];
  readonly upTo: readonly number[];
}

/** Batches whose opened results are drawn by the hybrid ranking; made by `HybridBatches.of`. */
export class HybridBatches {
  readonly #batches: Batches;
  readonly #documents: DocumentVectors;
  readonly #candidates: number;
  readonly #mistyped: number;
  /** Of each query: rows of its best documents, and the sum of the shares up to each. */
  readonly #ranked: readonly Ranked[];

  private constructor(
    batches: Batches,
    documents: DocumentVectors,
    candidates: number,
    mistyped: number,
    ranked: readonly Ranked[],
  ) {
    this.#batches = batches;
    this.#documents = documents;
    this.#candidates = candidates;
    this.#mistyped = mistyped;
    this.#ranked = ranked;
  }

  /**
   * `documents` are searched once for each query of `batches`.
   *
   * Throws InvalidInputError: they are vectors alone, or nothing is found for a query.
   */
  static async of(
    batches: Batches,
    objective: string,
    documents: DocumentVectors,
    config: LocalConfig,
  ): Promise<HybridBatches> {
    const { hybridLossWeight, hybridCandidates, hybridSharpness } = config;
    if (documents.ranked === undefined) {
      throw new InvalidInputError(
        `hybridLossWeight is ${hybridLossWeight}, but this device has document vectors alone; expected ` +
          "those of an index, index.vectors(), which can be searched by words, too",
      );
    }
    const found: Ranked[] = [];
    for (const [i, text] of batches.texts.entries()) {
      const vector = batches.anchors[i] as Float32Array;
      const { rows, scores } = await documents.ranked(text, vector, hybridCandidates);
      if (rows.length === 0) {
        throw new InvalidInputError(`nothing is found for query ${i}; expected an index with documents`);
      }
      found.push({ rows, upTo: sumsOfShares(scores, hybridSharpness) });
    }
    const mistyped = objective === "index_byol" ? config.hybridMistyped : 0; // byol's views predict one another
    return new HybridBatches(batches, documents, hybridCandidates, mistyped, found);
  }

  /** The batch of the queries `rows`, see `Batches.make`. */
  make(rows: readonly number[], typing: Random, draw: Random, noisy = true): StepBatch {
    const batch = this.#batches.make(rows, typing, draw, noisy);
    const { count, dimension } = this.#documents;
    const found = rows.map((row) => this.#ranked[row] as Ranked);
    const longest = Math.max(...found.map((one) => one.rows.length));
    const most = Math.min(longest + this.#candidates, count);
    const shown = new Float32Array(rows.length * most * dimension);
    const shownMask = new Float32Array(rows.length * most);
    const opened = new BigInt64Array(rows.length);
    for (const [line, { rows: best, upTo }] of found.entries()) {
      const chosen = withRandom(best, this.#candidates, count, draw);
      shown.set(this.#documents.vectors(chosen), line * most * dimension);
      shownMask.fill(1, line * most, line * most + chosen.length);
      const drawn = draw.random() * (fromEnd(upTo) as number);
      const place = upTo.findIndex((sum) => sum > drawn);
      opened[line] = BigInt(place < 0 ? best.length - 1 : place); // where the product was rounded up
    }
    const openedWeight = new Float32Array(rows.length).fill(1);
    const taught = { ...batch, shown, shownMask, opened, openedWeight };
    if (!this.#mistyped || !noisy) return taught;
    return secondViewFirst(taught, rows.map(() => draw.random() < this.#mistyped));
  }
}

/** The first two online views of the queries `chosen` changed for each other: a step teaches the first, and holds
 * to the anchor those that were not changed. */
function secondViewFirst(batch: StepBatch, chosen: readonly boolean[]): StepBatch {
  const { size } = batch;
  const { ids, mask, length } = batch.online;
  const changed = (values: BigInt64Array): BigInt64Array => {
    const found = values.slice();
    for (const line of chosen.keys()) {
      if (!chosen[line]) continue;
      const [first, second] = [line * length, (size + line) * length];
      found.set(values.subarray(second, second + length), first);
      found.set(values.subarray(first, first + length), second);
    }
    return found;
  };
  return {
    ...batch,
    online: { ids: changed(ids), mask: changed(mask), length },
    clean: chosen.map((second, line) => (second ? size + line : line)),
  };
}

/** Of the softmax of `scores`, the sum of the shares up to each. */
function sumsOfShares(scores: readonly number[], temperature: number): number[] {
  const best = Math.max(...scores);
  const raised = scores.map((score) => Math.exp((score - best) / temperature));
  const total = raised.reduce((sum, one) => sum + one, 0);
  let sum = 0;
  return raised.map((one) => (sum += one / total));
}
