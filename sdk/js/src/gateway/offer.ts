/** What a gateway offers a device: Python's `client/gateway/messages.py`, read as strictly. */

import { LARGEST_RELEASE } from "../bundle/adapter.js";
import { sha256 } from "../bundle/signature.js";
import { CorruptArtifactError, InvalidInputError } from "../errors.js";
import { Fields } from "../fields.js";
import type { Json, JsonObject } from "../json.js";
import { encodeUtf8 } from "../utf8.js";
import { canonicalText } from "./canonical.js";
import { type LocalConfig, localConfigOf } from "../training/local_config.js";
import { fromBase64 } from "./signing.js";

const LARGEST_OFFER = 1 << 20;
const LONGEST_WAIT = 86_400;
const MOST_CHARACTERS = 1024;
const SOURCE = "the gateway's offer";
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** What the server asks of a device; the release is fetched apart. */
export interface Offer {
  /** Its number, from 0. */
  readonly round: number;
  readonly release: { readonly version: string; readonly sha256: string; readonly bytes: number };
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
  /** Whether updates are summed without anybody seeing one. */
  readonly secure: boolean;
  /** The first message of such a round; empty where the offer brings none that can be read. */
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
  const fields = Fields.ofJson(data, SOURCE, LARGEST_OFFER);
  const retryAfter = fields.integer("retry_after", 0, LONGEST_WAIT);
  const found = new Map(fields.entries());
  if (found.has("offer") && found.get("offer") === null) return { offer: null, retryAfter };
  return { offer: await offerOf(fields.child("offer")), retryAfter };
}

async function offerOf(fields: Fields): Promise<Offer> {
  const values = new Map(fields.entries());
  const round = fields.integer("round", 0, Number.MAX_SAFE_INTEGER);
  const release = fields.child("release");
  const digits = release.text("sha256", MOST_CHARACTERS);
  if (!/^[0-9a-f]{64}$/.test(digits)) damaged("release.sha256", "64 hexadecimal digits");
  const lineage = values.get("lineage");
  if (typeof lineage !== "string" || !BASE64.test(lineage)) damaged("lineage", "base64");
  if (!values.has("compress")) damaged("compress", "true or false");
  const local = fields.mapping("local");
  const said = {
    round,
    release: {
      version: release.text("version", MOST_CHARACTERS),
      sha256: digits,
      bytes: release.integer("bytes", 0, LARGEST_RELEASE),
    },
    clipNorm: numberOf(values, "clip_norm"),
    largestWeight: numberOf(values, "largest_weight"),
    compress: values.get("compress") === true,
  };
  const config = configOf(local, round);
  const secure = values.get("secure") ?? false;
  const written = JSON.stringify([said, [...local].map(([name, value]) => [name, canonical(value)])]);
  return {
    ...said,
    config,
    lineage: fromBase64(lineage),
    secure: secure !== false,
    announcement: announcementOf(secure),
    settingsSha256: await sha256(encodeUtf8(canonicalText(local))),
    digest: await sha256(encodeUtf8(written)),
  };
}

function announcementOf(secure: Json): Uint8Array {
  const found = secure instanceof Map ? secure.get("announcement") : null;
  if (typeof found !== "string") return new Uint8Array();
  return BASE64.test(found) ? fromBase64(found) : damaged("secure.announcement", "base64");
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
  if (typeof value !== "number") damaged(name, "a number");
  return value;
}

function damaged(name: string, expected: string): never {
  throw new CorruptArtifactError(`${SOURCE} is not of this version: ${name}: expected ${expected}`);
}
