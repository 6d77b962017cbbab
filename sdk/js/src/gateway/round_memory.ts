/**
 * What a device keeps between rounds, in the bytes of Python's `client/round_memory.py`: a secret of
 * its own, and what its last round left. It lies in the query store, as what was made of the
 * queries, so it is erased with them.
 *
 * The secret makes a round's nonce and seed: who asks the same device twice in one round, because a
 * page was closed or a reply was lost, gets the same update under the same nonce, which counts once.
 */

import { type AdapterTensors, float32Of } from "../bundle/adapter_tensors.js";
import { parseMetadata, parseSafetensors, type RawTensor, serializeSafetensors } from "../bundle/safetensors.js";
import { hexadecimal, sha256 } from "../platform/hashing.js";
import { CorruptArtifactError } from "../errors.js";
import { type QueryStore, ROUNDS } from "../store/store.js";
import { bytesOf } from "../training/transforms.js";
import { encodeUtf8, isWellFormed } from "../utf8.js";
import { sameShapes } from "./update.js";

const FORMAT = "pocketquery-round-memory";
const VERSION = "1";
const PARTS = ["before.residual", "before.adapter", "after.residual", "after.adapter"] as const;
const NOTHING: ClientState = { residual: new Map(), adapter: new Map() };

/** What a round leaves on the device; empty where there is nothing. */
export interface ClientState {
  /** What rounding cut off the update; it joins the next one. */
  readonly residual: AdapterTensors;
  /** What the training ended with, where the next begins from it. */
  readonly adapter: AdapterTensors;
}

/** All that is remembered. */
export interface Remembered {
  readonly roundKey: string;
  readonly epoch: string;
  /** 64 hexadecimal digits. */
  readonly secret: string;
  readonly before: ClientState;
  readonly after: ClientState;
}

/** The memory of one device, of what its store held in one epoch. */
export class RoundMemory {
  readonly #store: QueryStore;
  readonly #epoch: string;
  #found: Remembered;

  private constructor(store: QueryStore, epoch: string, found: Remembered) {
    this.#store = store;
    this.#epoch = epoch;
    this.#found = found;
  }

  /**
   * What is remembered of `epoch`; begun, and kept, where there is nothing or it is damaged. Null
   * where the consent is gone or something was erased since the epoch was read.
   */
  static async of(store: QueryStore, epoch: string): Promise<RoundMemory | null> {
    const secret = hexadecimal(crypto.getRandomValues(new Uint8Array(32)));
    const begun = { roundKey: "", epoch, secret, before: NOTHING, after: NOTHING };
    const fresh = await packRemembered(begun);
    for (let attempt = 0; attempt < 2; attempt++) {
      const data = await store.keptOr(ROUNDS, fresh, epoch);
      if (data === null) return null;
      try {
        const found = await parseRemembered(data);
        if (found.epoch === epoch) return new RoundMemory(store, epoch, found);
      } catch (error) {
        if (!(error instanceof CorruptArtifactError)) throw error;
      }
      await store.discardKept(ROUNDS); // what is lost is one rounding error
    }
    return null;
  }

  /** 32 hexadecimal digits, the same for the same round, unlike any other device's. */
  async nonce(roundKey: string): Promise<string> {
    return hexadecimal(await this.#derive("nonce", roundKey)).slice(0, 32);
  }

  /** A seed of 63 bits, the same for the same occasion. */
  async seed(occasion: string): Promise<bigint> {
    const bytes = await this.#derive("seed", occasion);
    return BigInt(`0x${hexadecimal(bytes.subarray(0, 8))}`) >> 1n;
  }

  /** What the round before this one left, also after this one itself left its own. */
  recall(roundKey: string): ClientState {
    return roundKey === this.#found.roundKey ? this.#found.before : this.#found.after;
  }

  /** Keep what a round left; false, and nothing is kept, where something was erased meanwhile. */
  async keep(roundKey: string, after: ClientState): Promise<boolean> {
    const found = { ...this.#found, roundKey, before: this.recall(roundKey), after };
    const kept = await this.#store.keep({ [ROUNDS]: await packRemembered(found) }, this.#epoch);
    if (kept) this.#found = found;
    return kept;
  }

  async #derive(purpose: string, occasion: string): Promise<Uint8Array> {
    const secret = Uint8Array.from(this.#found.secret.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
    const algorithm = { name: "HMAC", hash: "SHA-256" };
    const key = await crypto.subtle.importKey("raw", secret, algorithm, false, ["sign"]);
    const message = Uint8Array.from(encodeUtf8(`${purpose}\n${occasion}`));
    return new Uint8Array(await crypto.subtle.sign("HMAC", key, message));
  }
}

/** What was kept, without what is of other tensors: those of an encoder since replaced. */
export function fitting({ residual, adapter }: ClientState, tensors: AdapterTensors): ClientState {
  const fit = (kept: AdapterTensors): AdapterTensors => (sameShapes(kept, tensors) ? kept : new Map());
  return { residual: fit(residual), adapter: fit(adapter) };
}

/** The bytes that are kept, with a digest of all that is in them. */
export async function packRemembered({ roundKey, epoch, secret, before, after }: Remembered): Promise<Uint8Array> {
  const states = [before.residual, before.adapter, after.residual, after.adapter];
  const tensors = new Map<string, RawTensor>();
  for (const [i, part] of PARTS.entries()) {
    for (const [name, { shape, data }] of states[i] as AdapterTensors) {
      tensors.set(`${part}:${name}`, { dtype: "F32", shape, bytes: bytesOf(data) });
    }
  }
  return serializeSafetensors(tensors, await fieldsOf(roundKey, epoch, secret, tensors));
}

/** What was kept in `data`. Throws CorruptArtifactError: it is not what `packRemembered` writes. */
export async function parseRemembered(data: Uint8Array, name = "the round memory"): Promise<Remembered> {
  const found = parseMetadata(data, name);
  const tensors = parseSafetensors(data, name);
  const [roundKey, epoch, secret] = ["occasion", "epoch", "secret"].map((key) => found.get(key) ?? "") as [
    string, string, string,
  ];
  const texts = [...found.values(), ...tensors.keys()];
  const wanted = texts.every(isWellFormed) ? await fieldsOf(roundKey, epoch, secret, tensors) : new Map();
  const same = found.size === wanted.size && [...found].every(([key, value]) => wanted.get(key) === value);
  if (!same || !/^[0-9a-f]{64}$/.test(secret)) {
    throw new CorruptArtifactError(`${name} was changed or is of another version`);
  }
  const parts = new Map<string, Map<string, { shape: readonly number[]; data: Float32Array }>>(
    PARTS.map((part) => [part, new Map()]),
  );
  for (const [key, tensor] of tensors) {
    const at = key.indexOf(":");
    const into = parts.get(key.slice(0, Math.max(at, 0)));
    const values = tensor.dtype === "F32" ? float32Of(tensor) : null;
    if (into === undefined || values === null || !values.every(Number.isFinite)) {
      throw new CorruptArtifactError(
        `${name}: '${key}' is no part of it, expected finite float32 numbers of one of ${PARTS.join(", ")}`,
      );
    }
    into.set(key.slice(at + 1), { shape: tensor.shape, data: values });
  }
  const part = (name: (typeof PARTS)[number]): AdapterTensors => parts.get(name) ?? new Map();
  const before = { residual: part("before.residual"), adapter: part("before.adapter") };
  const after = { residual: part("after.residual"), adapter: part("after.adapter") };
  return { roundKey, epoch, secret, before, after };
}

async function fieldsOf(
  roundKey: string,
  epoch: string,
  secret: string,
  tensors: ReadonlyMap<string, RawTensor>,
): Promise<Map<string, string>> {
  const fields = new Map([
    ["format", FORMAT],
    ["format_version", VERSION],
    ["occasion", roundKey],
    ["epoch", epoch],
    ["secret", secret],
  ]);
  return fields.set("sha256", await sha256(serializeSafetensors(tensors, fields)));
}
