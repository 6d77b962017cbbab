/**
 * A device that takes part until it is stopped, whatever answers in its gateway's place; Python's
 * `pocketquery join`.
 */

import type { Manifest } from "../bundle/manifest.js";
import { InvalidInputError, MissingExtraError } from "../errors.js";
import { checkOptions, type Names } from "../texts.js";
import { RefusedError } from "./connection.js";
import type { Answering } from "./device.js";
import type { Outcome, Participation, Take } from "./participation.js";
import type { TrustedReleases } from "./trusted_releases.js";

const LEAST_WAIT = 1;
const FIRST_PAUSE = 30;
const LONGEST_PAUSE = 900;
const LONGEST_ASKED = 3600;

export interface JoinOptions {
  /** Made only for an offer. */
  readonly device: () => Promise<Answering>;
  readonly manifest: Manifest;
  readonly releases: TrustedReleases;
  /** Takes a release up: `(release) => encoder.swapAdapter(release)`. */
  readonly take?: Take;
  /** Ends it; without, it ends with the page. */
  readonly signal?: AbortSignal;
  /** Told the result of each turn. */
  readonly onOutcome?: (outcome: Outcome) => void;
  /** Told what failed, say an answer that no gateway gives; it is asked again after a pause. */
  readonly onFailure?: (error: unknown) => void;
  readonly sleep?: (seconds: number) => Promise<void>;
  /** A number from 0 to 1, for how long it waits. */
  readonly random?: () => number;
}

const JOIN_OPTIONS: Names<JoinOptions> = {
  device: true,
  manifest: true,
  releases: true,
  take: true,
  signal: true,
  onOutcome: true,
  onFailure: true,
  sleep: true,
  random: true,
};

/**
 * Ask for offers, take part, and take up what is released, until `signal` aborts: `participation`
 * needs a connection with the same signal to end at once.
 *
 * Nothing that a gateway, or what is in its place, answers ends it: `onFailure` is told, nothing of it
 * is put in force, and the gateway is asked again after a pause that grows to a quarter of an hour.
 *
 * Where the gateway wants an attestation, `onFailure` gets a RefusedError that says so: give it to
 * `participation.register`.
 *
 * Throws InvalidInputError or MissingExtraError: the device cannot be made as the app says.
 */
export async function join(participation: Participation, options: JoinOptions): Promise<void> {
  const { device, manifest, releases, take, signal, onOutcome, onFailure } = checkOptions(options, JOIN_OPTIONS);
  const { sleep = pauseFor, random = Math.random } = options;
  let local: unknown = null;
  const made = async (): Promise<Answering> => {
    try {
      return await device();
    } catch (error) {
      local = error;
      throw error;
    }
  };
  for (let missed = 0; !signal?.aborted; ) {
    const failures: unknown[] = [];
    let wait = LEAST_WAIT;
    const attempt = async (work: () => Promise<void>): Promise<void> => {
      try {
        await work();
      } catch (error) {
        failures.push(error);
      }
    };
    await attempt(async () => {
      const outcome = await participation.takePart(made);
      wait = Math.max(wait, outcome.retryAfter);
      onOutcome?.(outcome);
    });
    await attempt(async () => void (await participation.refresh(manifest, releases, take)));
    if (signal?.aborted) return;
    for (const error of failures) {
      const isConfiguration = error instanceof InvalidInputError || error instanceof MissingExtraError;
      if (error === local && isConfiguration) throw error;
      if (!isNoRelease(error)) onFailure?.(error);
    }
    const asks = failures.map((error) => (error instanceof RefusedError ? Math.min(LONGEST_ASKED, error.retryAfter) : 0));
    if (failures.every(isNoRelease)) missed = 0;
    else {
      const pause = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** Math.min(missed++, 9));
      wait = Math.max(pause, ...asks) * (1 + random() / 2); // so that devices do not come back at once
    }
    await orAborted(sleep(wait), signal);
  }
}

function isNoRelease(error: unknown): boolean {
  return error instanceof RefusedError && error.code === "no_release";
}

function pauseFor(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
}

/** Not a moment longer than until the signal aborts. */
function orAborted(work: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => resolve();
    signal?.addEventListener("abort", stop, { once: true });
    void work.then(resolve, reject).finally(() => signal?.removeEventListener("abort", stop));
  });
}
