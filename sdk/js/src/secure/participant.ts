/**
 * A device's part in private rounds: a state, a message, the next state kept, then the reply; Python's
 * `client/private/participant.py`.
 *
 * Every arrow from ready over shared, masked and confirmed to revealed is written before the reply
 * leaves. A message that was answered is answered again with the stored bytes; one for a later stage,
 * or of another round, is declined. Where a rule is broken the device declines and forgets the round.
 * Whatever it was, the server is told nothing but that the device declines.
 */

import { type Key, rawKey } from "../bundle/signature.js";
import { hexadecimal, sha256 } from "../platform/hashing.js";
import { InvalidInputError, PocketQueryError } from "../errors.js";
import { concatenated } from "../files/bytes.js";
import type { AgreementKey } from "../gateway/agreement.js";
import type { Answering, Contribution, Declined, Training } from "../gateway/device.js";
import type { Offer } from "../gateway/offer.js";
import type { DevicePlace } from "../gateway/place.js";
import type { PrivateAnswering, Standing } from "../gateway/private_round.js";
import { byCodePoint } from "../python_text.js";
import { checkOptions, type Names } from "../texts.js";
import type { QueryStore } from "../store/store.js";
import { encodeUtf8 } from "../utf8.js";
import type { Binding } from "./binding.js";
import { type Certificate, checkCertificate, parseCertificate } from "./certificate.js";
import { exclusively } from "./exclusively.js";
import { RoundSecret } from "./keys.js";
import { Ledger } from "./ledger.js";
import {
  parseAnnouncement, parseCollection, parseConfirmation, parseInvitation, parseUnmasking, STAGE,
} from "./messages.js";
import { readyReply } from "./ready.js";
import { neighboursOf } from "./ring.js";
import {
  type DeviceRules, deviceRules, ofCollection, ofConfirmation, ofInvitation, ofNeighbours, ofOffer, ofUnmasking,
} from "./rules.js";
import { confirm, countConfirms, deal, holders, mask, openBoxes, reveal, Seat } from "./stages.js";
import { PROGRESS, type SecureState, StateFile, UNDEALT } from "./state.js";

const KEPT_SECONDS = 86_400; // that anything of a round stays on the device, at most
const OTHER_ROUND = "the message is of another round than the one that this device is in";
const PRIVATE_ONLY = "this device takes part in private rounds alone, and a plain one was offered";

/** What trains, by the user's consent: a `Device`. */
export interface Trainer extends Answering {
  train(offer: Offer, release: Uint8Array): Promise<Training | Declined>;
  /** Why what was trained in this epoch may not be used any more, or null. */
  forgotten(epoch: string): Promise<string | null>;
}

export interface ParticipantOptions {
  readonly device: Trainer;
  /** The query store that the device trains on; it keeps where the round stands. */
  readonly store: QueryStore;
  /** Where the device's key and its ledger lie. */
  readonly place: DevicePlace;
  /** The authority's word for the key, 100 bytes. */
  readonly certificate: Uint8Array;
  /** Ed25519 public key of the enrolment authority, pinned: never of a message. */
  readonly authority: Key;
  /** What the device insists on, over the defaults. */
  readonly rules?: Partial<DeviceRules>;
  /** Unix seconds. */
  readonly clock?: () => number;
  /** 32 random bytes for a binding's digest; a simulation gives its own. */
  readonly drawSecret?: (beta: Uint8Array) => Uint8Array;
}

const PARTICIPANT_OPTIONS: Names<ParticipantOptions> = {
  device: true,
  store: true,
  place: true,
  certificate: true,
  authority: true,
  rules: true,
  clock: true,
  drawSecret: true,
};

/** A device in private rounds. */
export class Participant implements PrivateAnswering {
  readonly #options: ParticipantOptions;
  readonly #key: AgreementKey;
  readonly #certificate: Certificate;
  readonly #rules: DeviceRules;
  readonly #file: StateFile;
  readonly #ledger: Ledger;
  readonly #clock: () => number;
  #last: Seat | null = null; // of the stage before, with what was agreed there

  private constructor(options: ParticipantOptions, key: AgreementKey, certificate: Certificate) {
    this.#options = { ...options, authority: rawKey(options.authority) };
    this.#key = key;
    this.#certificate = certificate;
    this.#rules = deviceRules(options.rules);
    this.#file = new StateFile(options.store);
    this.#ledger = new Ledger(options.place);
    this.#clock = options.clock ?? (() => Date.now() / 1000);
  }

  /**
   * The participant whose key lies at `place`. Throws InvalidInputError: a rule out of range, or a
   * certificate of another key. MissingExtraError: the platform has no X25519.
   */
  static async open(options: ParticipantOptions): Promise<Participant> {
    checkOptions(options, PARTICIPANT_OPTIONS);
    const key = await options.place.deviceKey();
    const certificate = parseCertificate(options.certificate);
    if (hexadecimal(certificate.key) !== hexadecimal(key.publicKey)) {
      throw new InvalidInputError(
        `the certificate is of the device key ${hexadecimal(certificate.key)}, but this device's is ` +
          `${hexadecimal(key.publicKey)}; have this one certified`,
      );
    }
    return new Participant(options, key, certificate);
  }

  /** A plain round: the device's answer, where the rules allow one. */
  async answer(offer: Offer, release: Uint8Array): Promise<Contribution | Declined> {
    if (this.#rules.secure === "required") return { declined: PRIVATE_ONLY };
    return this.#options.device.answer(offer, release);
  }

  /**
   * Where this device stands: the round, the last stage that it answered, and how; null: in none. A
   * round that expired, or whose queries the user erased, is forgotten.
   */
  async standing(): Promise<Standing | null> {
    return this.#exclusively(async () => {
      const state = await this.#file.load();
      if (state === null || (await this.#over(state)) !== null) return null;
      const { progress: stage, trained, replies } = state;
      return { round: trained.round, stage, reply: replies.get(stage) as Uint8Array };
    });
  }

  /** Forget `round`, for which no more comes; another one stays. */
  async giveUp(round: number): Promise<void> {
    await this.#exclusively(async () => {
      if ((await this.#file.load())?.trained.round === round) await this.#forget();
    });
  }

  /**
   * The body of the reply to a stage's message, or why there is none, for the user's log; `offered`:
   * what to train on, with the first stage alone.
   */
  async answerStage(
    stage: number,
    body: Uint8Array,
    offered: { readonly offer: Offer; readonly release: Uint8Array } | null = null,
  ): Promise<Uint8Array | Declined> {
    try {
      return await this.#exclusively(() => this.#answer(stage, body, offered));
    } catch (error) {
      if (error instanceof PocketQueryError) return { declined: error.message };
      throw error;
    }
  }

  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    return exclusively(this.#options.place.name, work);
  }

  async #answer(
    stage: number,
    body: Uint8Array,
    offered: { readonly offer: Offer; readonly release: Uint8Array } | null,
  ): Promise<Uint8Array | Declined> {
    const state = await this.#file.load();
    const over = state === null ? null : await this.#over(state);
    if (stage === STAGE.offer) return this.#train(over === null ? state : null, body, offered);
    if (over !== null) return { declined: over };
    if (state === null) return { declined: "this device is in no round" };
    const asked = await sha256(body);
    if (stage <= state.progress) return again(state, stage, asked);
    const steps = [this.#deal, this.#mask, this.#confirm, this.#reveal];
    const step = steps[stage - STAGE.invite];
    if (stage !== state.progress + 1 || step === undefined) {
      return { declined: `stage ${stage} came, but this device is ${PROGRESS[state.progress]}` };
    }
    const after = await step.call(this, state, body);
    return "declined" in after ? after : this.#keep(after, stage, asked);
  }

  /** Why the round of `state` is over for this device, and then forgotten; or null. */
  async #over(state: SecureState): Promise<string | null> {
    const expired = `the round expired at ${Math.floor(state.keptUntil)} (Unix seconds)`;
    const reason =
      (await this.#options.device.forgotten(state.epoch)) ?? (this.#clock() >= state.keptUntil ? expired : null);
    if (reason !== null) await this.#forget();
    return reason;
  }

  /** The reply that `state` holds, once it is kept and the user has not erased the queries meanwhile. */
  async #keep(state: SecureState, stage: number, asked: string): Promise<Uint8Array | Declined> {
    const next = { ...state, asked: new Map([...state.asked, [stage, asked]]) };
    const isKept = await this.#file.keep(next);
    const reason = await this.#options.device.forgotten(state.epoch);
    if (!isKept || reason !== null) {
      await this.#forget();
      return { declined: reason ?? "the user erased queries since the training began" };
    }
    return next.replies.get(stage) as Uint8Array;
  }

  /** Decline, and be in this round no more. */
  async #broken(reason: string): Promise<Declined> {
    await this.#forget();
    return { declined: reason };
  }

  async #forget(): Promise<void> {
    this.#last = null;
    await this.#file.erase();
  }

  /** Stage 1: to ready. */
  async #train(
    state: SecureState | null,
    body: Uint8Array,
    offered: { readonly offer: Offer; readonly release: Uint8Array } | null,
  ): Promise<Uint8Array | Declined> {
    const { federation, key: announced, privacy } = parseAnnouncement(body);
    if (offered === null) return { declined: "there is no offer with the announcement of a private round" };
    const { offer, release } = offered;
    const asked = await sha256(concatenated([body, encodeUtf8(offer.digest)]));
    if (state?.asked.get(STAGE.offer) === asked) return again(state, STAGE.offer, asked);
    if (state !== null && offer.round < state.trained.round) return { declined: OTHER_ROUND };
    const account = await this.#ledger.account(federation);
    if (account.lastRound !== null && offer.round <= account.lastRound) {
      return { declined: `round ${offer.round} is offered, but this device was in round ${account.lastRound}` };
    }
    await checkCertificate(this.#certificate, this.#options.authority, federation, this.#clock());
    const refused = ofOffer(this.#rules, privacy, offer.round, account);
    if (refused !== null) return { declined: refused };
    if (offer.config.clientInit !== "global") {
      return { declined: `client_init is '${offer.config.clientInit}', expected 'global'` };
    }
    await this.#forget(); // the round before, which is over
    const training = await this.#options.device.train(offer, release);
    if ("declined" in training) return training;
    const change = flattened(training);
    if (!change.every(Number.isFinite)) return { declined: "the training diverged" };
    const reply = await readyReply(this.#key, this.#certificate, announced, federation, offer.round);
    const ready: SecureState = {
      ...UNDEALT,
      progress: STAGE.offer,
      epoch: training.epoch,
      trained: {
        federation,
        round: offer.round,
        releaseSha256: await sha256(release),
        settingsSha256: offer.settingsSha256,
        size: change.length,
        clipNorm: offer.clipNorm,
      },
      keptUntil: this.#clock() + KEPT_SECONDS,
      asked: new Map(),
      replies: new Map([[STAGE.offer, reply]]),
      change,
    };
    return this.#keep(ready, STAGE.offer, asked);
  }

  /** Stage 2: from ready to shared. */
  async #deal(state: SecureState, body: Uint8Array): Promise<SecureState | Declined> {
    const { position, binding, certificates } = parseInvitation(body);
    const { trained } = state;
    const now = this.#clock();
    if (hexadecimal(binding.federation) !== hexadecimal(trained.federation) || binding.round !== trained.round) {
      return { declined: OTHER_ROUND };
    }
    const account = await this.#ledger.account(binding.federation);
    const own = this.#key.publicKey;
    const { authority, drawSecret } = this.#options;
    const refused =
      ofInvitation(this.#rules, binding, trained, account, now) ??
      (await ofNeighbours(this.#rules, binding, own, certificates, authority, now));
    if (refused !== null) return this.#broken(refused);
    await this.#ledger.begin(binding);
    const secret = drawSecret?.(binding.digest) ?? crypto.getRandomValues(new Uint8Array(32));
    const keys = certificates.map(({ key }) => key);
    this.#last = null; // whose keys may be others
    const boxes = await deal(this.#seat(binding, position, keys), new RoundSecret(secret));
    return {
      ...state,
      progress: STAGE.invite,
      keptUntil: Math.min(now + KEPT_SECONDS, binding.expiry),
      replies: new Map([...state.replies, [STAGE.invite, boxes]]),
      secret,
      binding,
      position,
      keys,
    };
  }

  /** Stage 3: from shared to masked. */
  async #mask(state: SecureState, body: Uint8Array): Promise<SecureState | Declined> {
    const [binding, seat] = this.#seated(state);
    const said = parseCollection(body, binding);
    const refused = ofCollection(binding, said.members.length);
    if (refused !== null) return this.#broken(refused);
    let held: SecureState["held"];
    let masked: Uint8Array;
    try {
      const opened = await openBoxes(seat, said);
      masked = await mask(seat, new RoundSecret(state.secret), opened, state.change);
      held = opened.map((one) => one.held);
    } catch (error) {
      if (!(error instanceof PocketQueryError)) throw error;
      return this.#broken(error.message);
    }
    await this.#ledger.charge(binding);
    return {
      ...state,
      progress: STAGE.collect,
      replies: new Map([...state.replies, [STAGE.collect, masked]]),
      change: new Float32Array(),
      secret: new Uint8Array(),
      held,
    };
  }

  /** Stage 4: from masked to confirmed. */
  async #confirm(state: SecureState, body: Uint8Array): Promise<SecureState | Declined> {
    const [binding, seat] = this.#seated(state);
    const said = parseConfirmation(body, binding);
    const held = state.held.map(({ position }) => position);
    const refused = ofConfirmation(this.#rules, binding, seat.position, seat.neighbours, held, said);
    if (refused !== null) return this.#broken(refused);
    const { committed, survivors } = said;
    const marks = await confirm(seat, state.held, committed, survivors);
    const replies = new Map([...state.replies, [STAGE.confirm as number, marks]]);
    return { ...state, progress: STAGE.confirm, replies, committed, survivors };
  }

  /** Stage 5: from confirmed to revealed. */
  async #reveal(state: SecureState, body: Uint8Array): Promise<SecureState | Declined> {
    const [binding, seat] = this.#seated(state);
    const said = parseUnmasking(body, binding);
    const { held, committed, survivors } = state;
    const refused = ofUnmasking(binding, await countConfirms(seat, held, committed, survivors, said));
    if (refused !== null) return this.#broken(refused);
    const shares = reveal(seat, held, new Set(survivors), await holders(seat, said));
    this.#last = null;
    return {
      ...state,
      progress: STAGE.unmask,
      replies: new Map([[STAGE.unmask, shares]]),
      asked: new Map(),
      held: [],
      committed: [],
      survivors: [],
    };
  }

  #seated({ binding, position, keys }: SecureState): [Binding, Seat] {
    const known = binding as Binding; // from shared on
    return [known, this.#seat(known, position, keys)];
  }

  #seat(binding: Binding, position: number, keys: readonly Uint8Array[]): Seat {
    const { ringSeed, size, neighbours, text } = binding;
    if (this.#last?.binding.text === text && this.#last.position === position) return this.#last;
    this.#last = new Seat(this.#key, binding, position, neighboursOf(ringSeed, size, neighbours, position), keys);
    return this.#last;
  }
}

/** The stored reply to a message that was answered before. */
function again(state: SecureState, stage: number, asked: string): Uint8Array | Declined {
  const reply = state.replies.get(stage);
  if (state.asked.get(stage) === asked && reply !== undefined) return reply;
  return { declined: `stage ${stage} was answered before; now it came with another content` };
}

/** The values of a change, tensor by tensor in order of their names. */
function flattened({ change }: Training): Float32Array {
  const ordered = [...change].sort(([a], [b]) => byCodePoint(a, b));
  const values = new Float32Array(ordered.reduce((sum, [, { data }]) => sum + data.length, 0));
  let at = 0;
  for (const [, { data }] of ordered) {
    values.set(data, at);
    at += data.length;
  }
  return values;
}
