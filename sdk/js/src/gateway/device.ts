/**
 * One device's life in a round: may it train, on what, and what does it send back? Python's
 * `client/device.py`. It knows no transport: an offer comes in, an answer goes out.
 */

import { fromEnd } from "../platform/lists.js";
import type { AdapterRelease } from "../bundle/adapter.js";
import type { AdapterTensor, AdapterTensors } from "../bundle/adapter_tensors.js";
import type { Manifest } from "../bundle/manifest.js";
import { PocketQueryError } from "../errors.js";
import { checkOptions, type Names } from "../texts.js";
import { distinct } from "../store/example.js";
import { type QueryStore, ROUNDS } from "../store/store.js";
import type { ShippedEncoder } from "../training/batches.js";
import type { DocumentVectors } from "../training/documents.js";
import type { LocalStep } from "../training/step.js";
import { type LocalResult, trainLocally } from "../training/training.js";
import type { Offer } from "./offer.js";
import { type OfferLimits, offerLimits, offerRefusal } from "./offer_limits.js";
import { checkPolicy, guard, type Policy, type Readings } from "./policy.js";
import { type ClientState, fitting, RoundMemory } from "./round_memory.js";
import type { TrustedReleases } from "./trusted_releases.js";
import { boundedWeight, encodeUpdate } from "./update.js";

const LARGEST_FIGURE = 1000;
const NO_CONSENT = "the user has not consented, or has withdrawn the consent";
const ERASED = "the user erased queries since the training began";
const PRIVATE_ONLY = "this device takes part in private rounds alone, and a plain one was offered";
const PRIVATE =
  "a private round (a secure sum) was offered, which a Participant of pocketquery/secure takes part in";

/** What a device sends. */
export interface Contribution {
  readonly update: Uint8Array;
  /** How the training went, to four digits and bounded; empty where the device keeps it to itself. */
  readonly figures: Readonly<Record<string, number>>;
}

/** The device sends nothing. Why is told to the user alone: it may say something of them. */
export interface Declined {
  readonly declined: string;
}

/** What can take part in rounds: a `Device`. */
export interface Answering {
  answer(offer: Offer, release: Uint8Array): Promise<Contribution | Declined>;
}

/** A training for a round that came to its end; nothing of it was kept or sent yet. */
export interface Training {
  /** Of the store that was trained on. */
  readonly epoch: string;
  /** New minus given value of every tensor that ships. */
  readonly change: AdapterTensors;
  /** What it began from. */
  readonly release: AdapterRelease;
  readonly memory: RoundMemory;
  /** What the round before left. */
  readonly before: ClientState;
  /** Names encoder, release and round. */
  readonly roundKey: string;
  readonly result: LocalResult;
  readonly adapter: AdapterTensors;
}

export interface DeviceOptions {
  /** The shipped encoder, with the bundle's own adapter: its vectors are the anchor. */
  readonly encoder: ShippedEncoder;
  /** The training step of the same encoder. */
  readonly step: LocalStep;
  /** The device's documents: `index.vectors()`. */
  readonly documents: DocumentVectors;
  /** Of the bundle. */
  readonly manifest: Manifest;
  /** The user's queries, and what is kept between rounds. */
  readonly store: QueryStore;
  /** Which releases it trains from. */
  readonly releases: TrustedReleases;
  /** When it may train, over the policy of a phone. */
  readonly policy?: Partial<Policy>;
  /** What the device says of itself; absent: nothing. */
  readonly readings?: Readings | null;
  /** What it accepts of an offer, whoever makes it, over the defaults. */
  readonly limits?: Partial<OfferLimits>;
  /** Whether the server is told how the training went. */
  readonly figures?: boolean;
  /** False: no change that the server can read is sent; a Participant of pocketquery/secure takes part. */
  readonly plain?: boolean;
  /** Told after each step how many are done, of how many. */
  readonly onStep?: (done: number, steps: number) => void;
  readonly signal?: AbortSignal;
}

const DEVICE_OPTIONS: Names<DeviceOptions> = {
  encoder: true,
  step: true,
  documents: true,
  manifest: true,
  store: true,
  releases: true,
  policy: true,
  readings: true,
  limits: true,
  figures: true,
  plain: true,
  onStep: true,
  signal: true,
};

/** A device that takes part in rounds. */
export class Device implements Answering {
  readonly #options: DeviceOptions;
  readonly #policy: Policy;
  readonly #limits: OfferLimits;

  /** Throws InvalidInputError: a limit or a condition that is none, an unknown option. */
  constructor(options: DeviceOptions) {
    this.#options = checkOptions(options, DEVICE_OPTIONS);
    this.#policy = checkPolicy(options.policy);
    this.#limits = offerLimits(options.limits);
  }

  /**
   * Take part in a round, or decline.
   *
   * Asked again in the same round, it gives the same nonce, so that it counts once; and to the same
   * offer the same bytes. It declines where there is no consent, where the offer is beyond the
   * device's own limits or of a private round, where the store holds too few distinct queries, where
   * the policy says so now or during the training, where the monitors stop it, where the user erased
   * queries meanwhile, and where the offer is for another encoder, was tampered with, or brings
   * another release than the one in force.
   */
  async answer(offer: Offer, release: Uint8Array): Promise<Contribution | Declined> {
    if (offer.announcement.length > 0) return { declined: PRIVATE };
    if (this.#options.plain === false) return { declined: PRIVATE_ONLY };
    try {
      return await this.#answer(offer, release);
    } catch (error) {
      if (error instanceof PocketQueryError) return { declined: error.message };
      throw error;
    }
  }

  async #answer(offer: Offer, data: Uint8Array): Promise<Contribution | Declined> {
    const training = await this.train(offer, data);
    // 4. Keep what the next round needs, and send, where the user has not erased it meanwhile.
    return "declined" in training ? training : this.#contribution(offer, training);
  }

  /**
   * Train as `offer` says, where consent, limits and policy allow it: what plain and private rounds
   * have in common. Nothing of it is kept: before anything leaves the device, `forgotten` must be
   * asked.
   *
   * Throws a PocketQueryError: the offer is for another encoder, was tampered with, or holds settings
   * out of range.
   */
  async train(offer: Offer, data: Uint8Array): Promise<Training | Declined> {
    const { store, releases, manifest, step, documents, encoder, onStep, signal } = this.#options;
    // 1. May it? A query counts once, however often it was searched for.
    if (!(await store.consent())) return { declined: NO_CONSENT };
    await store.tidy(); // what expired is not trained on, however long the store has been open
    const epoch = await store.epoch(); // read first: what is erased from here on, changes it
    const examples = distinct(await store.examples());
    const may = guard(this.#policy, this.#options.readings ?? null, examples.length);
    const { config, clipNorm } = offer;
    const { viewPlan, ...settings } = config;
    const refused = (await may()) ?? offerRefusal(this.#limits, config, clipNorm, examples.length);
    if (refused !== null) return { declined: refused };
    // 2. From where?
    const release = await releases.releaseForTraining(data, offer.lineage, manifest);
    const roundKey = `${release.encoderSha256} ${release.version} ${offer.round}`;
    const memory = await RoundMemory.of(store, epoch);
    if (memory === null) return { declined: (await this.forgotten(epoch)) ?? ERASED };
    const before = fitting(memory.recall(roundKey), release.tensors);
    // 3. Train.
    const result = await trainLocally({
      encoder,
      step,
      examples,
      documents,
      adapter: release.tensors,
      config: settings,
      leastOpened: this.#limits.leastQueries,
      previous: before.adapter.size > 0 ? before.adapter : null,
      seed: await memory.seed(`${roundKey} ${offer.digest} ${offer.releaseSha256}`),
      mayContinue: async () => (await this.forgotten(epoch)) ?? may(),
      ...(onStep && { onStep }),
      ...(signal && { signal }),
    });
    const { adapter } = result;
    if (adapter === null) return { declined: result.stopped ?? "the training was stopped" };
    const change = difference(adapter, release.tensors);
    return { epoch, change, release, memory, before, roundKey, result, adapter };
  }

  /** Why what was read from the store in this epoch may not be used any more, or null. */
  async forgotten(epoch: string): Promise<string | null> {
    const { store } = this.#options;
    if (!(await store.consent())) return NO_CONSENT;
    return (await store.epoch()) === epoch ? null : ERASED;
  }

  async #contribution(offer: Offer, training: Training): Promise<Contribution | Declined> {
    const { change, release, result, adapter, memory, before, roundKey, epoch } = training;
    const { data: update, residual } = encodeUpdate(change, {
      header: {
        spaceId: release.spaceId,
        encoderSha256: release.encoderSha256,
        baseVersion: release.version,
        round: offer.round,
        nonce: await memory.nonce(roundKey),
        weight: boundedWeight(result.examples, offer.largestWeight),
      },
      clipNorm: offer.clipNorm,
      residual: before.residual.size > 0 ? before.residual : null,
      compress: offer.compress,
    });
    const ended: AdapterTensors = offer.config.clientInit === "ema" ? adapter : new Map();
    if (!(await memory.keep(roundKey, { residual, adapter: ended }))) {
      return { declined: (await this.forgotten(epoch)) ?? ERASED };
    }
    return { update, figures: this.#options.figures === false ? {} : figuresOf(result) };
  }
}

/** Forget what a device keeps between rounds: it begins anew, as another device would. */
export async function forgetRounds(store: QueryStore): Promise<void> {
  await store.dropKept(ROUNDS);
}

function difference(now: AdapterTensors, then: AdapterTensors): AdapterTensors {
  return new Map(
    [...now].map(([name, { shape, data }]) => {
      const old = (then.get(name) as AdapterTensor).data;
      return [name, { shape, data: data.map((value, i) => value - (old[i] as number)) }];
    }),
  );
}

function figuresOf({ losses, health }: LocalResult): Record<string, number> {
  const found = { loss: fromEnd(losses)?.loss, drift: health?.drift, effective_rank: health?.effectiveRank };
  const told = Object.entries(found).filter(([, value]) => Number.isFinite(value));
  return Object.fromEntries(
    told.map(([name, value]) => {
      const bounded = Math.min(Math.max(value as number, -LARGEST_FIGURE), LARGEST_FIGURE);
      return [name, Number(bounded.toFixed(4))];
    }),
  );
}
