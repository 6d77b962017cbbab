/**
 * The bodies that a server sends in a private round, stages 1 to 5: fixed layouts of bytes, which
 * stand in Python's `client/private/messages.py` and in docs/formats/private-rounds.md. Parsing is strict: the length
 * is the one that follows from the layout, or nothing is read.
 */

import { CorruptArtifactError } from "../errors.js";
import { checkAgreementKey, KEY_BYTES } from "../gateway/agreement.js";
import {
  type Binding, checkPrivacy, DIGEST_BYTES, FEDERATION_BYTES, MODES, nameOf, parseBinding, type Privacy,
} from "./binding.js";
import { type Certificate, CERTIFICATE_BYTES, parseCertificate } from "./certificate.js";
import { digestOf, MARK_BYTES } from "./keys.js";
import { bitmapBytes, cut, equalPieces, membersOf, numberIn, refuse, toBitmap } from "./layout.js";

/** The five exchanges of a round. */
export const STAGE = { offer: 1, invite: 2, collect: 3, confirm: 4, unmask: 5 } as const;

/** A key of 32 bytes, two shares of 32 and a tag. */
export const BOX_BYTES = 112;
const NUMBERS_BYTES = 17;

/** Stage 1, beside the offer: for whom the round is, and how private its sum will be. */
export interface Announcement {
  readonly federation: Uint8Array;
  /** X25519 public key of who announces it: a device that is ready proves with it that it holds its own. */
  readonly key: Uint8Array;
  readonly privacy: Privacy;
}

/** The content of an announcement. Throws CorruptArtifactError. */
export function parseAnnouncement(data: Uint8Array): Announcement {
  const source = "an announcement";
  const [federation, key, values, season] = cut(data, source, FEDERATION_BYTES, KEY_BYTES, NUMBERS_BYTES) as [
    Uint8Array, Uint8Array, Uint8Array, Uint8Array,
  ];
  const mode = MODES[values[0] as number];
  if (mode === undefined) refuse(source, `the noise mode ${values[0]}, expected 0 or ${MODES.length - 1}`);
  try {
    checkAgreementKey(key);
    const privacy = checkPrivacy({
      mode,
      participations: numberIn(values, 1),
      countedOn: numberIn(values, 5),
      noiseMultiplier: new DataView(values.buffer).getFloat64(9),
      season: String.fromCharCode(...season.subarray(0, 100)),
    });
    return { federation, key, privacy };
  } catch (error) {
    return refuse(source, (error as Error).message.slice(0, 200));
  }
}

/** Stage 2. */
export interface Invitation {
  /** Of the device in its group. */
  readonly position: number;
  readonly binding: Binding;
  /** Of its neighbours, not checked yet. */
  readonly certificates: readonly Certificate[];
}

/** The content of an invitation. Throws CorruptArtifactError. */
export function parseInvitation(data: Uint8Array): Invitation {
  const source = "an invitation";
  const [head, rest] = cut(data, source, 6) as [Uint8Array, Uint8Array];
  const position = numberIn(head);
  const [text, certified] = cut(rest, source, new DataView(head.buffer).getUint16(4)) as [Uint8Array, Uint8Array];
  const binding = parseBinding(text);
  if (position >= binding.size) refuse(source, `position ${position} in a group of ${binding.size}`);
  const found = equalPieces(certified, source, binding.neighbours, CERTIFICATE_BYTES);
  return { position, binding, certificates: found.map(parseCertificate) };
}

/** Stage 3. */
export interface Collection {
  /** Which of the receiver's neighbours are committed, as places in its list, from 0. */
  readonly members: readonly number[];
  /** Theirs for the receiver. */
  readonly boxes: readonly Uint8Array[];
}

/** The content of a collection. Throws CorruptArtifactError. */
export function parseCollection(data: Uint8Array, binding: Binding): Collection {
  const source = "a collection";
  const [members, boxes, rest] = marked(ofRound(data, source, binding), source, binding.neighbours, BOX_BYTES);
  equalPieces(rest, source, 0, 0);
  return { members, boxes };
}

/** Stage 4. */
export interface Confirmation {
  /** Positions whose boxes were dealt, U2. */
  readonly committed: readonly number[];
  /** Positions whose masked change came, U3. */
  readonly survivors: readonly number[];
  /** What is to be confirmed; not checked yet. */
  readonly digest: Uint8Array;
}

/** The content of a confirmation. Throws CorruptArtifactError. */
export function parseConfirmation(data: Uint8Array, binding: Binding): Confirmation {
  const [source, size] = ["a confirmation", bitmapBytes(binding.size)];
  const sent = ofRound(data, source, binding);
  const [committed, survivors, digest] = cut(sent, source, size, size) as [Uint8Array, Uint8Array, Uint8Array];
  equalPieces(digest, source, 1, DIGEST_BYTES);
  return {
    committed: membersOf(committed, source, binding.size),
    survivors: membersOf(survivors, source, binding.size),
    digest,
  };
}

/** Stage 5: the evidence on which a device reveals shares. Places are in its list, from 0. */
export interface Unmasking {
  readonly confirmers: readonly number[];
  /** Their confirm marks. */
  readonly confirms: readonly Uint8Array[];
  readonly holders: readonly number[];
  /** Their held marks. */
  readonly held: readonly Uint8Array[];
}

/** The content of an unmasking. Throws CorruptArtifactError. */
export function parseUnmasking(data: Uint8Array, binding: Binding): Unmasking {
  const [source, count] = ["an unmasking", binding.neighbours];
  const [confirmers, confirms, more] = marked(ofRound(data, source, binding), source, count, MARK_BYTES);
  const [holders, held, rest] = marked(more, source, count, MARK_BYTES);
  equalPieces(rest, source, 0, 0);
  return { confirmers, confirms, holders, held };
}

/** S, what is confirmed: SHA-256 of beta and the bitmaps of both over the group. */
export function survivorsDigest(
  { digest, size }: Binding,
  committed: readonly number[],
  survivors: readonly number[],
): Uint8Array {
  return digestOf(digest, toBitmap(committed, size), toBitmap(survivors, size));
}

/** What follows beta, which is the binding's. */
function ofRound(data: Uint8Array, source: string, binding: Binding): Uint8Array {
  const [beta, rest] = cut(data, source, DIGEST_BYTES) as [Uint8Array, Uint8Array];
  if (nameOf(beta) !== nameOf(binding.digest)) {
    throw new CorruptArtifactError(
      `${source} holds the binding ${nameOf(beta)}, expected ${nameOf(binding.digest)}; it is of another ` +
        "round or group",
    );
  }
  return rest;
}

/** The members of a bitmap at the start of `data`, an item for each, and the rest. */
function marked(
  data: Uint8Array,
  source: string,
  size: number,
  item: number,
): [members: number[], items: Uint8Array[], rest: Uint8Array] {
  const [bitmap, more] = cut(data, source, bitmapBytes(size)) as [Uint8Array, Uint8Array];
  const members = membersOf(bitmap, source, size);
  const [items, rest] = cut(more, source, item * members.length) as [Uint8Array, Uint8Array];
  return [members, equalPieces(items, source, members.length, item), rest];
}
