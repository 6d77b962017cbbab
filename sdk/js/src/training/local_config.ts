/** How a device trains: Python's `client/local_config.py`, checked before anything is computed. */

import { CorruptArtifactError, InvalidInputError } from "../errors.js";
import { isInteger, type Json, type JsonObject, plain } from "../json.js";
import { kindOf, repr, shortened, show } from "../python_text.js";
import { checkOptions } from "../texts.js";
import { checkLimits, type MonitorLimits } from "./monitors.js";
import type { Hyperparameters } from "./step.js";
import { type Augmenter, chosen, viewPlan, type ViewPlan } from "./views.js";

/** The settings; what is not given is as in Python. */
export interface LocalSettings extends Hyperparameters {
  /** Optimiser steps. */
  readonly steps: number;
  /** Queries a step; fewer where the device has fewer. */
  readonly batchSize: number;
  /** Nearest documents of each query to compare it with. */
  readonly nearestPrototypes: number;
  /** Documents drawn from the rest, anew each step. */
  readonly randomPrototypes: number;
  /** Augmenters of the noisy views (names, or objects), one of them drawn for each. */
  readonly heavyViews: readonly (string | Augmenter)[];
  /** The same of the light views, which four-view "byol" alone has. */
  readonly lightViews: readonly (string | Augmenter)[];
  /** Share of the letters that "typo" mistypes. */
  readonly typoRate: number;
  /** After each step the shared tensors go back this share of the way to where training began. */
  readonly proximal: number;
  /**
   * Of the ranking of the device's own index by words and meaning together, as teacher of the ranking by
   * meaning; 0 is off, 1 is on. Not beside openedLossWeight.
   */
  readonly hybridLossWeight: number;
  /** The hybrid's best documents that are ranked; as many random ones beside them. */
  readonly hybridCandidates: number;
  /** Temperature of the hybrid's scores: the lower, the more its first document counts. */
  readonly hybridSharpness: number;
  /**
   * Of this share of the queries, drawn anew each step, the noisy view is taught the hybrid ranking in the
   * place of the clean one, and the anchor left out. Of "index_byol" alone: byol's views predict one another.
   */
  readonly hybridMistyped: number;
  /**
   * "global" starts from the release; "ema" from a mix of it and the device's own last result, the
   * more of its own the further apart they are (Zhuang et al., "Divergence-aware Federated
   * Self-Supervised Learning", equation 3).
   */
  readonly clientInit: "global" | "ema";
  /** That paper's lambda: the share kept is `min(1, initScale * distance)`. */
  readonly initScale: number;
  readonly limits: MonitorLimits;
}

const DEFAULTS: LocalSettings = {
  steps: 10,
  batchSize: 16,
  learningRate: 1e-3,
  temperature: 0.05,
  nearestPrototypes: 50,
  randomPrototypes: 50,
  anchorWeight: 5,
  emaRate: 0.99,
  heavyViews: ["typo"],
  lightViews: ["dropout_view", "noise_case"],
  typoRate: 0.08,
  openedLossWeight: 0,
  hybridLossWeight: 0,
  hybridCandidates: 50,
  hybridSharpness: 0.07,
  hybridMistyped: 0.5,
  proximal: 0,
  clientInit: "global",
  initScale: 1,
  weightDecay: 0,
  beta1: 0.9,
  beta2: 0.999,
  epsilon: 1e-8,
  limits: { rankKept: 0.5, spreadKept: 0.5, drift: 0.2 },
};

const WHOLE: Readonly<Record<string, readonly [least: number, most: number]>> = {
  steps: [1, 10_000],
  batchSize: [1, 1024],
  nearestPrototypes: [1, 1024],
  randomPrototypes: [0, 1024],
  hybridCandidates: [2, 1000],
};
const NUMBERS: typeof WHOLE = {
  learningRate: [Number.MIN_VALUE, 10],
  temperature: [1e-3, 10],
  epsilon: [1e-12, 1],
  anchorWeight: [0, 1000],
  openedLossWeight: [0, 1000],
  hybridLossWeight: [0, 1000],
  hybridSharpness: [1e-3, 10],
  hybridMistyped: [0, 1],
  weightDecay: [0, 10],
  emaRate: [0, 1],
  beta1: [0, 0.999999],
  beta2: [0, 0.999999],
  typoRate: [0, 1],
  proximal: [0, 1],
  initScale: [0, 1e6],
};
const INITS = ["global", "ema"];
const MOST_VIEWS = 32;

/** Checked settings, and how the views are made. */
export interface LocalConfig extends LocalSettings {
  viewPlan(views: 2 | 4): ViewPlan;
}

/** `settings` over the defaults. Throws InvalidInputError, which names the value. */
export function localConfig(settings: Partial<LocalSettings> = {}): LocalConfig {
  const given = Object.entries(checkOptions(settings)).filter(([, value]) => value !== undefined);
  const unknown = given.find(([name]) => !Object.hasOwn(DEFAULTS, name));
  if (unknown) {
    throw new InvalidInputError(
      `found the setting '${unknown[0]}', expected one of ${Object.keys(DEFAULTS).join(", ")}`,
    );
  }
  const config = { ...DEFAULTS, ...Object.fromEntries(given) } as LocalSettings;
  for (const [rules, kind] of [[WHOLE, "a whole number"], [NUMBERS, "a number"]] as const) {
    for (const [name, [least, most]] of Object.entries(rules)) {
      const value: unknown = config[name as keyof LocalSettings];
      const isRight = rules === WHOLE ? Number.isInteger(value) : Number.isFinite(value);
      if (!isRight || (value as number) < least || (value as number) > most) {
        const from = least === Number.MIN_VALUE ? "above 0" : `from ${least}`;
        throw new InvalidInputError(
          `${name} is ${String(value)}, expected ${kind} ${from} to ${most}`,
        );
      }
    }
  }
  if (config.openedLossWeight && config.hybridLossWeight) {
    throw new InvalidInputError(
      `openedLossWeight is ${config.openedLossWeight} and hybridLossWeight ${config.hybridLossWeight}, ` +
        "expected one of them at most: a training step has one place for what is to be found. Set the other to 0",
    );
  }
  if (!INITS.includes(config.clientInit)) {
    throw new InvalidInputError(
      `clientInit is ${shortened(show(config.clientInit))}, expected one of ${INITS.join(", ")}`,
    );
  }
  checkLimits(config.limits);
  const augmenters = (name: "heavyViews" | "lightViews") => {
    const choices: unknown = config[name];
    if (Array.isArray(choices)) return choices.map((choice) => chosen(choice, config.typoRate));
    throw new InvalidInputError(`${name} is ${kindOf(choices)}, expected a list of augmenters`);
  };
  const [heavy, light] = [augmenters("heavyViews"), augmenters("lightViews")];
  const plan = (views: 2 | 4): ViewPlan => viewPlan({ views, heavy, light });
  plan(2);
  return { ...config, viewPlan: plan };
}

/**
 * The settings that a server writes: Python's names, in an object that `parseJson` read.
 *
 * Throws CorruptArtifactError (a name that is none of Python's, no limits) or InvalidInputError (a
 * value out of range; an augmenter that is not here).
 */
export function localConfigOf(found: JsonObject, source: string): LocalConfig {
  const limits = found.get("limits");
  if (!(limits instanceof Map)) {
    throw new CorruptArtifactError(`${source}.limits is no object, expected the monitors' limits`);
  }
  const settings = named(found, Object.keys(DEFAULTS), source);
  for (const name of Object.keys(WHOLE)) {
    if (name in settings && !isInteger(found, written(name))) settings[name] = Number.NaN;
  }
  for (const name of ["heavyViews", "lightViews"]) {
    if (name in settings) checkNames(settings[name], name);
  }
  const checked = { ...DEFAULTS.limits, ...named(limits, Object.keys(DEFAULTS.limits), `${source}.limits`) };
  return localConfig({ ...settings, limits: checked as unknown as MonitorLimits });
}

/** The fields of `found` by JavaScript's names, of those that are in `known`. */
function named(found: JsonObject, known: readonly string[], source: string): Record<string, unknown> {
  const names = new Map(known.map((name) => [written(name), name]));
  return Object.fromEntries(
    [...found].map(([name, value]: [string, Json]) => {
      const own = names.get(name);
      if (own === undefined) {
        throw new CorruptArtifactError(
          `${source}: found ${repr(shortened(name))}, expected some of ${[...names.keys()].join(", ")}`,
        );
      }
      return [own, plain(value)];
    }),
  );
}

/** A setting's name in Python: "batch_size" for "batchSize". */
function written(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function checkNames(value: unknown, name: string): void {
  const areNames = Array.isArray(value) && value.every((one) => typeof one === "string");
  if (!areNames || value.length > MOST_VIEWS) {
    throw new InvalidInputError(
      `${name}: expected names of augmenters, say ["typo"], ${MOST_VIEWS} at most`,
    );
  }
}
