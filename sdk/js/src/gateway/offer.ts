/**
 * What a server asks of a device in a round, in its one encoding: Python's `client/offer.py` (and
 * `client/gateway/messages.py`, the gateway's answer that has it), read as strictly.
 */

import { sha256 } from "../platform/hashing.js";
import { CorruptArtifactError, InvalidInputError } from "../errors.js";
import { Fields } from "../fields.js";
import type { Json, JsonObject } from "../json.js";
import { show } from "../python_text.js";
import { encodeUtf8 } from "../utf8.js";
import { canonicalText } from "./canonical.js";
import { type LocalConfig, localConfigOf } from "../training/local_config.js";
import { fromBase64 } from "../platform/base64.js";

const LARGEST_OFFER = 1 << 20;
const LONGEST_WAIT = 86_400;
const FORMAT = "pocketquery-offer";
const VERSION = "1";
const ANSWER = "the gateway's offer";
const SOURCE = "the offer";
const SHA256 = /^[0-9a-f]{64}$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** What the server asks of a device; the release is fetched apart. */
export interface Offer {
  /** Its number, from 0. */
  readonly round: number;
  /** SHA-256 of the release to start from, hexadecimal. */
  readonly releaseSha256: string;
  /** How to train. */
  readonly config: LocalConfig;
  /** Largest L2 norm of the change. */
  readonly clipNorm: number;
  /** Largest weight of the update. */
  readonly largestWeight: number;
  /** 8 bits with error feedback, or float32. */
  readonly compress: boolean;
  /** The registry's statements of what is in force; empty where it signs none. */
  readonly lineage: Uint8Array;
  /** Of a private round, in which nobody sees an update, its first message; empty in a plain one. */
  readonly announcement: Uint8Array;
  /** SHA-256 of `local` as canonical JSON, hexadecimal: what devices of a private round agree on. */
  readonly settingsSha256: string;
  /** SHA-256 of all that it says of the training, hexadecimal. */
  readonly digest: string;
}

/** An offer whose settings this device cannot train with: it declines that round. */
export class UnusableOfferError extends InvalidInputError {
  constructor(readonly round: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "InvalidInputError";
  }
}

/**
 * What is offered, null where nothing is; and in how many seconds asking again is of use.
 *
 * Throws CorruptArtifactError (not what a gateway writes) or UnusableOfferError, an
 * InvalidInputError (settings out of range, or that this package does not know).
 */
export async function readOfferMessage(
  data: Uint8Array,
): Promise<{ readonly offer: Offer | null; readonly retryAfter: number }> {
  const fields = Fields.ofJson(data, ANSWER, LARGEST_OFFER);
  const retryAfter = fields.integer("retry_after", 0, LONGEST_WAIT);
  const found = new Map(fields.entries());
  if (found.has("offer") && found.get("offer") === null) return { offer: null, retryAfter };
  return { offer: await offerOf(fields.child("offer")), retryAfter };
}

async function offerOf(fields: Fields): Promise<Offer> {
  const values = new Map(fields.entries());
  const [format, version] = [values.get("format"), values.get("version")];
  if (format !== FORMAT || version !== VERSION) {
    throw new CorruptArtifactError(
      `${SOURCE}: found format ${show(format)}, version ${show(version)}; expected "${FORMAT}", version ` +
        `"${VERSION}". Upgrade the older of server and device`,
    );
  }
  const said = {
    round: fields.integer("round", 0, Number.MAX_SAFE_INTEGER),
    releaseSha256: digitsOf(values, "release"),
    clipNorm: numberOf(values, "clip_norm"),
    largestWeight: numberOf(values, "largest_weight"),
    compress: flagOf(values, "compress"),
  };
  const [lineage, announcement] = [bytesOf(values, "lineage"), bytesOf(values, "announcement")];
  const local = fields.mapping("local");
  const config = configOf(local, said.round);
  const written = JSON.stringify([said, [...local].map(([name, value]) => [name, canonical(value)])]);
  return {
    ...said,
    config,
    lineage,
    announcement,
    settingsSha256: await sha256(encodeUtf8(canonicalText(local))),
    digest: await sha256(encodeUtf8(written)),
  };
}

function configOf(local: JsonObject, round: number): LocalConfig {
  try {
    return localConfigOf(local, `${SOURCE}: local`);
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    throw new UnusableOfferError(round, error.message, { cause: error });
  }
}

function canonical(value: Json): unknown {
  if (Array.isArray(value)) return value.map(canonical);
  return value instanceof Map ? [...value].map(([name, item]) => [name, canonical(item)]) : value;
}

function numberOf(values: JsonObject, name: string): number {
  const value = values.get(name);
  return typeof value === "number" ? value : refuse(name, "a number");
}

function flagOf(values: JsonObject, name: string): boolean {
  const value = values.get(name);
  return typeof value === "boolean" ? value : refuse(name, "true or false");
}

function digitsOf(values: JsonObject, name: string): string {
  const value = values.get(name);
  const expected = "a SHA-256, 64 hexadecimal digits";
  return typeof value === "string" && SHA256.test(value) ? value : refuse(name, expected);
}

function bytesOf(values: JsonObject, name: string): Uint8Array {
  const value = values.get(name);
  return typeof value === "string" && BASE64.test(value) ? fromBase64(value) : refuse(name, "base64");
}

function refuse(name: string, expected: string): never {
  throw new CorruptArtifactError(`${SOURCE}: field ${name}: expected ${expected}`);
}
