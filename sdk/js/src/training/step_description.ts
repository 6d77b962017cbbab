/** What a training step's graph says of itself: JSON in its metadata, read strictly. */

import { CorruptArtifactError, UnsupportedVersionError } from "../errors.js";
import { Fields } from "../fields.js";
import { isInteger, type Json, type JsonObject } from "../json.js";
import { byCodePoint, repr, show } from "../python_text.js";
import { encodeUtf8 } from "../utf8.js";
import type { OnnxModel, ValueInfo } from "../bundle/onnx_model.js";

const METADATA_KEY = "pocketquery";
const FORMAT = "pocketquery-training-step";
const VERSION = 1;
const VIEWS = { index_byol: [2], byol: [2, 4] } as const;
const TARGET_VIEWS = { index_byol: 1, byol: 2 } as const;
const KINDS = ["online", "target", "first_moment", "second_moment"] as const;
const SCALARS = [
  "temperature", "anchor_weight", "opened_loss_weight", "learning_rate", "weight_decay", "beta1",
  "beta2", "epsilon", "ema_rate", "step",
] as const;
export const LOSSES = ["loss", "view_loss", "anchor_loss", "opened_loss"] as const;

/** The four tensors of each parameter. */
export type Kind = (typeof KINDS)[number];

/** One trained tensor. */
export interface StateTensor {
  /** As in the graph's `online.<name>`. */
  readonly name: string;
  readonly shape: readonly number[];
  /** Whether the target network has it too. */
  readonly target: boolean;
  /** Whether its change is part of an update (heads of the objective are not). */
  readonly ships: boolean;
}

/** The content of the graph's metadata. */
export interface StepDescription {
  /** "index_byol": the local index in the projector's place. */
  readonly objective: "index_byol" | "byol";
  /** What is trained. */
  readonly part: "adapter" | "top" | "all";
  /** Online views of each query. */
  readonly views: 2 | 4;
  /** How many of them, from the first on, the target network sees. */
  readonly targetViews: number;
  readonly dimension: number;
  readonly spaceId: string;
  /** Of the encoder.onnx it belongs to. */
  readonly encoderSha256: string;
  readonly state: readonly StateTensor[];
}

/** The description in a graph's metadata. Throws CorruptArtifactError or UnsupportedVersionError. */
export function descriptionOf({ metadata }: OnnxModel, source: string): StepDescription {
  const text = metadata.get(METADATA_KEY);
  if (text === undefined) {
    throw new CorruptArtifactError(
      `${source}: the graph has no metadata ${repr(METADATA_KEY)}, expected a training step; ` +
        "make one with: pocketquery export --training-step",
    );
  }
  const fields = Fields.ofJson(encodeUtf8(text), source);
  fields.choice("format", [FORMAT]);
  const version = fields.integer("version");
  if (version > VERSION) {
    throw new UnsupportedVersionError(
      `${source}: version is ${version}, this release reads up to ${VERSION}; update pocketquery`,
    );
  }
  const description = {
    objective: fields.choice("objective", ["index_byol", "byol"] as const),
    part: fields.choice("part", ["adapter", "top", "all"] as const),
    views: fields.integer("views"),
    targetViews: fields.integer("target_views"),
    dimension: fields.integer("dimension"),
    spaceId: fields.text("space_id"),
    encoderSha256: fields.text("encoder_sha256"),
    state: fields.sequence("state").map((item) => tensorOf(item, source)),
  };
  const { objective, views, targetViews, state } = description;
  const allowed: readonly number[] = VIEWS[objective];
  if (!allowed.includes(views) || targetViews !== TARGET_VIEWS[objective]) {
    throw new CorruptArtifactError(
      `${source}: found ${views} views and ${targetViews} target views, expected ` +
        `${allowed.join(" or ")} and ${TARGET_VIEWS[objective]} for ${objective}`,
    );
  }
  const names = state.map(({ name }) => name);
  if (!state.some(({ ships }) => ships) || new Set(names).size !== names.length) {
    throw new CorruptArtifactError(
      `${source}: found the state ${show(names)}, expected each tensor once, and one at least ` +
        "that ships",
    );
  }
  return { ...description, views: views as 2 | 4 };
}

function tensorOf(item: Json, source: string): StateTensor {
  if (!(item instanceof Map)) {
    throw new CorruptArtifactError(`${source}: state holds no object, expected one a tensor`);
  }
  const fields = new Fields(item as JsonObject, source, "state.");
  const shape = fields.sequence("shape");
  if (!shape.every((length, i) => isInteger(shape, i) && (length as number) >= 1)) {
    throw new CorruptArtifactError(
      `${source}: state: shape ${show(shape)}, expected lengths above 0`,
    );
  }
  return {
    name: fields.text("name"),
    shape: shape as number[],
    target: fields.boolean("target"),
    ships: fields.boolean("ships"),
  };
}

/** The names of the graph's state tensors, with what they are of. */
export function stateNames(
  { state }: StepDescription,
  prefix = "",
): { readonly name: string; readonly kind: Kind; readonly tensor: StateTensor }[] {
  return KINDS.flatMap((kind) =>
    state
      .filter(({ target }) => target || kind !== "target")
      .map((tensor) => ({ name: `${prefix}${kind}.${tensor.name}`, kind, tensor })),
  );
}

/** A type and a shape; null stands for a length that varies. */
type Slot = readonly [type: string, shape: readonly (number | null)[]];

/** Throws CorruptArtifactError where the graph does not take and give what `description` says. */
export function checkStepSignature(
  model: OnnxModel,
  description: StepDescription,
  source: string,
): void {
  const d = description.dimension;
  const [float, int] = ["tensor(float)", "tensor(int64)"];
  const inputs = new Map<string, Slot>([
    ...["online_ids", "online_mask", "target_ids", "target_mask"].map(
      (name): [string, Slot] => [name, [int, [null, null]]],
    ),
    ["anchor", [float, [null, d]]],
    ["shown", [float, [null, null, d]]],
    ["shown_mask", [float, [null, null]]],
    ["opened", [int, [null]]],
    ["opened_weight", [float, [null]]],
    ...SCALARS.map((name): [string, Slot] => [name, [float, []]]),
  ]);
  if (description.objective === "index_byol") inputs.set("prototypes", [float, [null, null, d]]);
  const outputs = new Map<string, Slot>([
    ...LOSSES.map((name): [string, Slot] => [name, [float, []]]),
    ["vectors", [float, [null, d]]],
  ]);
  for (const { name, tensor } of stateNames(description)) inputs.set(name, [float, tensor.shape]);
  for (const { name, tensor } of stateNames(description, "next.")) {
    outputs.set(name, [float, tensor.shape]);
  }
  compare(model.inputs, inputs, `${source}: input`);
  compare(model.outputs, outputs, `${source}: output`);
}

function compare(
  found: readonly ValueInfo[],
  expected: ReadonlyMap<string, Slot>,
  where: string,
): void {
  const byName = new Map(found.map((value) => [value.name, value]));
  for (const name of [...new Set([...expected.keys(), ...byName.keys()])].sort(byCodePoint)) {
    if (expected.has(name) && byName.has(name)) continue;
    const state = expected.has(name) ? "missing" : "unknown";
    throw new CorruptArtifactError(`${where} ${repr(name)} is ${state}; export the bundle again`);
  }
  for (const [name, [type, shape]] of expected) {
    const value = byName.get(name) as ValueInfo;
    // An exporter may leave a fixed length symbolic (a text), never fix one that varies.
    const fits =
      value.shape.length === shape.length &&
      value.shape.every((length, i) => typeof length !== "number" || length === shape[i]);
    if (value.type !== type || !fits) {
      throw new CorruptArtifactError(
        `${where} ${repr(name)} is ${value.type} ${show([...value.shape])}, expected ${type} ` +
          `${show([...shape])} (None varies); export the bundle again`,
      );
    }
  }
}
