/**
 * Local training, apart from the rest so that a page which only searches does not load it:
 *
 *     const step = await LocalStep.open(source, { onnxruntime });
 *     const { adapter, stopped } = await trainLocally({ encoder, step, examples, documents, ... });
 *     if (adapter !== null) await encoder.swapAdapter(adapter);
 */

export { packAdapter, type PackOptions } from "./bundle/pack_adapter.js";
export { Bundle } from "./bundle/bundle.js";
export { distinct, type Example } from "./store/example.js";
export { Batches, type ShippedEncoder } from "./training/batches.js";
export { type DocumentVectors, MatrixVectors, type RankedRows } from "./training/documents.js";
export { type LocalConfig, localConfig, type LocalSettings } from "./training/local_config.js";
export {
  complaint,
  effectiveRank,
  type Health,
  type Matrix,
  measure,
  type MonitorLimits,
  stdRatio,
} from "./training/monitors.js";
export { Random } from "./training/random.js";
export {
  type Hyperparameters,
  LocalStep,
  type PaddedIds,
  type State,
  type StepBatch,
  type StepLosses,
  type StepOptions,
  type StepOutcome,
} from "./training/step.js";
export type { StateTensor, StepDescription } from "./training/step_description.js";
export { type LocalResult, trainLocally, type TrainOptions } from "./training/training.js";
export { mistype } from "./training/typing_noise.js";
export {
  type Augmenter,
  dropoutView,
  makeViews,
  noiseCase,
  typo,
  unfinished,
  type ViewPlan,
} from "./training/views.js";
