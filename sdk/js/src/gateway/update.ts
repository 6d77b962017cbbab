/**
 * The update: what a device uploads after a round; byte for byte what Python's `client/update.py`
 * writes of the same change.
 *
 * Rounding to 8 bits loses a little each round; the device keeps what was lost and adds it to its
 * next change. What clipping cut off is not kept: it would pile up and undo the bound.
 */

import type { AdapterTensor, AdapterTensors } from "../bundle/adapter_tensors.js";
import { type RawTensor, serializeSafetensors } from "../bundle/safetensors.js";
import { InvalidInputError } from "../errors.js";
import { floatRepr, repr, show } from "../python_text.js";
import { isWellFormed } from "../utf8.js";
import { bytesOf, clipped, compressed, decompressed, SCALES, type Values } from "../training/transforms.js";

const FORMAT = "pocketquery-update";
const VERSION = "1";

/** What the server must know of an update. */
export interface UpdateHeader {
  readonly spaceId: string;
  /** Of the bundle's encoder.onnx, hexadecimal. */
  readonly encoderSha256: string;
  /** The release the change is relative to. */
  readonly baseVersion: string;
  /** The round it answers, from 0. */
  readonly round: number;
  /** 32 hexadecimal digits drawn for this update alone. */
  readonly nonce: string;
  /** Its share in the mean, above 0. */
  readonly weight: number;
}

/** How a change is sent. */
export interface UpdateOptions {
  readonly header: UpdateHeader;
  /** Largest L2 norm over all tensors. */
  readonly clipNorm: number;
  /** What the last call returned; absent or null: there was none, or it is of another encoder. */
  readonly residual?: AdapterTensors | null;
  /** False sends float32, four times as much, and loses nothing. */
  readonly compress?: boolean;
}

/** The bytes to upload, and what rounding lost: for the next round, where these arrive. */
export interface EncodedUpdate {
  readonly data: Uint8Array;
  readonly residual: AdapterTensors;
}

/** The weight of a change trained on so many `examples`: their number, at most `largest`. */
export function boundedWeight(examples: number, largest: number): number {
  if (!(examples > 0 && largest > 0 && Number.isFinite(largest))) {
    throw new InvalidInputError(
      `found ${examples} examples and a largest weight of ${largest}, expected both above 0`,
    );
  }
  return Math.min(examples, largest);
}

/**
 * The update of `change`, new minus old value of each tensor.
 *
 * Throws InvalidInputError: no tensors, a value that is not finite, a residual of other tensors, a
 * header field or `clipNorm` out of range.
 */
export function encodeUpdate(change: AdapterTensors, options: UpdateOptions): EncodedUpdate {
  const { header, clipNorm, residual = null, compress = true } = options;
  checkHeader(header);
  checkChange(change);
  const wanted = clipped(withResidual(change, residual), clipNorm);
  const payload = compress ? compressed(wanted) : plain(wanted);
  const sent = compress ? decompressed(payload) : wanted;
  const lost = new Map<string, AdapterTensor>();
  for (const [name, { shape, data }] of wanted) {
    const arrived = (sent.get(name) as AdapterTensor).data;
    lost.set(name, { shape, data: data.map((value, i) => value - (arrived[i] as number)) });
  }
  return { data: serializeSafetensors(payload, metadataOf(header)), residual: lost };
}

function checkChange(change: AdapterTensors): void {
  if (change.size === 0) {
    throw new InvalidInputError(
      "the change holds no tensor; a training that was stopped has nothing to send",
    );
  }
  for (const [name, { data }] of change) {
    if (name === SCALES || !(data instanceof Float32Array)) {
      throw new InvalidInputError(
        `the change's ${repr(name)}: expected a Float32Array under a name other than ${repr(SCALES)}`,
      );
    }
  }
}

function withResidual(change: AdapterTensors, residual: AdapterTensors | null): Values {
  if (residual === null) return change;
  if (!sameShapes(change, residual)) {
    throw new InvalidInputError(
      `the residual is of ${show([...residual.keys()])}, the change of ${show([...change.keys()])} ` +
        "(or their shapes differ); it was left by another encoder. Pass null instead",
    );
  }
  return new Map(
    [...change].map(([name, { shape, data }]) => {
      const kept = (residual.get(name) as AdapterTensor).data;
      return [name, { shape, data: Float64Array.from(data, (value, i) => value + (kept[i] as number)) }];
    }),
  );
}

/** Whether both have tensors of the same names and shapes. */
export function sameShapes(left: AdapterTensors, right: AdapterTensors): boolean {
  return (
    left.size === right.size &&
    [...left].every(([name, { shape }]) => show([...shape]) === show([...(right.get(name)?.shape ?? [NaN])]))
  );
}

function plain(tensors: AdapterTensors): Map<string, RawTensor> {
  return new Map(
    [...tensors].map(([name, { shape, data }]) => [name, { dtype: "F32", shape, bytes: bytesOf(data) }]),
  );
}

function metadataOf(header: UpdateHeader): Map<string, string> {
  return new Map([
    ["format", FORMAT],
    ["version", VERSION],
    ["space_id", header.spaceId],
    ["encoder_sha256", header.encoderSha256],
    ["base_version", header.baseVersion],
    ["round", String(header.round)],
    ["nonce", header.nonce],
    ["weight", floatRepr(header.weight)],
  ]);
}

function checkHeader(header: UpdateHeader): void {
  const { round, nonce, weight } = header;
  const texts = [header.spaceId, header.encoderSha256, header.baseVersion];
  const isRight =
    Number.isSafeInteger(round) &&
    round >= 0 &&
    texts.every((text) => typeof text === "string" && isWellFormed(text)) &&
    /^[0-9a-f]{32}$/.test(nonce) &&
    Number.isFinite(weight) &&
    weight > 0;
  if (!isRight) {
    throw new InvalidInputError(
      `found the header ${show([...texts, round, nonce, weight])}, expected texts, a whole ` +
        "round from 0, 32 lowercase hexadecimal digits as nonce and a weight above 0",
    );
  }
}
