/**
 * A private round over HTTP: the stages' messages are fetched and answered one after the other, from
 * wherever this device stands; docs/gateway.md has the requests.
 */

import { ArtifactError, CorruptArtifactError } from "../errors.js";
import { Fields } from "../fields.js";
import { encodeUtf8 } from "../utf8.js";
import { checkVerdict, type GatewayConnection, RefusedError } from "./connection.js";
import type { Answering, Declined } from "./device.js";
import type { Offer } from "./offer.js";
import { type DevicePlace, PRIVATE_ROUND } from "./place.js";

const FIRST = 1;
const LAST = 5;
const LARGEST = 1000; // bytes of what is kept
const LONGEST_WAIT = 60;
const ATTEMPTS = 8; // of another tab that writes meanwhile
const GONE = "the round is over for this device: its queries were erased, or it is too old";
const OCTETS = { "content-type": "application/octet-stream" };

/** Where a device stands in a private round: the last stage that it answered, and how. */
export interface Standing {
  readonly round: number;
  readonly stage: number;
  readonly reply: Uint8Array;
}

/** What can take part in private rounds: a `Participant` of pocketquery/secure. */
export interface PrivateAnswering extends Answering {
  /** Where this device stands; null: in no round. One that is over by its own clock and store is forgotten. */
  standing(): Promise<Standing | null>;
  /** The reply to a stage's message; what is offered comes with the first. */
  answerStage(
    stage: number,
    body: Uint8Array,
    offered?: { readonly offer: Offer; readonly release: Uint8Array },
  ): Promise<Uint8Array | Declined>;
  /** Forget this round, which is over at the gateway; another one stays. */
  giveUp(round: number): Promise<void>;
}

/** Whether `device` takes part in private rounds. */
export function isPrivate(device: Answering): device is PrivateAnswering {
  return "answerStage" in device;
}

/** The private round that the device at `place` was in when it was stopped; null where it was in none. */
export async function unfinished(place: DevicePlace): Promise<number | null> {
  const data = await place.read(PRIVATE_ROUND);
  if (data === null) return null;
  try {
    return Fields.ofJson(data, PRIVATE_ROUND, LARGEST).integer("round", 0, Number.MAX_SAFE_INTEGER);
  } catch (error) {
    if (!(error instanceof CorruptArtifactError)) throw error;
    await place.replace(PRIVATE_ROUND, data, null);
    return null;
  }
}

/** Remember that the device at `place` is in this round. */
export function noteUnfinished(place: DevicePlace, round: number): Promise<void> {
  return note(place, encodeUtf8(JSON.stringify({ round })));
}

/** Remember that it is in this round no more; another one, of another tab say, stays noted. */
export function noteOver(place: DevicePlace, round: number): Promise<void> {
  return note(place, null, round);
}

async function note(place: DevicePlace, data: Uint8Array | null, only?: number): Promise<void> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const before = await place.read(PRIVATE_ROUND);
    if (only !== undefined && (await unfinished(place)) !== only) return;
    if (await place.replace(PRIVATE_ROUND, before, data)) return;
  }
  throw new ArtifactError(`${place.name}: others write it all the time; try again`);
}

/** One device in one private round. */
export class PrivateRound {
  readonly #connection: GatewayConnection;
  readonly #place: DevicePlace;
  readonly #device: PrivateAnswering;
  readonly #round: number;

  constructor(connection: GatewayConnection, place: DevicePlace, device: PrivateAnswering, round: number) {
    this.#connection = connection;
    this.#place = place;
    this.#device = device;
    this.#round = round;
  }

  /**
   * Train, say that this device is ready, and answer the stages that follow; null once the last is
   * answered, or why this device declines. Throws RefusedError: the round is over, or takes no reply
   * of this device any more.
   */
  async begin(offer: Offer, release: Uint8Array): Promise<Declined | null> {
    const reply = await this.#device.answerStage(1, offer.announcement, { offer, release });
    if ("declined" in reply) return reply;
    await noteUnfinished(this.#place, this.#round);
    await this.#send(1, reply);
    return this.#finish(1);
  }

  /**
   * Go on where this device was when it was stopped. Returns and throws as `begin`.
   */
  async goOn(): Promise<Declined | null> {
    const standing = await this.#device.standing();
    if (standing?.round !== this.#round) return this.#givenUp(GONE);
    try {
      await this.#send(standing.stage, standing.reply); // which perhaps it was stopped before
    } catch (error) {
      if (!(error instanceof RefusedError && error.code === "round_over")) throw error; // the stage may be over
    }
    return this.#finish(standing.stage);
  }

  /** The stages after the one that was `answered`, as their messages come. */
  async #finish(answered: number): Promise<Declined | null> {
    while (answered < LAST) {
      const { status, body, stage, retryAfter } = await this.#connection.ask("GET", this.#path());
      if (status !== 204 && !(stage > FIRST && stage <= LAST)) {
        throw new CorruptArtifactError(`the gateway's message is of stage ${stage}, expected one from 2 to ${LAST}`);
      }
      if (status === 204 || stage <= answered) {
        // Erased, or too old, it has nothing to answer with.
        if ((await this.#device.standing())?.round !== this.#round) return this.#givenUp(GONE);
        await this.#connection.wait(Math.min(LONGEST_WAIT, retryAfter || 1));
        continue;
      }
      const reply = await this.#device.answerStage(stage, body);
      if ("declined" in reply) return this.#givenUp(reply.declined);
      await this.#send(stage, reply);
      answered = stage;
    }
    return null;
  }

  async #givenUp(declined: string): Promise<Declined> {
    await this.#device.giveUp(this.#round);
    return { declined };
  }

  async #send(stage: number, body: Uint8Array): Promise<void> {
    const answer = await this.#connection.ask("PUT", `${this.#path()}/${stage}`, { body, headers: OCTETS });
    checkVerdict(answer, "received");
  }

  #path(): string {
    return `/v1/rounds/${this.#round}/secure`;
  }
}
