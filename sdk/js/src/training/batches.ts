/**
 * From a device's queries to the batches of the training step: Python's
 * `client/training/batches.py`. What does not change from step to step is computed once; the views
 * and the random documents are drawn for each.
 */

import type { Encoder } from "../encoder.js";
import { InvalidInputError, SpaceMismatchError } from "../errors.js";
import type { Example } from "../store/example.js";
import { checkTexts } from "../texts.js";
import { type DocumentVectors, withRandom } from "./documents.js";
import type { LocalConfig } from "./local_config.js";
import type { Random } from "./random.js";
import type { PaddedIds, StepBatch } from "./step.js";
import type { StepDescription } from "./step_description.js";
import { makeViews, type ViewPlan } from "./views.js";

const MOST_SHOWN = 50; // a list nobody scrolls to its end; bounds the memory of a batch

/** The part of an encoder that training needs. */
export type ShippedEncoder = Pick<Encoder, "encodeQuery" | "tokenize" | "spaceId" | "manifest">;

/** Batches over examples; made by `Batches.of`. */
export class Batches {
  readonly #encoder: ShippedEncoder;
  readonly #step: StepDescription;
  readonly #documents: DocumentVectors;
  readonly #config: LocalConfig;
  readonly #plan: ViewPlan;
  readonly #prompt: string;
  /** The queries. */
  readonly texts: readonly string[];
  /** The shipped encoder's vectors of them. */
  readonly anchors: readonly Float32Array[];
  /** The nearest documents, and those that were shown. */
  readonly #nearest: readonly (readonly number[])[];
  readonly #choices: readonly (readonly number[])[];
  /** Whether opened results count. */
  readonly usesOpened: boolean;

  private constructor(
    encoder: ShippedEncoder,
    step: StepDescription,
    examples: readonly Example[],
    documents: DocumentVectors,
    config: LocalConfig,
    anchors: readonly Float32Array[],
    leastOpened: number,
  ) {
    this.#encoder = encoder;
    this.#step = step;
    this.#documents = documents;
    this.#config = config;
    this.#plan = config.viewPlan(step.views);
    this.texts = examples.map(({ query }) => query);
    this.#prompt = queryPrompt(encoder);
    this.anchors = anchors;
    this.#nearest = anchors.map((anchor) => documents.nearest(anchor, config.nearestPrototypes));
    const asked = config.openedLossWeight > 0;
    const found = examples.map((example) => (asked ? rowsOf(example, documents) : []));
    this.usesOpened = asked && found.filter(({ length }) => length > 0).length >= leastOpened;
    this.#choices = this.usesOpened ? found : examples.map(() => []);
  }

  /**
   * Batches over `examples`, at least one; with fewer than `leastOpened` whose opened result can be learnt
   * from, none counts.
   *
   * Throws InvalidInputError (a query that is no text; no document to compare with) or
   * SpaceMismatchError.
   */
  static async of(
    encoder: ShippedEncoder,
    step: StepDescription,
    examples: readonly Example[],
    documents: DocumentVectors,
    config: LocalConfig,
    leastOpened = 0,
  ): Promise<Batches> {
    const { spaceId } = documents;
    if (spaceId !== undefined && spaceId !== encoder.spaceId) {
      throw SpaceMismatchError.between("the index", spaceId, "the encoder", encoder.spaceId);
    }
    if (!documents.count) {
      throw new InvalidInputError(
        "the index has no documents, so there is nothing to compare queries with; expected at " +
          "least one. Train after documents were added",
      );
    }
    const anchors = await encoder.encodeQuery(checkTexts(examples.map(({ query }) => query)));
    return new Batches(encoder, step, examples, documents, config, anchors, leastOpened);
  }

  /** The batch of the examples `rows`; with every view the clean query where `noisy` is false. */
  make(rows: readonly number[], typing: Random, draw: Random, noisy = true): StepBatch {
    const { views, targetViews, dimension, objective } = this.#step;
    const made = rows.map((row) => {
      const text = this.texts[row] as string;
      return noisy ? makeViews(text, typing, this.#plan) : Array.from({ length: views }, () => text);
    });
    const tokens = Array.from({ length: views }, (_, view) =>
      made.map((texts) => this.#encoder.tokenize(this.#prompt + (texts[view] as string))),
    ).flat();
    const { randomPrototypes } = this.#config;
    const compared =
      objective === "index_byol"
        ? rows.flatMap((row) =>
            withRandom(this.#nearest[row] ?? [], randomPrototypes, this.#documents.count, draw),
          )
        : null;
    const choices = rows.map((row) => this.#choices[row] ?? []);
    const most = Math.max(1, ...choices.map(({ length }) => length));
    const shown = new Float32Array(rows.length * most * dimension);
    const shownMask = new Float32Array(rows.length * most);
    for (const [line, chosen] of choices.entries()) {
      shown.set(this.#documents.vectors(chosen), line * most * dimension);
      shownMask.fill(1, line * most, line * most + chosen.length);
    }
    return {
      size: rows.length,
      online: padded(tokens),
      target: padded(tokens.slice(0, targetViews * rows.length)),
      anchor: stacked(rows.map((row) => this.anchors[row] as Float32Array), dimension),
      prototypes: compared && this.#documents.vectors(compared),
      shown,
      shownMask,
      opened: new BigInt64Array(rows.length),
      openedWeight: Float32Array.from(choices, ({ length }) => (length > 1 ? 1 : 0)),
    };
  }
}

/** Ids and mask, (n, length of the longest), padded at the end. */
export function padded(tokens: readonly (readonly number[])[]): PaddedIds {
  const length = Math.max(...tokens.map((ids) => ids.length));
  const ids = new BigInt64Array(tokens.length * length);
  const mask = new BigInt64Array(tokens.length * length);
  for (const [line, text] of tokens.entries()) {
    for (const [i, id] of text.entries()) ids[line * length + i] = BigInt(id);
    mask.fill(1n, line * length, line * length + text.length);
  }
  return { ids, mask, length };
}

/** `steps` batches of `batch` rows below `count`: permutations, one after another; all of one size. */
export function stream(count: number, batch: number, steps: number, random: Random): number[][] {
  const total = steps * batch;
  const order: number[] = [];
  while (order.length < total) order.push(...random.permutation(count));
  return Array.from({ length: steps }, (_, step) => order.slice(step * batch, (step + 1) * batch));
}

function stacked(vectors: readonly Float32Array[], dimension: number): Float32Array {
  const matrix = new Float32Array(vectors.length * dimension);
  for (const [row, vector] of vectors.entries()) matrix.set(vector, row * dimension);
  return matrix;
}

/** What `encodeQuery` puts before a text. */
function queryPrompt({ manifest }: ShippedEncoder): string {
  const { prompts, defaultPromptName } = manifest;
  const name = prompts.has("query") ? "query" : defaultPromptName;
  return name === null ? "" : (prompts.get(name) ?? "");
}

/** Rows of the opened document and the others that were shown; empty where it is gone or alone. */
function rowsOf({ shown, opened }: Example, documents: DocumentVectors): number[] {
  if (opened === null || !shown.includes(opened)) return [];
  const names = [opened, ...new Set(shown.filter((id) => id !== opened))].slice(0, MOST_SHOWN);
  const rows = names.map((id) => documents.rowOf(id));
  if (rows[0] === undefined) return [];
  const found = rows.filter((row) => row !== undefined);
  return found.length > 1 ? found : [];
}
