/**
 * Local training: from a device's queries and opened results to a new adapter: Python's
 * `client/training/training.py`.
 *
 * The device's own documents stand where BYOL has its projector: the online network, seeing a query
 * as thumbs type it, must rank them as the target network does on the clean one.
 */

import { breathe } from "../platform/cancelling.js";
import type { AdapterTensor, AdapterTensors } from "../bundle/adapter_tensors.js";
import { InvalidInputError, SpaceMismatchError } from "../errors.js";
import type { Example } from "../store/example.js";
import { kindOf, repr } from "../python_text.js";
import { checkOptions, type Names } from "../texts.js";
import { Batches, type ShippedEncoder, stream } from "./batches.js";
import type { DocumentVectors } from "./documents.js";
import { HybridBatches } from "./hybrid_teacher.js";
import { type LocalConfig, localConfig, type LocalSettings } from "./local_config.js";
import { complaint, type Health, measure } from "./monitors.js";
import { Random } from "./random.js";
import { normOf } from "./transforms.js";
import type { LocalStep, State, StepBatch, StepLosses, StepOutcome } from "./step.js";

/** The result of a training. */
export interface LocalResult {
  /** The new adapter; null where the run was stopped: then nothing of it is left. */
  readonly adapter: AdapterTensors | null;
  /** Queries it trained on. */
  readonly examples: number;
  /** Of each step, before it. */
  readonly losses: readonly StepLosses[];
  /** Figures of the encoder, the last that were taken. */
  readonly health: Health | null;
  /** Why the run was stopped; null where it was not. */
  readonly stopped: string | null;
}

/** What training needs. */
export interface TrainOptions {
  /** The shipped encoder, with the bundle's own adapter: its vectors are the anchor. */
  readonly encoder: ShippedEncoder;
  /** The training step of the same encoder. */
  readonly step: LocalStep;
  /** The device's queries; at most steps * batchSize are used, drawn evenly. */
  readonly examples: readonly Example[];
  /** The device's documents: `index.vectors()`. */
  readonly documents: DocumentVectors;
  /** The adapter to start from. */
  readonly adapter: AdapterTensors;
  readonly config?: Partial<LocalSettings>;
  /**
   * Opened results count only where so many of the queries that are drawn have one that is still in the
   * index, beside another that was shown: else that part of the loss would be of those few.
   */
  readonly leastOpened?: number;
  /** The adapter this device ended its last round with, for `clientInit: "ema"`. */
  readonly previous?: AdapterTensors | null;
  /** Of the order, the views and the random documents; another each time by default. */
  readonly seed?: number | bigint;
  /** Asked before every step and at the end: null, or why not. */
  readonly mayContinue?: () => string | null | Promise<string | null>;
  /** Told after each step how many are done, of how many. */
  readonly onStep?: (done: number, steps: number) => void;
  readonly signal?: AbortSignal;
}

const TRAIN_OPTIONS: Names<TrainOptions> = {
  encoder: true,
  step: true,
  examples: true,
  documents: true,
  adapter: true,
  config: true,
  leastOpened: true,
  previous: true,
  seed: true,
  mayContinue: true,
  onStep: true,
  signal: true,
};

/**
 * Train. The same arguments give the same bits on one platform.
 *
 * A run is stopped, and its result discarded, when `mayContinue` says so, when a loss is not finite,
 * or when the monitors find the encoder collapsed or drifting. They look at every step, and once
 * more at the result itself.
 *
 * Throws InvalidInputError (no examples; fewer than two for the objective "byol"; a query that is no
 * text; tensors of another encoder; no document to compare with; a hybrid ranking as teacher of document
 * vectors that are no index's) or SpaceMismatchError.
 */
export async function trainLocally(options: TrainOptions): Promise<LocalResult> {
  const { encoder, step, documents } = checkOptions(options, TRAIN_OPTIONS);
  if (!Array.isArray(options.examples)) {
    throw new InvalidInputError(`examples is ${kindOf(options.examples)}, expected a list`);
  }
  for (const name of ["documents", "adapter"] as const) {
    if (typeof options[name] === "object" && options[name] !== null) continue;
    throw new InvalidInputError(`${name} is ${kindOf(options[name])}, expected what TrainOptions says`);
  }
  const config = localConfig(options.config);
  check(encoder, step, options.examples.length, config.batchSize);
  const random = new Random(options.seed);
  const refused = (await options.mayContinue?.()) ?? null;
  if (refused !== null) {
    return { adapter: null, examples: 0, losses: [], health: null, stopped: refused };
  }
  const order = random.permutation(options.examples.length).slice(0, config.steps * config.batchSize);
  const examples = order.map((row) => options.examples[row] as Example);
  const { leastOpened } = options;
  const batches = await Batches.of(encoder, step.description, examples, documents, config, leastOpened);
  const isTaught = config.hybridLossWeight > 0;
  const source = isTaught ? await HybridBatches.of(batches, step.description.objective, documents, config) : batches;
  const openedLossWeight = isTaught ? config.hybridLossWeight : batches.usesOpened ? config.openedLossWeight : 0;
  const given = await step.initialState(options.adapter);
  const start = await begun(step, given, options.previous ?? null, config);
  return steps(options, source, examples.length, start, { ...config, openedLossWeight }, random);
}

/** The state to start from: the given one, or nearer to the device's own last result. */
async function begun(
  step: LocalStep,
  given: State,
  previous: AdapterTensors | null,
  { clientInit, initScale }: LocalConfig,
): Promise<State> {
  if (clientInit === "global" || previous === null) return given;
  const own = (await step.initialState(previous)).online;
  const together = (work: (released: number, ours: number) => number): AdapterTensors =>
    new Map(
      [...given.online].map(([name, { shape, data }]) => {
        const ours = (own.get(name) as AdapterTensor).data;
        return [name, { shape, data: data.map((value, i) => work(value, ours[i] as number)) }];
      }),
    );
  const apart = normOf(together((released, ours) => released - ours));
  const kept = Math.fround(Math.min(1, initScale * apart));
  const rest = Math.fround(1 - kept);
  const online = together((released, ours) => Math.fround(kept * ours) + Math.fround(rest * released));
  const target = new Map(
    [...given.target.keys()].map((name) => [name, online.get(name) as AdapterTensor]),
  );
  return { ...given, online, target };
}

async function steps(
  options: TrainOptions,
  batches: Pick<Batches, "make">,
  count: number,
  start: State,
  config: LocalConfig,
  random: Random,
): Promise<LocalResult> {
  const { step, signal } = options;
  const size = Math.min(config.batchSize, count);
  const losses: StepLosses[] = [];
  let health: Health | null = null;
  let state = start;
  const ended = (stopped: string): LocalResult => ({
    adapter: null,
    examples: count,
    losses,
    health,
    stopped,
  });
  const batchOf = (rows: readonly number[], noisy = true): StepBatch =>
    batches.make(rows, new Random(random.seed()), random, noisy);
  const look = (batch: StepBatch, { losses: found, vectors }: StepOutcome): string | null => {
    const columns = step.description.dimension;
    const clean = batch.clean ? vectors.slice(0, size * columns) : vectors.subarray(0, size * columns);
    for (const [line, row] of (batch.clean ?? []).entries()) {
      clean.set(vectors.subarray(row * columns, (row + 1) * columns), line * columns);
    }
    health = measure({ data: clean, columns }, { data: batch.anchor, columns });
    if (!Number.isFinite(found.loss)) return `the loss is ${found.loss}`;
    return complaint(health, config.limits);
  };
  for (const rows of stream(count, size, config.steps, random)) {
    await breathe(signal);
    const refused = (await options.mayContinue?.()) ?? null;
    if (refused !== null) return ended(refused);
    const batch = batchOf(rows);
    const outcome = await step.run(batch, state, config);
    state = pulled(step, outcome.state, start, config.proximal);
    losses.push(outcome.losses);
    const wrong = look(batch, outcome);
    if (wrong !== null) return ended(`step ${losses.length}: ${wrong}`);
    options.onStep?.(losses.length, config.steps);
  }
  // The result is judged itself: the losses are of the states before it.
  const probe = batchOf(Array.from({ length: size }, (_, row) => row), false);
  const wrong = look(probe, await step.run(probe, state, config));
  const stopped = wrong ?? (await options.mayContinue?.()) ?? null;
  if (stopped !== null) return ended(stopped);
  return { adapter: shipped(step, state), examples: count, losses, health, stopped: null };
}

function check(encoder: ShippedEncoder, step: LocalStep, count: number, batchSize: number): void {
  const { spaceId, objective } = step.description;
  if (encoder.spaceId !== spaceId) {
    throw SpaceMismatchError.between("the encoder", encoder.spaceId, "the training step", spaceId);
  }
  const least = objective === "byol" ? 2 : 1;
  if (count < least || batchSize < least) {
    throw new InvalidInputError(
      `found ${count} examples and a batch size of ${batchSize}, expected at least ${least} of ` +
        `each for the objective ${repr(objective)}; train when the device has more queries`,
    );
  }
}

/** `state` with the tensors that ship moved the `share` of the way back to `start`. */
function pulled(step: LocalStep, state: State, start: State, share: number): State {
  if (share === 0) return state;
  const online = new Map(state.online);
  for (const { name, ships } of step.description.state) {
    const [now, then] = [state.online.get(name), start.online.get(name)];
    if (!ships || now === undefined || then === undefined) continue;
    const data = now.data.map((value, i) => {
      return value + Math.fround(Math.fround(share) * Math.fround((then.data[i] as number) - value));
    });
    online.set(name, { shape: now.shape, data });
  }
  return { ...state, online };
}

function shipped(step: LocalStep, state: State): AdapterTensors {
  const names = step.description.state.filter(({ ships }) => ships).map(({ name }) => name);
  return new Map(names.map((name) => [name, state.online.get(name) as AdapterTensor]));
}
