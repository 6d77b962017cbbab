/**
 * What a device computes in stages 2 to 5 of a private round: functions of keys and messages, which
 * give the bytes of Python's `client/private/stages.py` and `replies.py`. That a round keeps the
 * device's rules is asked elsewhere, before (participant.ts).
 */

import { concatenated } from "../files/bytes.js";
import { type AgreementKey, KEY_BYTES } from "../gateway/agreement.js";
import type { Binding } from "./binding.js";
import { Keystream, open, seal } from "./chacha20.js";
import { commitments } from "./commitments.js";
import { type Codes, encode } from "./encoding.js";
import { derive, digestOf, isMark, mark, maskLabel, type PairKind, pairLabel, type RoundSecret } from "./keys.js";
import { cut, numberOf } from "./layout.js";
import { type Collection, survivorsDigest, type Unmasking } from "./messages.js";
import { draw, sigmaOf, tableOf } from "./noise.js";
import { SHARE_BYTES, split } from "./sharing.js";

const [NONE, SELF, MASK] = [0, 1, 2] as const; // what a revealed share is of

/** A device's place in a group. */
export class Seat {
  readonly #agreed = new Map<number, Promise<Uint8Array>>();

  constructor(
    /** Its own. */
    readonly key: AgreementKey,
    readonly binding: Binding,
    readonly position: number,
    /** Its neighbours' positions, in ascending order. */
    readonly neighbours: readonly number[],
    /** Their device keys. */
    readonly keys: readonly Uint8Array[],
  ) {}

  /** The key of what this device sends a neighbour, or gets from it. */
  async pairKey(kind: PairKind, neighbour: number, sent = true): Promise<Uint8Array> {
    const [own, other] = [this.key.publicKey, this.#keyOf(neighbour)];
    const [sender, receiver] = sent ? [own, other] : [other, own];
    return derive(await this.#secretOf(neighbour), pairLabel(kind, this.binding.digest, sender, receiver));
  }

  /** What both device keys agree on; worked out once, it is most of a stage's time. */
  #secretOf(neighbour: number): Promise<Uint8Array> {
    const known = this.#agreed.get(neighbour);
    if (known !== undefined) return known;
    const found = this.key.agree(this.#keyOf(neighbour));
    this.#agreed.set(neighbour, found);
    return found;
  }

  #keyOf(neighbour: number): Uint8Array {
    return this.keys[this.neighbours.indexOf(neighbour)] as Uint8Array;
  }
}

/** A neighbour whose box was opened, and the shares in it; revealed, one of the two leaves the device. */
export interface Held {
  readonly position: number;
  readonly selfShare: Uint8Array;
  readonly maskShare: Uint8Array;
}

/** What was in a neighbour's box: its public mask key of the round, and what is to be held. */
export interface Opened {
  readonly maskPublic: Uint8Array;
  readonly held: Held;
}

/**
 * Stage 2, the reply: the device's secrets of the round, shared out among its neighbours in boxes, and
 * commitments to the shares.
 */
export async function deal(seat: Seat, secret: RoundSecret): Promise<Uint8Array> {
  const { binding, position } = seat;
  const { digest: beta, threshold } = binding;
  const { key, privateKey } = await secret.maskKey(beta);
  const seed = secret.selfSeed(beta);
  const shared = (part: "self" | "mask", value: Uint8Array): Uint8Array[] => {
    return split(value, threshold, secret.coefficients(beta, part, threshold - 1), seat.neighbours.length);
  };
  const [selfShares, maskShares] = [shared("self", seed), shared("mask", privateKey)];
  const boxes = await Promise.all(
    seat.neighbours.map(async (neighbour, place) => {
      const content = concatenated([key.publicKey, selfShares[place] as Uint8Array, maskShares[place] as Uint8Array]);
      return seal(await seat.pairKey("box", neighbour), content, places(beta, position, neighbour));
    }),
  );
  const committed = seat.neighbours.map((neighbour, place) => {
    return commitments(beta, position, neighbour, selfShares[place] as Uint8Array, maskShares[place] as Uint8Array);
  });
  return concatenated([beta, numberOf(position), key.publicKey, digestOf(seed), ...boxes, ...committed]);
}

/**
 * Stage 3: what the committed neighbours dealt this device. Throws CorruptArtifactError: a box is not
 * by this neighbour for this device, round and positions.
 */
export function openBoxes(seat: Seat, { members, boxes }: Collection): Promise<Opened[]> {
  const { digest: beta } = seat.binding;
  return Promise.all(
    members.map(async (place, i) => {
      const neighbour = seat.neighbours[place] as number;
      const key = await seat.pairKey("box", neighbour, false);
      const associated = places(beta, neighbour, seat.position);
      const problem =
        `the box of the neighbour at position ${neighbour} is not one that it dealt this device in this round`;
      const content = open(key, boxes[i] as Uint8Array, associated, problem);
      const [maskPublic, selfShare, maskShare] = cut(content, "a box", KEY_BYTES, SHARE_BYTES, SHARE_BYTES) as [
        Uint8Array, Uint8Array, Uint8Array, Uint8Array,
      ];
      return { maskPublic, held: { position: neighbour, selfShare, maskShare } };
    }),
  );
}

/**
 * Stage 3, the reply: the change as codes, with noise where the binding says so, under all masks; and
 * for each neighbour whose mask is in it the mark that it is, and a receipt of its shares.
 *
 * Throws InvalidInputError: a public mask key is none, or the change is not finite.
 */
export async function mask(
  seat: Seat,
  secret: RoundSecret,
  opened: readonly Opened[],
  change: Float32Array,
): Promise<Uint8Array> {
  const { binding, position } = seat;
  const { digest: beta, encoding, privacy } = binding;
  const { key } = await secret.maskKey(beta);
  const pairs = await Promise.all(
    opened.map(async ({ maskPublic, held }) => {
      const agreed = await key.agree(maskPublic);
      return { sign: position < held.position ? 1 : -1, key: derive(agreed, maskLabel("mask", beta)) };
    }),
  );
  let noise: Int32Array | null = null;
  if (privacy.mode === "devices") {
    const deviation = sigmaOf(privacy.noiseMultiplier, encoding, privacy.countedOn);
    noise = draw(tableOf(deviation), secret.noiseStream(beta), encoding.size);
  }
  const codes = encode(change, encoding, secret.coins(beta), noise);
  const own = derive(secret.selfSeed(beta), maskLabel("self", beta));
  for (const pair of [{ sign: 1, key: own }, ...pairs]) addMask(codes, pair.key, pair.sign, encoding.bits);
  const held = await Promise.all(
    opened.map(async (one) => mark(await seat.pairKey("held", one.held.position), beta)),
  );
  const receipts = opened.map(({ held: one }) => {
    return commitments(beta, one.position, position, one.selfShare, one.maskShare);
  });
  const bytes = new Uint8Array(codes.buffer, codes.byteOffset, codes.byteLength);
  return concatenated([beta, numberOf(position), ...held, ...receipts, bytes]);
}

/** Add the mask of a key to `codes`, or take it away, modulo 2^w. */
function addMask(codes: Codes, key: Uint8Array, sign: number, bits: 16 | 32): void {
  const words = new Keystream(key).words(codes.length, bits);
  for (let i = 0; i < codes.length; i++) codes[i] = (codes[i] as number) + sign * (words[i] as number);
}

/** Stage 4, the reply: for each neighbour whose box is held, a mark on the survivors that were seen. */
export async function confirm(
  seat: Seat,
  held: readonly Held[],
  committed: readonly number[],
  survivors: readonly number[],
): Promise<Uint8Array> {
  const digest = survivorsDigest(seat.binding, committed, survivors);
  const marks = await Promise.all(
    held.map(async ({ position }) => mark(await seat.pairKey("confirm", position), digest)),
  );
  return concatenated([seat.binding.digest, numberOf(seat.position), ...marks]);
}

/** How many neighbours whose boxes are held marked the survivors that this device confirmed. */
export async function countConfirms(
  seat: Seat,
  held: readonly Held[],
  committed: readonly number[],
  survivors: readonly number[],
  said: Unmasking,
): Promise<number> {
  const digest = survivorsDigest(seat.binding, committed, survivors);
  const known = new Set(held.map(({ position }) => position));
  const found = await Promise.all(
    said.confirmers.map(async (place, i) => {
      const neighbour = seat.neighbours[place] as number;
      if (!known.has(neighbour)) return false;
      return isMark(await seat.pairKey("confirm", neighbour, false), digest, said.confirms[i] as Uint8Array);
    }),
  );
  return found.filter(Boolean).length;
}

/** The neighbours whose held mark names this device: its mask is in their change. */
export async function holders(seat: Seat, said: Unmasking): Promise<Set<number>> {
  const found = await Promise.all(
    said.holders.map(async (place, i) => {
      const neighbour = seat.neighbours[place] as number;
      const key = await seat.pairKey("held", neighbour, false);
      return isMark(key, seat.binding.digest, said.held[i] as Uint8Array) ? [neighbour] : [];
    }),
  );
  return new Set(found.flat());
}

/**
 * Stage 5, the reply: of each neighbour one share: of its self seed where it survived and is one of
 * `named`, of its mask key where it is gone. Of no neighbour there are both.
 */
export function reveal(
  seat: Seat,
  held: readonly Held[],
  survivors: ReadonlySet<number>,
  named: ReadonlySet<number>,
): Uint8Array {
  const nothing = concatenated([Uint8Array.of(NONE), new Uint8Array(SHARE_BYTES)]);
  const shares = new Map(
    held.map(({ position, selfShare, maskShare }): [number, Uint8Array] => {
      if (!survivors.has(position)) return [position, concatenated([Uint8Array.of(MASK), maskShare])];
      return [position, named.has(position) ? concatenated([Uint8Array.of(SELF), selfShare]) : nothing];
    }),
  );
  const revealed = seat.neighbours.map((neighbour) => shares.get(neighbour) ?? nothing);
  return concatenated([seat.binding.digest, numberOf(seat.position), ...revealed]);
}

/**
 * What a box is bound to: a server that told the two other positions than each other cannot have it
 * opened.
 */
function places(beta: Uint8Array, sender: number, receiver: number): Uint8Array {
  return concatenated([beta, numberOf(sender), numberOf(receiver)]);
}
