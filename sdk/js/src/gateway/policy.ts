/**
 * When a device may train: idle, charging, on an unmetered network, cool, with enough queries;
 * Python's `client/policy.py`.
 *
 * A condition on something that nobody could read is not met, unless the policy lists it as one that
 * may be unknown. A page knows little of its device: an app in a web view can tell more.
 */

import { InvalidInputError } from "../errors.js";
import { show } from "../python_text.js";
import { checkCount, checkOptions } from "../texts.js";

/** What a device says of itself at one moment; null is "unknown". */
export interface DeviceReading {
  /** The user is not using it, and nothing else keeps its processor busy. */
  readonly idle: boolean | null;
  /** On mains power. */
  readonly charging: boolean | null;
  /** The network that it is in costs nothing by the byte. */
  readonly unmetered: boolean | null;
  /** Degrees Celsius of what must stay cool. */
  readonly temperatureC: number | null;
}

/** Where readings come from; what cannot be read is null, it does not throw. */
export interface Readings {
  read(): DeviceReading | Promise<DeviceReading>;
}

/** The conditions. */
export interface Policy {
  readonly idle: boolean;
  readonly charging: boolean;
  readonly unmetered: boolean;
  /** Null: at any temperature. */
  readonly maxTemperatureC: number | null;
  /** Only with that many queries or more. */
  readonly minExamples: number;
  /** How long one training may take; null: as long as it takes. */
  readonly maxSeconds: number | null;
  /** Readings whose condition counts as met where they are unknown. */
  readonly allowUnknown: readonly (keyof DeviceReading)[];
}

/** For a phone. */
export const PHONE_POLICY: Policy = {
  idle: true,
  charging: true,
  unmetered: true,
  maxTemperatureC: 45,
  minExamples: 16,
  maxSeconds: 600,
  allowUnknown: [],
};

/** No condition but one query; for machines that do nothing else. */
export const ALWAYS_POLICY: Policy = {
  idle: false,
  charging: false,
  unmetered: false,
  maxTemperatureC: null,
  minExamples: 1,
  maxSeconds: null,
  allowUnknown: [],
};

const UNKNOWN: DeviceReading = { idle: null, charging: null, unmetered: null, temperatureC: null };
const EVERY = 1; // second between two readings

/** `given` over the policy of a phone. Throws InvalidInputError. */
export function checkPolicy(given: Partial<Policy> = {}): Policy {
  const policy = { ...PHONE_POLICY, ...checkOptions(given) };
  const { maxTemperatureC: limit, maxSeconds } = policy;
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(PHONE_POLICY, name));
  const { allowUnknown } = policy;
  const strange = Array.isArray(allowUnknown)
    ? allowUnknown.find((name) => !Object.hasOwn(UNKNOWN, name))
    : `allowUnknown ${show(allowUnknown)}, which is no list`;
  const flags = [policy.idle, policy.charging, policy.unmetered];
  checkCount(policy.minExamples, "minExamples");
  if (unknown !== undefined || strange !== undefined || flags.some((flag) => typeof flag !== "boolean")) {
    throw new InvalidInputError(
      `the policy has ${unknown ?? strange ?? "a condition that is neither true nor false"}, expected ` +
        `the conditions ${Object.keys(PHONE_POLICY).join(", ")} and in allowUnknown some of ` +
        Object.keys(UNKNOWN).join(", "),
    );
  }
  if (limit !== null && !Number.isFinite(limit)) {
    throw new InvalidInputError(`maxTemperatureC is ${limit}, expected degrees Celsius, or null`);
  }
  if (maxSeconds !== null && !(maxSeconds > 0 && maxSeconds < Number.POSITIVE_INFINITY)) {
    throw new InvalidInputError(`maxSeconds is ${maxSeconds}, expected seconds above 0, or null`);
  }
  return policy;
}

/** Why the device may not train now with so many queries; null where it may. */
export async function policyRefusal(
  policy: Policy,
  readings: Readings | null,
  examples: number,
): Promise<string | null> {
  if (examples < policy.minExamples) {
    return `${examples} queries to learn from, at least ${policy.minExamples} are needed`;
  }
  const { idle, charging, unmetered, maxTemperatureC: limit } = policy;
  if (!(idle || charging || unmetered || limit !== null)) return null;
  const reading = (await readings?.read()) ?? UNKNOWN;
  const may = (name: keyof DeviceReading): boolean => policy.allowUnknown.includes(name);
  const conditions = [
    [idle, "idle", "in use"],
    [charging, "charging", "not charging"],
    [unmetered, "unmetered", "on a metered network"],
  ] as const;
  for (const [wanted, name, otherwise] of conditions) {
    if (wanted && reading[name] === null && !may(name)) return unread(name);
    if (wanted && reading[name] === false) return `the device is ${otherwise}`;
  }
  const found = reading.temperatureC;
  if (limit === null) return null;
  if (found === null || !Number.isFinite(found)) return may("temperatureC") ? null : unread("temperatureC");
  return found > limit ? `the device is at ${found.toFixed(1)} °C, at most ${limit} are allowed` : null;
}

/**
 * The policy during a training; called between its steps, it says why to stop, or null. Readings are
 * taken once a second at the most, and once it has said stop, it keeps saying so.
 */
export function guard(
  policy: Policy,
  readings: Readings | null,
  examples: number,
  clock: () => number = () => performance.now() / 1000,
): () => Promise<string | null> {
  const begun = clock();
  let read = Number.NEGATIVE_INFINITY;
  let reason: string | null = null;
  return async () => {
    const now = clock();
    if (policy.maxSeconds !== null && now - begun > policy.maxSeconds) {
      reason ??= `the training takes longer than ${policy.maxSeconds} s`;
    }
    if (reason === null && now - read >= EVERY) {
      read = now;
      reason = await policyRefusal(policy, readings, examples);
    }
    return reason;
  };
}

/**
 * What a page can tell of its device: whether it charges (the Battery API, where there is one) and
 * whether its network is metered (the Network Information API, on phones). Idleness and temperature
 * are beyond a page.
 */
export class PageReadings implements Readings {
  async read(): Promise<DeviceReading> {
    const device = globalThis.navigator as unknown as Device | undefined;
    const battery = await device?.getBattery?.().catch(() => null);
    return {
      ...UNKNOWN,
      charging: battery?.charging ?? null,
      unmetered: unmeteredBy(device?.connection),
    };
  }
}

interface Device {
  getBattery?(): Promise<{ readonly charging: boolean }>;
  readonly connection?: { readonly saveData?: boolean; readonly type?: string };
}

function unmeteredBy(connection: Device["connection"]): boolean | null {
  if (connection?.saveData || connection?.type === "cellular") return false;
  return connection?.type === "wifi" || connection?.type === "ethernet" ? true : null;
}

function unread(name: string): string {
  return `${name} is unknown on this device, and the policy's allowUnknown does not list it`;
}
