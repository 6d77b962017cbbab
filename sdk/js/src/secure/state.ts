/**
 * Where a device is in a private round, in the file that Python's `client/private/state_file.py` keeps:
 *
 *     ready     trained: the change waits for an invitation
 *     shared    the round secret is drawn, boxes are dealt
 *     masked    the masked change is made; change and secret are erased
 *     confirmed one set of survivors was confirmed
 *     revealed  shares were revealed; nothing but that reply is left
 *
 * The change and what masks it were made of the user's queries. So the state lies in the query store,
 * and goes with what is erased there.
 */

import { float32Of } from "../bundle/adapter_tensors.js";
import { type Dtype, parseMetadata, parseSafetensors, type RawTensor, serializeSafetensors } from "../bundle/safetensors.js";
import { hexadecimal, sha256 } from "../platform/hashing.js";
import { CorruptArtifactError, PocketQueryError } from "../errors.js";
import { Fields } from "../fields.js";
import { concatenated } from "../files/bytes.js";
import { KEY_BYTES } from "../gateway/agreement.js";
import { type QueryStore, SECURE } from "../store/store.js";
import { bytesOf } from "../training/transforms.js";
import { encodeUtf8 } from "../utf8.js";
import { type Binding, bytesOfHex, FEDERATION_BYTES, parseBinding } from "./binding.js";
import { equalPieces } from "./layout.js";
import { STAGE } from "./messages.js";
import type { Trained } from "./rules.js";
import { SHARE_BYTES } from "./sharing.js";
import type { Held } from "./stages.js";

const FORMAT = "pocketquery-secure-state";
const VERSION = "1";
const SOURCE = "the state of a private round";
const LARGEST = 1 << 20; // of the fields, which name a whole group
const NOTHING = new Uint8Array();

/** How far a device came: the number of the stage that it answered. */
export const PROGRESS = ["", "ready", "shared", "masked", "confirmed", "revealed"] as const;

/** The state of one device in one round. */
export interface SecureState {
  /** From 1. */
  readonly progress: number;
  /** Of the query store that was trained on. */
  readonly epoch: string;
  readonly trained: Trained;
  /** Unix seconds, after which the round is given up. */
  readonly keptUntil: number;
  /** By stage, hexadecimal SHA-256 of the message that was answered. */
  readonly asked: ReadonlyMap<number, string>;
  /** By stage, what was answered. */
  readonly replies: ReadonlyMap<number, Uint8Array>;
  /** Ready and shared alone; else empty. */
  readonly change: Float32Array;
  /** The round secret, shared alone; else empty. */
  readonly secret: Uint8Array;
  /** From shared on. */
  readonly binding: Binding | null;
  /** Of this device in the group. */
  readonly position: number;
  /** Device keys of its neighbours, in ascending order of position. */
  readonly keys: readonly Uint8Array[];
  /** The neighbours that it shares masks with, masked and confirmed alone. */
  readonly held: readonly Held[];
  /** Positions, confirmed alone. */
  readonly committed: readonly number[];
  readonly survivors: readonly number[];
}

/** What a state has before anything is dealt. */
export const UNDEALT = {
  secret: NOTHING, binding: null, position: 0, keys: [], held: [], committed: [], survivors: [],
} as const;

/** The state of one device, in its query store; null where it is in no round. */
export class StateFile {
  readonly #store: QueryStore;

  constructor(store: QueryStore) {
    this.#store = store;
  }

  /** The state that was kept last; a damaged one is removed: the round goes on without this device. */
  async load(): Promise<SecureState | null> {
    const data = await this.#store.kept(SECURE);
    if (data === null) return null;
    try {
      return await parseState(data);
    } catch (error) {
      if (!(error instanceof CorruptArtifactError)) throw error;
      await this.erase();
      return null;
    }
  }

  /** Replace the state; false, and nothing is kept, where the user erased queries meanwhile. */
  async keep(state: SecureState): Promise<boolean> {
    return this.#store.keep({ [SECURE]: await packState(state) }, state.epoch);
  }

  /** Forget the state. */
  async erase(): Promise<void> {
    await this.#store.discardKept(SECURE);
  }
}

/** The bytes that are kept, with a digest of all that is in them. */
export async function packState(state: SecureState): Promise<Uint8Array> {
  const { trained, binding, held } = state;
  const fields = {
    progress: state.progress,
    epoch: state.epoch,
    federation: hexadecimal(trained.federation),
    round: trained.round,
    release: trained.releaseSha256,
    settings: trained.settingsSha256,
    size: trained.size,
    clip_norm: trained.clipNorm,
    kept_until: state.keptUntil,
    asked: Object.fromEntries(state.asked),
    binding: binding === null ? null : binding.text,
    position: state.position,
    holds: held.map(({ position }) => position),
  };
  const shares = held.flatMap(({ selfShare, maskShare }) => [selfShare, maskShare]);
  const tensors = new Map<string, RawTensor>([
    ["change", tensor("F32", bytesOf(state.change), 4)],
    ["secret", tensor("U8", state.secret)],
    ["keys", tensor("U8", concatenated(state.keys))],
    ["committed", positions(state.committed)],
    ["survivors", positions(state.survivors)],
    ["shares", tensor("U8", concatenated(shares))],
  ]);
  for (const [stage, reply] of state.replies) tensors.set(`reply:${stage}`, tensor("U8", reply));
  const metadata = new Map([["format", FORMAT], ["format_version", VERSION], ["state", JSON.stringify(fields)]]);
  const digest = await sha256(serializeSafetensors(tensors, metadata));
  return serializeSafetensors(tensors, metadata.set("sha256", digest));
}

/** The state in `data`. Throws CorruptArtifactError: it is not what `packState`, or Python, writes. */
export async function parseState(data: Uint8Array): Promise<SecureState> {
  const metadata = new Map(parseMetadata(data, SOURCE));
  const tensors = parseSafetensors(data, SOURCE);
  const digest = metadata.get("sha256");
  metadata.delete("sha256");
  const isKnown = metadata.get("format") === FORMAT && metadata.get("format_version") === VERSION;
  if (!isKnown || digest !== (await sha256(serializeSafetensors(tensors, metadata)))) {
    throw new CorruptArtifactError(`${SOURCE} was changed, or is of another version`);
  }
  try {
    return stateOf(Fields.ofJson(encodeUtf8(metadata.get("state") ?? ""), SOURCE, LARGEST), tensors);
  } catch (error) {
    if (!(error instanceof PocketQueryError)) throw error;
    throw new CorruptArtifactError(`${SOURCE} is none of this version (${error.message})`, { cause: error });
  }
}

function stateOf(fields: Fields, tensors: ReadonlyMap<string, RawTensor>): SecureState {
  const raw = (name: string, dtype: Dtype): RawTensor => {
    const found = tensors.get(name);
    if (found?.dtype !== dtype) throw new CorruptArtifactError(`${SOURCE}: ${name} is missing, or no ${dtype}`);
    return found;
  };
  const listed = (name: string): number[] => Array.from(new Int32Array(raw(name, "I32").bytes.buffer));
  const pieces = (name: string, size: number): Uint8Array[] => {
    const { bytes } = raw(name, "U8");
    return equalPieces(bytes, SOURCE, Math.ceil(bytes.length / size), size);
  };
  const found = new Map(fields.entries());
  const federation = bytesOfHex(fields.text("federation", 2 * FEDERATION_BYTES));
  const holds = fields.sequence("holds") as number[];
  const shares = pieces("shares", 2 * SHARE_BYTES);
  const [clipNorm, keptUntil] = [found.get("clip_norm"), found.get("kept_until")];
  if (typeof clipNorm !== "number" || typeof keptUntil !== "number" || holds.length !== shares.length) {
    throw new CorruptArtifactError(`${SOURCE} has values of other kinds`);
  }
  const binding = fields.textOrNull("binding");
  const replies = [...tensors].filter(([name]) => name.startsWith("reply:"));
  return {
    progress: fields.integer("progress", STAGE.offer, STAGE.unmask),
    epoch: fields.text("epoch"),
    trained: {
      federation,
      round: fields.integer("round", 0),
      releaseSha256: fields.text("release"),
      settingsSha256: fields.text("settings"),
      size: fields.integer("size", 0),
      clipNorm,
    },
    keptUntil,
    asked: new Map([...fields.texts("asked")].map(([stage, digest]) => [Number(stage), digest])),
    replies: new Map(replies.map(([name, { bytes }]) => [Number(name.slice("reply:".length)), bytes])),
    change: float32Of(raw("change", "F32")) as Float32Array,
    secret: raw("secret", "U8").bytes,
    binding: binding === null ? null : parseBinding(encodeUtf8(binding)),
    position: fields.integer("position", 0),
    keys: pieces("keys", KEY_BYTES),
    held: shares.map((pair, i) => ({
      position: holds[i] as number,
      selfShare: pair.slice(0, SHARE_BYTES),
      maskShare: pair.slice(SHARE_BYTES),
    })),
    committed: listed("committed"),
    survivors: listed("survivors"),
  };
}

function tensor(dtype: Dtype, bytes: Uint8Array, size = 1): RawTensor {
  return { dtype, shape: [bytes.length / size], bytes: Uint8Array.from(bytes) };
}

function positions(values: readonly number[]): RawTensor {
  return tensor("I32", new Uint8Array(Int32Array.from(values).buffer), 4);
}
