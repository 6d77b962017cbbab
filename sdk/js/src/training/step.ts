/**
 * One local training step: a bundle's `train_step.onnx` in an ordinary onnxruntime session.
 *
 * The graph holds everything: the passes of the online and the target network, the loss, gradients,
 * AdamW and the moving average. State goes in and comes out, so a step is a pure function.
 */

import type { InferenceSession, Tensor } from "onnxruntime-common";
import { Bundle } from "../bundle/bundle.js";
import { type AdapterTensor, type AdapterTensors, adapterOf } from "../bundle/adapter_tensors.js";
import { ENCODER_FILE, TRAINING_STATE_FILE, TRAINING_STEP_FILE } from "../bundle/manifest.js";
import { type OnnxModel, readOnnxModel } from "../bundle/onnx_model.js";
import { parseSafetensors } from "../bundle/safetensors.js";
import {
  ArtifactNotFoundError,
  CorruptArtifactError,
  InvalidInputError,
  SpaceMismatchError,
} from "../errors.js";
import { copied } from "../files/bytes.js";
import { checkSource, type FileSource } from "../files/source.js";
import { checkRuntime, type OnnxRuntime, type SessionOptions, unloadable } from "../graph.js";
import { byCodePoint, repr, show } from "../python_text.js";
import { checkOptions } from "../texts.js";
import {
  checkStepSignature,
  descriptionOf,
  type Kind,
  LOSSES,
  stateNames,
  type StateTensor,
  type StepDescription,
} from "./step_description.js";

/** Scalars of a step, inputs of the graph. */
export interface Hyperparameters {
  readonly temperature: number;
  readonly anchorWeight: number;
  readonly openedLossWeight: number;
  readonly learningRate: number;
  readonly weightDecay: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  readonly emaRate: number;
}

/** Token ids and their mask, (rows, length), padded at the end. */
export interface PaddedIds {
  readonly ids: BigInt64Array;
  readonly mask: BigInt64Array;
  readonly length: number;
}

/** What one step learns from: B queries, V online and T target views, view-major rows. */
export interface StepBatch {
  /** B. */
  readonly size: number;
  /** (V * B, L) and (T * B, M). */
  readonly online: PaddedIds;
  readonly target: PaddedIds;
  /** (B, d), the shipped encoder's vectors of the clean queries. */
  readonly anchor: Float32Array;
  /** (B, K, d); null where the objective has none. */
  readonly prototypes: Float32Array | null;
  /** (B, S, d), documents that were shown; S >= 1, zeros where there are none. */
  readonly shown: Float32Array;
  /** (B, S), 1 = a document. */
  readonly shownMask: Float32Array;
  /** (B,), which of them was opened. */
  readonly opened: BigInt64Array;
  /** (B,), 0 where none was. */
  readonly openedWeight: Float32Array;
  /**
   * (B,), in which online row each query stands as it was typed, where not in the first B. One that does not
   * stand there is not held to its anchor.
   */
  readonly clean?: readonly number[];
}

/** Everything a step changes, by kind and name, and how many steps were done. */
export type State = Readonly<Record<Kind, AdapterTensors>> & { readonly step: number };

/** The total and its terms, before their weights. */
export interface StepLosses {
  readonly loss: number;
  readonly viewLoss: number;
  readonly anchorLoss: number;
  readonly openedLoss: number;
}

/** The result of a step: the state after it; losses and online vectors (V * B, d) before it. */
export interface StepOutcome {
  readonly state: State;
  readonly losses: StepLosses;
  readonly vectors: Float32Array;
}

const OPTIONS: SessionOptions = {
  intraOpNumThreads: 1,
  interOpNumThreads: 1,
  executionMode: "sequential",
  enableMemPattern: false, // a plan made for one length does not serve the next
  logSeverityLevel: 4,
};

/** How a step is opened. */
export interface StepOptions {
  readonly onnxruntime: OnnxRuntime;
  readonly sessionOptions?: SessionOptions | undefined;
}

/** The training step of one encoder; made by `LocalStep.open`. */
export class LocalStep {
  readonly description: StepDescription;
  readonly #bundle: Bundle;
  readonly #session: InferenceSession;
  readonly #runtime: OnnxRuntime;

  private constructor(
    bundle: Bundle,
    session: InferenceSession,
    description: StepDescription,
    runtime: OnnxRuntime,
  ) {
    this.#bundle = bundle;
    this.#session = session;
    this.description = description;
    this.#runtime = runtime;
  }

  /**
   * The training step in an open bundle or its files.
   *
   * Throws ArtifactNotFoundError (no such bundle, or it brings no training step),
   * CorruptArtifactError (the graph is damaged, its inputs or outputs are not as it says, or it was
   * made for another encoder), SpaceMismatchError or UnsupportedVersionError.
   */
  static async open(place: Bundle | FileSource, options: StepOptions): Promise<LocalStep> {
    checkRuntime(checkOptions(options, { onnxruntime: true, sessionOptions: true }).onnxruntime);
    const bundle =
      place instanceof Bundle ? place : await Bundle.open(checkSource(place, "the bundle"));
    if (!bundle.has(TRAINING_STEP_FILE)) {
      throw new ArtifactNotFoundError(
        `${bundle.source.name}: the bundle has no ${TRAINING_STEP_FILE}, so this encoder cannot ` +
          "learn on the device; export it with: pocketquery export --training-step",
      );
    }
    const { name } = bundle.source;
    const source = `${name}: ${TRAINING_STEP_FILE}`;
    const bytes = await bundle.read(TRAINING_STEP_FILE);
    let model: OnnxModel;
    try {
      model = readOnnxModel(bytes);
    } catch (error) {
      throw unloadable(name, TRAINING_STEP_FILE, error);
    }
    const description = descriptionOf(model, source);
    checkBundle(description, bundle, source);
    checkStepSignature(model, description, source);
    const { onnxruntime, sessionOptions } = options;
    const settings = { ...OPTIONS, ...sessionOptions };
    // Of a copy, since the bytes may be the source's and onnxruntime-web's proxy takes their buffer away.
    const session = await onnxruntime.InferenceSession.create(copied(bytes), settings).catch((error) => {
      throw unloadable(name, TRAINING_STEP_FILE, error);
    });
    return new LocalStep(bundle, session, description, onnxruntime);
  }

  /**
   * The state before the first step: target like online, moments zero. `adapter`: the release to
   * start from; what it does not name starts as the bundle's `train_state.safetensors` has it.
   *
   * Throws InvalidInputError (a tensor the step does not train, of another shape, or not finite; a
   * tensor that neither has) or CorruptArtifactError.
   */
  async initialState(adapter: AdapterTensors): Promise<State> {
    const { state, part } = this.description;
    const known = new Set(state.map(({ name }) => name));
    const unknown = [...adapter.keys()].filter((name) => !known.has(name)).sort(byCodePoint)[0];
    if (unknown !== undefined) {
      throw new InvalidInputError(
        `the adapter has ${repr(unknown)}, which this step does not train (it trains ` +
          `${repr(part)}: ${[...known].sort(byCodePoint).join(", ")}); they are of different encoders`,
      );
    }
    const own = state.every(({ name }) => adapter.has(name)) ? new Map() : await this.#ownValues();
    const place = this.#bundle.source.name;
    const online = new Map(state.map((one) => [one.name, startOf(one, adapter, own, place)]));
    const targets = state.filter(({ target }) => target).map(({ name }) => name);
    const zeros = new Map([...online].map(([name, { shape, data }]) => {
      return [name, { shape, data: new Float32Array(data.length) }];
    }));
    return {
      online,
      target: new Map(targets.map((name) => [name, online.get(name) as AdapterTensor])),
      first_moment: zeros,
      second_moment: zeros,
      step: 0,
    };
  }

  /**
   * One step; the state that is given is left as it is. Throws InvalidInputError where the batch is
   * not of the graph's shapes, or its ids are of another vocabulary.
   */
  async run(batch: StepBatch, state: State, hyper: Hyperparameters): Promise<StepOutcome> {
    const names = stateNames(this.description);
    const wanted = [...LOSSES, "vectors", ...names.map(({ name }) => `next.${name}`)];
    let found: Readonly<Record<string, Tensor>>;
    try {
      // Within: where the batch and its tensors do not fit, making them fails, too.
      found = await this.#session.run(this.#feed(batch, state, hyper), wanted);
    } catch (error) {
      throw new InvalidInputError(
        `the training step of ${this.#bundle.source.name} cannot take a batch of ${batch.size}; ` +
          `expected ${this.description.views} online and ${this.description.targetViews} target ` +
          `views of each query, and this encoder's tokens. onnxruntime says: ${(error as Error).message}`,
        { cause: error },
      );
    }
    const values = (name: string): Float32Array =>
      Float32Array.from(found[name]?.data as Float32Array); // the session's memory is used again
    const next: Record<Kind, Map<string, AdapterTensor>> = {
      online: new Map(),
      target: new Map(),
      first_moment: new Map(),
      second_moment: new Map(),
    };
    for (const { name, kind, tensor } of names) {
      next[kind].set(tensor.name, { shape: tensor.shape, data: values(`next.${name}`) });
    }
    const [loss, viewLoss, anchorLoss, openedLoss] = LOSSES.map(
      (name) => values(name)[0] ?? Number.NaN,
    ) as [number, number, number, number];
    return {
      state: { ...next, step: state.step + 1 },
      losses: { loss, viewLoss, anchorLoss, openedLoss },
      vectors: values("vectors"),
    };
  }

  /** Ends the session. */
  async close(): Promise<void> {
    await this.#session.release();
  }

  #feed(batch: StepBatch, state: State, hyper: Hyperparameters): Record<string, Tensor> {
    const d = this.description.dimension;
    const { size, online, target, shownMask } = batch;
    const [views, targets] = [this.description.views, this.description.targetViews];
    const { Tensor: Make } = this.#runtime;
    // Of copies, since onnxruntime-web's proxy takes the buffers of what it is fed away, too.
    const int = (data: BigInt64Array, ...shape: number[]) => new Make("int64", data.slice(), shape);
    const float = (data: Float32Array, ...shape: number[]) => new Make("float32", data.slice(), shape);
    const feed: Record<string, Tensor> = {
      online_ids: int(online.ids, views * size, online.length),
      online_mask: int(online.mask, views * size, online.length),
      target_ids: int(target.ids, targets * size, target.length),
      target_mask: int(target.mask, targets * size, target.length),
      anchor: float(heldAnchors(batch, d), size, d),
      shown: float(batch.shown, size, shownMask.length / size, d),
      shown_mask: float(shownMask, size, shownMask.length / size),
      opened: int(batch.opened, size),
      opened_weight: float(batch.openedWeight, size),
    };
    const { prototypes } = batch;
    if (prototypes !== null) {
      feed["prototypes"] = float(prototypes, size, prototypes.length / size / d, d);
    }
    const scalars = {
      temperature: hyper.temperature,
      anchor_weight: hyper.anchorWeight,
      opened_loss_weight: hyper.openedLossWeight,
      learning_rate: hyper.learningRate,
      weight_decay: hyper.weightDecay,
      beta1: hyper.beta1,
      beta2: hyper.beta2,
      epsilon: hyper.epsilon,
      ema_rate: hyper.emaRate,
      step: state.step + 1,
    };
    for (const [name, value] of Object.entries(scalars)) feed[name] = float(Float32Array.of(value));
    for (const { name, kind, tensor } of stateNames(this.description)) {
      const data = state[kind].get(tensor.name)?.data ?? new Float32Array(0);
      feed[name] = float(data, ...tensor.shape);
    }
    return feed;
  }

  async #ownValues(): Promise<AdapterTensors> {
    if (!this.#bundle.has(TRAINING_STATE_FILE)) return new Map();
    const raw = parseSafetensors(await this.#bundle.read(TRAINING_STATE_FILE), TRAINING_STATE_FILE);
    return adapterOf(raw, `${this.#bundle.source.name}: ${TRAINING_STATE_FILE}`);
  }
}

/** The anchors, of which those of queries that do not stand in the first place as they were typed hold nothing. */
function heldAnchors({ anchor, clean, size }: StepBatch, dimension: number): Float32Array {
  if (clean === undefined) return anchor;
  const held = anchor.slice();
  for (const [line, row] of clean.entries()) {
    if (row >= size) held.fill(0, line * dimension, (line + 1) * dimension);
  }
  return held;
}

function checkBundle(description: StepDescription, { manifest }: Bundle, source: string): void {
  const { space } = manifest;
  const encoder = manifest.files.get(ENCODER_FILE)?.sha256;
  if (description.spaceId !== space.id) {
    throw SpaceMismatchError.between(source, description.spaceId, "the encoder", space.id);
  }
  if (description.encoderSha256 !== encoder || description.dimension !== space.dimension) {
    throw new CorruptArtifactError(
      `${source} was made for the encoder ${description.encoderSha256} with ` +
        `${description.dimension} dimensions, the bundle's is ${encoder} with ` +
        `${space.dimension}; export the bundle again`,
    );
  }
}

/** The first value of `tensor`: the adapter's, else the bundle's own. */
function startOf(
  tensor: StateTensor,
  adapter: AdapterTensors,
  own: AdapterTensors,
  place: string,
): AdapterTensor {
  const { name, shape } = tensor;
  const given = adapter.get(name);
  const value = given ?? own.get(name);
  const where = given ? "the adapter" : `${place}: ${TRAINING_STATE_FILE}`;
  if (value === undefined) {
    throw new InvalidInputError(`neither the adapter nor ${where} has a value for ${repr(name)}`);
  }
  const Refused = given ? InvalidInputError : CorruptArtifactError;
  if (value.shape.join() !== shape.join() || !(value.data instanceof Float32Array)) {
    throw new Refused(
      `${where}: ${repr(name)} is ${show([...value.shape])}, expected float32 ${show([...shape])}`,
    );
  }
  if (!value.data.every(Number.isFinite)) {
    throw new Refused(
      `${where}: ${repr(name)} holds NaN or infinity, expected finite numbers`,
    );
  }
  return { shape, data: Float32Array.from(value.data) };
}
