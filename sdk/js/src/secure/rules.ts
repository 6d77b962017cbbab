/**
 * What a device insists on in a private round, whatever the server says; Python's
 * `client/private/rules.py`, where it is proved that these rules hide a device among the honest ones of
 * its neighbours. Each rule says why it is broken, in a sentence for the user's log.
 */

import type { Key } from "../bundle/signature.js";
import { hexadecimal } from "../platform/hashing.js";
import { InvalidInputError } from "../errors.js";
import { checkOptions } from "../texts.js";
import type { Binding, Privacy } from "./binding.js";
import { type Certificate, checkCertificate } from "./certificate.js";
import { type Account, charged, costOf, epsilonOf } from "./ledger.js";
import { type Confirmation, survivorsDigest } from "./messages.js";
import { countedOnOf, LEAST_SIGMA, sigmaOf } from "./noise.js";

/** Of a group, where devices add the noise: that of fewer would be too little. */
const SURVIVING_PERCENT = 80;
const UNIT = 1_000_000;

/** What a device trained on, to be compared with what it is asked to mask. */
export interface Trained {
  readonly federation: Uint8Array;
  readonly round: number;
  /** Hexadecimal digests. */
  readonly releaseSha256: string;
  readonly settingsSha256: string;
  /** Values of the change. */
  readonly size: number;
  /** That the offer asked for. */
  readonly clipNorm: number;
}

/** The rules; a round that breaks one is declined. */
export interface DeviceRules {
  /** "required": a change the server could read alone is not sent; "allowed": it is. */
  readonly secure: "required" | "allowed";
  /** Devices in a group, and survivors of it. */
  readonly least: number;
  /** The same where there is noise. */
  readonly leastNoisy: number;
  /** Where devices add the noise, a group counts as no larger: how large it is no device can check. */
  readonly largestGroup: number;
  /** That each device has, or everybody in a smaller group. */
  readonly neighbours: number;
  /** The share of a device's neighbours that the threshold must withstand. */
  readonly collusion: number;
  /** Rounds between two in which this device masks a change. */
  readonly rest: number;
  /** "devices": only rounds in which devices add noise; "any": also those without. */
  readonly privacy: "devices" | "any";
  /** Smallest noise multiplier, where there is noise. */
  readonly noiseLeast: number;
  /** In a season, at most. */
  readonly participations: number;
  /** How many it takes part in; raise it to let another begin. */
  readonly seasons: number;
  /** What a season may cost, at most. */
  readonly epsilon: number;
  readonly delta: number;
  /** Device keys that are no neighbours any more. */
  readonly revoked: readonly Uint8Array[];
}

/** The rules where an app says nothing. */
export const DEVICE_RULES: DeviceRules = {
  secure: "required",
  least: 20,
  leastNoisy: 100,
  largestGroup: 1000,
  neighbours: 84,
  collusion: 0.19,
  rest: 8,
  privacy: "devices",
  noiseLeast: 2,
  participations: 1,
  seasons: 1,
  epsilon: 4,
  delta: 1e-6,
  revoked: [],
};

const whole = (least: number) => (value: number) => Number.isInteger(value) && value >= least;
const CHECKS: Record<string, (value: never) => boolean> = {
  secure: (value: unknown) => value === "required" || value === "allowed",
  privacy: (value: unknown) => value === "devices" || value === "any",
  least: whole(2),
  leastNoisy: whole(2),
  largestGroup: whole(2),
  neighbours: whole(1),
  rest: whole(1),
  participations: whole(1),
  seasons: whole(1),
  collusion: (value: number) => value >= 0 && value < 1,
  noiseLeast: (value: number) => Number.isFinite(value) && value >= 0,
  epsilon: (value: number) => Number.isFinite(value) && value > 0,
  delta: (value: number) => value > 0 && value < 1,
  revoked: (value: unknown) => Array.isArray(value) && value.every((key) => key instanceof Uint8Array),
};

/** `given` over the defaults. Throws InvalidInputError: a rule out of range, or an unknown one. */
export function deviceRules(given: Partial<DeviceRules> = {}): DeviceRules {
  for (const [name, value] of Object.entries(checkOptions(given))) {
    const isRight = typeof value === typeof DEVICE_RULES[name as keyof DeviceRules] && CHECKS[name]?.(value as never);
    if (!isRight) {
      throw new InvalidInputError(
        `${name} is ${String(value)}, expected one of the rules ${Object.keys(DEVICE_RULES).join(", ")} and a ` +
          "value in its range",
      );
    }
  }
  return { ...DEVICE_RULES, ...given };
}

/**
 * Why not to train for `round`, or null: the rules that can be told from the offer. A device that
 * declines after it said that it is ready spoils the round of its group.
 */
export function ofOffer(rules: DeviceRules, privacy: Privacy, round: number, account: Account): string | null {
  return (
    ofPrivacy(rules, privacy) ??
    ofRest(rules, round, account) ??
    ofBudget(rules, privacy, round, account, costOf(privacy, null))
  );
}

/** Why not to deal boxes in this group, or null; `now` in Unix seconds. */
export function ofInvitation(
  rules: DeviceRules,
  binding: Binding,
  trained: Trained,
  account: Account,
  now: number,
): string | null {
  const { privacy, round, encoding, expiry } = binding;
  const expired = `the round expired at ${expiry} (Unix seconds), and it is ${Math.floor(now)}`;
  return (
    ofTraining(binding, trained) ??
    ofGroup(rules, binding) ??
    ofPrivacy(rules, privacy) ??
    ofNoise(binding) ??
    ofRest(rules, round, account) ??
    ofBudget(rules, privacy, round, account, costOf(privacy, encoding)) ??
    (now >= expiry ? expired : null)
  );
}

/** Why not to deal boxes to these neighbours, or null; `own` is this device's key. */
export async function ofNeighbours(
  rules: DeviceRules,
  binding: Binding,
  own: Uint8Array,
  certificates: readonly Certificate[],
  authority: Key,
  now: number,
): Promise<string | null> {
  const keys = certificates.map(({ key }) => hexadecimal(key));
  if (new Set(keys).size !== keys.length) return "two neighbours have the same device key";
  if (keys.includes(hexadecimal(own))) return "this device's own key is a neighbour's";
  const revoked = rules.revoked.map(hexadecimal).find((key) => keys.includes(key));
  if (revoked !== undefined) return `the neighbour ${revoked} is revoked`;
  try {
    await Promise.all(certificates.map((one) => checkCertificate(one, authority, binding.federation, now)));
    return null;
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    return error.message;
  }
}

/** Why not to mask with `boxes` neighbours, or null. */
export function ofCollection(binding: Binding, boxes: number): string | null {
  if (boxes >= binding.threshold) return null;
  return `boxes of ${boxes} neighbours came, expected at least ${binding.threshold}`;
}

/**
 * Why not to confirm these survivors, or null; `held` are the neighbours, by position, whose boxes
 * this device holds, `near` all of them.
 */
export function ofConfirmation(
  rules: DeviceRules,
  binding: Binding,
  position: number,
  near: readonly number[],
  held: readonly number[],
  said: Confirmation,
): string | null {
  const [committed, survivors] = [new Set(said.committed), new Set(said.survivors)];
  const wanted = survivorsDigest(binding, said.committed, said.survivors);
  if (hexadecimal(said.digest) !== hexadecimal(wanted)) return "the digest of the survivors is another's";
  if (!survivors.has(position) || !committed.has(position)) return "this device itself is not among the survivors";
  if (![...survivors].every((one) => committed.has(one))) return "there are survivors that were not committed";
  const dealt = near.filter((one) => committed.has(one));
  if (dealt.length !== held.length || !dealt.every((one) => held.includes(one))) {
    return "the committed neighbours are not those whose boxes came";
  }
  const surviving = near.filter((one) => survivors.has(one)).length;
  if (surviving < binding.threshold) return `${surviving} neighbours survive, expected at least ${binding.threshold}`;
  const least = leastSurvivors(rules, binding);
  return survivors.size < least ? `${survivors.size} devices survive, expected at least ${least}` : null;
}

/** Why not to reveal shares where so many neighbours `confirmed` this device's own view, or null. */
export function ofUnmasking(binding: Binding, confirmed: number): string | null {
  if (confirmed >= binding.threshold) return null;
  return `${confirmed} neighbours confirmed the survivors, expected at least ${binding.threshold}`;
}

/** How many of the group must have sent a masked change. */
export function leastSurvivors(rules: DeviceRules, { privacy, size }: Binding): number {
  const least = leastOf(rules, privacy);
  return privacy.mode !== "off" ? Math.max(least, Math.ceil((size * SURVIVING_PERCENT) / 100)) : least;
}

function leastOf(rules: DeviceRules, privacy: Privacy): number {
  return privacy.mode === "off" ? rules.least : Math.max(rules.least, rules.leastNoisy);
}

function ofTraining(binding: Binding, trained: Trained): string | null {
  const { encoding } = binding;
  const compared: [name: string, found: unknown, wanted: unknown][] = [
    ["release", binding.releaseSha256, trained.releaseSha256],
    ["settings", binding.settingsSha256, trained.settingsSha256],
    ["number of values", encoding.size, trained.size],
    ["clip_norm", encoding.clip, trained.clipNorm],
  ];
  const other = compared.find(([, found, wanted]) => found !== wanted);
  if (other === undefined) return null;
  return `${other[0]}: found ${String(other[1])}, but this device trained on ${String(other[2])}`;
}

function ofGroup(rules: DeviceRules, binding: Binding): string | null {
  const { size, neighbours, threshold } = binding;
  const least = leastOf(rules, binding.privacy);
  if (size < least) return `the group has ${size} devices, expected at least ${least}`;
  const near = Math.min(size - 1, rules.neighbours);
  if (neighbours < near) return `each device has ${neighbours} neighbours, expected at least ${near}`;
  if (2 * threshold <= neighbours + Math.floor(rules.collusion * neighbours)) {
    return `the threshold is ${threshold} of ${neighbours} neighbours, which does not withstand ${rules.collusion} of them`;
  }
  return null;
}

function ofPrivacy(rules: DeviceRules, { mode, noiseMultiplier, countedOn }: Privacy): string | null {
  if (rules.privacy === "devices" && mode !== "devices") {
    return `the noise is '${mode}', this device accepts its own alone`;
  }
  if (mode !== "off" && noiseMultiplier < rules.noiseLeast) {
    return `the noise multiplier is ${noiseMultiplier}, this device accepts at least ${rules.noiseLeast}`;
  }
  const most = countedOnOf(rules.largestGroup);
  if (countedOn > most) {
    return (
      `noise of ${countedOn} devices is counted on, this device accepts at most ${most}: its ` +
      `largest-group is ${rules.largestGroup}`
    );
  }
  return null;
}

function ofNoise({ privacy, size, encoding }: Binding): string | null {
  if (privacy.mode === "off") return null;
  const honest = countedOnOf(size);
  if (privacy.countedOn > honest) {
    return `noise of ${privacy.countedOn} devices is counted on, expected at most ${honest}`;
  }
  const deviation = sigmaOf(privacy.noiseMultiplier, encoding, privacy.countedOn);
  return deviation < LEAST_SIGMA ? `the noise is of ${deviation} steps, expected at least ${LEAST_SIGMA}` : null;
}

function ofRest(rules: DeviceRules, round: number, { lastMasked }: Account): string | null {
  if (lastMasked === null || round >= lastMasked + rules.rest) return null;
  return `round ${round}: this device took part in round ${lastMasked} and rests for ${rules.rest}`;
}

function ofBudget(
  rules: DeviceRules,
  privacy: Privacy,
  round: number,
  account: Account,
  cost: number,
): string | null {
  if (privacy.mode === "off") return null;
  const after = charged(account, round, privacy, cost);
  const most = Math.min(rules.participations, privacy.participations);
  if (after.participations > most) {
    return `this device took part ${account.participations} times in the season, of ${most}`;
  }
  if (after.seasons > rules.seasons) {
    return (
      `the season '${privacy.season}' would be the ${after.seasons}. of this device, it allows ` +
      `${rules.seasons}; raise seasons to go on`
    );
  }
  const spent = epsilonOf(after.spent / UNIT, rules.delta);
  if (spent <= rules.epsilon) return null;
  return `the season would have cost epsilon ${spent.toFixed(2)} at delta ${rules.delta}, of ${rules.epsilon}`;
}
