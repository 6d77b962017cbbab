/**
 * The binding of a private round: all that its devices must agree on; Python's
 * `client/private/binding.py`.
 *
 * Every key and every mark of a round derives from its digest (beta), so devices that were shown
 * another model, other settings, another roster or another privacy derive other masks, and what a
 * server then adds up is a uniformly random sum. A device hashes what it received and writes none
 * itself.
 */

import { hexadecimal } from "../platform/hashing.js";
import { CorruptArtifactError, PocketQueryError } from "../errors.js";
import { Fields } from "../fields.js";
import { canonicalText } from "../gateway/canonical.js";
import { isInteger, type JsonObject } from "../json.js";
import { repr } from "../python_text.js";
import { decodeUtf8 } from "../utf8.js";
import { checkEncoding, type Encoding } from "./encoding.js";
import { digestOf, PROTOCOL } from "./keys.js";

export const MODES = ["off", "devices"] as const;
export const FEDERATION_BYTES = 16;
export const DIGEST_BYTES = 32;
/** In one group: a device computes the ring of all. */
const MOST_DEVICES = 100_000;
const MOST_ROUNDS = 10 ** 6;
const LONGEST = 4096; // bytes
const SOURCE = "a round's binding";
const NAMES = [
  "encoding", "expiry", "federation", "group", "neighbours", "nonce", "privacy", "protocol",
  "release_sha256", "ring_seed", "roster_sha256", "round", "settings_sha256", "size", "threshold",
];
const ENCODING_NAMES = ["bits", "clip", "exponent", "range", "size"];
const PRIVACY_NAMES = ["counted_on", "mode", "noise_multiplier", "participations", "season"];

/** The noise of a round, and what a device's ledger is charged for it. */
export interface Privacy {
  /** "devices": they add noise before they mask. */
  readonly mode: (typeof MODES)[number];
  /** z, the standard deviation of a sum's noise over a device's sensitivity. */
  readonly noiseMultiplier: number;
  /** m, the honest survivors whose noise is counted on. */
  readonly countedOn: number;
  /** Its name. */
  readonly season: string;
  /** Of a device in a season, at most. */
  readonly participations: number;
}

/** What the devices of one group agree on. */
export interface Binding {
  /** Its id, 16 bytes. */
  readonly federation: Uint8Array;
  readonly round: number;
  readonly group: number;
  /** g, how many devices are in the group. */
  readonly size: number;
  /** k, how many of them each device shares masks with. */
  readonly neighbours: number;
  /** t, how many shares restore a secret. */
  readonly threshold: number;
  /** 32 random bytes that order the ring. */
  readonly ringSeed: Uint8Array;
  /** Hexadecimal digests. */
  readonly releaseSha256: string;
  readonly settingsSha256: string;
  readonly encoding: Encoding;
  readonly privacy: Privacy;
  /** Unix seconds, from which on nothing is revealed any more. */
  readonly expiry: number;
  /** As it came. */
  readonly text: string;
  /** beta: SHA-256 of it. */
  readonly digest: Uint8Array;
}

/** The binding in `data`. Throws CorruptArtifactError: none of this version, or not canonical. */
export function parseBinding(data: Uint8Array): Binding {
  const fields = Fields.ofJson(data, SOURCE, LONGEST);
  const text = decodeUtf8(data);
  if (canonicalText(new Map(fields.entries())) !== text) {
    throw new CorruptArtifactError(`${SOURCE} is not canonical JSON: sorted keys, no blanks`);
  }
  checkNames(fields, NAMES);
  fields.choice("protocol", [PROTOCOL]);
  const size = fields.integer("size", 2, MOST_DEVICES);
  const neighbours = fields.integer("neighbours", 1, size - 1);
  if (neighbours !== size - 1 && neighbours % 2 !== 0) {
    unusable(`neighbours is ${neighbours}, expected ${size - 1} or an even number below it`);
  }
  bytesOf(fields, "nonce", 32);
  digits(fields, "roster_sha256", 32);
  return {
    federation: bytesOf(fields, "federation", FEDERATION_BYTES),
    round: fields.integer("round", 0, Number.MAX_SAFE_INTEGER),
    group: fields.integer("group", 0, MOST_DEVICES),
    size,
    neighbours,
    threshold: fields.integer("threshold", 1, neighbours),
    ringSeed: bytesOf(fields, "ring_seed", 32),
    releaseSha256: digits(fields, "release_sha256", 32),
    settingsSha256: digits(fields, "settings_sha256", 32),
    encoding: encodingOf(fields.child("encoding"), fields.mapping("encoding")),
    privacy: privacyOf(fields.child("privacy"), fields.mapping("privacy")),
    expiry: fields.integer("expiry", 1, 2 ** 32 - 1),
    text,
    digest: digestOf(data),
  };
}

/** `privacy`, where it can be. Throws CorruptArtifactError. */
export function checkPrivacy(privacy: Privacy): Privacy {
  const { mode, noiseMultiplier: noise, countedOn, season, participations } = privacy;
  const isNoisy = mode !== "off";
  const isRight =
    (isNoisy ? noise >= 0.01 && noise <= 1e6 : noise === 0) &&
    within(countedOn, isNoisy ? 1 : 0, MOST_DEVICES) &&
    /^[!-~]{0,64}$/.test(season) &&
    !(isNoisy && season === "") &&
    within(participations, isNoisy ? 1 : 0, MOST_ROUNDS);
  if (!isRight) unusable(`privacy is ${JSON.stringify(privacy)}, which is out of range`);
  return privacy;
}

function privacyOf(fields: Fields, found: JsonObject): Privacy {
  checkNames(fields, PRIVACY_NAMES);
  const season = found.get("season");
  if (typeof season !== "string" || isInteger(found, "noise_multiplier")) unusable("privacy has other types");
  return checkPrivacy({
    mode: fields.choice("mode", MODES),
    noiseMultiplier: numberOf(found, "noise_multiplier"),
    countedOn: fields.integer("counted_on"),
    season,
    participations: fields.integer("participations"),
  });
}

function encodingOf(fields: Fields, found: JsonObject): Encoding {
  checkNames(fields, ENCODING_NAMES);
  try {
    return checkEncoding({
      size: fields.integer("size"),
      bits: fields.integer("bits") as 16 | 32,
      exponent: fields.integer("exponent"),
      range: numberOf(found, "range"),
      clip: numberOf(found, "clip"),
    });
  } catch (error) {
    if (!(error instanceof PocketQueryError)) throw error;
    return unusable(error.message);
  }
}

function within(value: number, least: number, most: number): boolean {
  return Number.isInteger(value) && value >= least && value <= most;
}

function checkNames(fields: Fields, expected: readonly string[]): void {
  const found = fields.names();
  if (found.length !== expected.length || !expected.every((name) => found.includes(name))) {
    unusable(`it has the fields ${found.join(", ").slice(0, 200)}, expected ${expected.join(", ")}`);
  }
}

function numberOf(values: JsonObject, name: string): number {
  const value = values.get(name);
  return typeof value === "number" ? value : unusable(`${name} is no number`);
}

/** A text of so many bytes in lowercase hexadecimal digits. */
function digits(fields: Fields, name: string, bytes: number): string {
  const text = fields.text(name, 2 * bytes);
  const isRight = text.length === 2 * bytes && /^[0-9a-f]*$/.test(text);
  return isRight ? text : unusable(`${name} is ${repr(text)}, expected ${2 * bytes} lowercase hexadecimal digits`);
}

function bytesOf(fields: Fields, name: string, count: number): Uint8Array {
  return bytesOfHex(digits(fields, name, count));
}

/** The bytes of hexadecimal digits. */
export function bytesOfHex(text: string): Uint8Array {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

/** The name of a federation's id, or of a binding's digest. */
export const nameOf = hexadecimal;

function unusable(found: string): never {
  throw new CorruptArtifactError(
    `${SOURCE} cannot be read (${found}); expected one of ${PROTOCOL}. Upgrade the older of server and device`,
  );
}
