/**
 * What a device accepts of an offer, whoever makes it: limits of its own that no server loosens;
 * Python's `client/offer_limits.py`, with the same defaults.
 *
 * An offer decides how many queries a change is computed from and how strongly each shows in it.
 * These limits keep a change from being about few queries; they do not make it anonymous.
 */

import { InvalidInputError } from "../errors.js";
import { checkOptions } from "../texts.js";
import type { LocalConfig } from "../training/local_config.js";

/** The limits; an offer beyond one of them is declined. */
export interface OfferLimits {
  /** Distinct queries that the training must see; for opened results to count, as many of those must have one that is still in the index. */
  readonly leastQueries: number;
  /** With fewer, the change is the last gradient. */
  readonly leastSteps: number;
  readonly mostSteps: number;
  /** Queries a step. */
  readonly leastBatch: number;
  /** How often a query is shown on average. */
  readonly mostRepetitions: number;
  /** L2 norm of the change. */
  readonly largestClip: number;
  readonly largestLearningRate: number;
  /** More of it forgets all steps but the last; so does proximal. */
  readonly largestWeightDecay: number;
  readonly largestProximal: number;
  /** More of it shows the queries with opened results alone. */
  readonly largestOpenedWeight: number;
  /** More of it leaves the pull to the shipped encoder without effect. */
  readonly largestHybridWeight: number;
  /** Share of letters mistyped; above 0, heavy views that may be the query itself are declined, too. */
  readonly leastTypoRate: number;
  /** Below, one query in doubt outweighs all others. */
  readonly leastTemperature: number;
  /** Of the monitor, which stops a release made to react to few queries. */
  readonly largestDrift: number;
  /** Of the monitors of rank and spread. */
  readonly leastKept: number;
}

/** The limits where an app says nothing. */
export const OFFER_LIMITS: OfferLimits = {
  leastQueries: 32,
  leastSteps: 5,
  mostSteps: 100,
  leastBatch: 16,
  mostRepetitions: 10,
  largestClip: 2,
  largestLearningRate: 0.01,
  largestWeightDecay: 0.1,
  largestProximal: 0.1,
  largestOpenedWeight: 1,
  largestHybridWeight: 1,
  leastTypoRate: 0.02,
  leastTemperature: 0.02,
  largestDrift: 0.2,
  leastKept: 0.5,
};

const WHOLE = ["leastQueries", "leastSteps", "mostSteps", "leastBatch", "mostRepetitions"];

/** `given` over the defaults. Throws InvalidInputError: a limit that is none, or an unknown one. */
export function offerLimits(given: Partial<OfferLimits> = {}): OfferLimits {
  for (const [name, value] of Object.entries(checkOptions(given))) {
    const isWhole = WHOLE.includes(name);
    const isRight = isWhole
      ? Number.isInteger(value) && value >= 1
      : typeof value === "number" && Number.isFinite(value) && value >= 0;
    if (!Object.hasOwn(OFFER_LIMITS, name) || !isRight) {
      throw new InvalidInputError(
        `${name} is ${String(value)}, expected one of the limits ${Object.keys(OFFER_LIMITS).join(", ")} ` +
          `and ${isWhole ? "a whole number from 1" : "a number from 0"}`,
      );
    }
  }
  return { ...OFFER_LIMITS, ...given };
}

/** Why a device with so many distinct `queries` declines an offer; null where it does not. */
export function offerRefusal(
  limits: OfferLimits,
  config: LocalConfig,
  clipNorm: number,
  queries: number,
): string | null {
  const shown = config.steps * config.batchSize;
  const rules: [name: string, found: number, bound: "least" | "most", value: number][] = [
    ["steps", config.steps, "least", limits.leastSteps],
    ["batch_size", config.batchSize, "least", limits.leastBatch],
    ["distinct queries to train on", Math.min(queries, shown), "least", limits.leastQueries],
    ["temperature", config.temperature, "least", limits.leastTemperature],
    ["limits.rank_kept", config.limits.rankKept, "least", limits.leastKept],
    ["limits.spread_kept", config.limits.spreadKept, "least", limits.leastKept],
    ["steps", config.steps, "most", limits.mostSteps],
    ["showings of a query", shown / Math.max(queries, 1), "most", limits.mostRepetitions],
    ["clip_norm", clipNorm, "most", limits.largestClip],
    ["learning_rate", config.learningRate, "most", limits.largestLearningRate],
    ["weight_decay", config.weightDecay, "most", limits.largestWeightDecay],
    ["proximal", config.proximal, "most", limits.largestProximal],
    ["opened_loss_weight", config.openedLossWeight, "most", limits.largestOpenedWeight],
    ["hybrid_loss_weight", config.hybridLossWeight, "most", limits.largestHybridWeight],
    ["limits.drift", config.limits.drift, "most", limits.largestDrift],
  ];
  const broken = rules.find(([, found, bound, value]) => {
    return !(bound === "least" ? found >= value : found <= value);
  });
  if (broken !== undefined) return said(...broken);
  return limits.leastTypoRate > 0 ? viewsRefusal(limits, config) : null;
}

function viewsRefusal(limits: OfferLimits, config: LocalConfig): string | null {
  for (const { name, strength } of config.viewPlan(2).heavy) {
    if (strength !== "heavy") return `heavy_views has '${name}', which may leave a query as it is`;
    if (name === "typo" && config.typoRate < limits.leastTypoRate) {
      return said("typo_rate", config.typoRate, "least", limits.leastTypoRate);
    }
  }
  return null;
}

function said(name: string, found: number, bound: "least" | "most", value: number): string {
  const shown = Number(found.toPrecision(6));
  return `${name}: found ${shown}, this device accepts at ${bound} ${Number(value.toPrecision(6))}`;
}
