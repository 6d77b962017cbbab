/**
 * One signed statement of a registry: which release is in force, for whom, and who may say so next.
 * Python's `sdk/bundle/statement.py`; what a device makes of several is in `lineage.ts`.
 */

import { CorruptArtifactError, UnsupportedVersionError } from "../errors.js";
import { Fields } from "../fields.js";
import type { Json } from "../json.js";
import { byCodePoint, repr, shortened } from "../python_text.js";
import { encodeUtf8 } from "../utf8.js";
import { sha256 } from "../platform/hashing.js";
import { DIGITS } from "../tokenizer/unicode_classes.js";

const FORMAT = "pocketquery-statement";
const VERSION = 1;
const LARGEST_STATEMENT = 16_384; // bytes
const MOST_KEYS = 16; // that may sign at once
const WHOLE = 1_000_000; // shares of a roll-out are whole millionths
const MOST_CHARACTERS = 1024; // of a version, an id; as in a release

/** A release that a statement vouches for: its version, and the SHA-256 of its file. */
export interface Target {
  readonly version: string;
  readonly sha256: string;
}

/** A key that may sign statements. */
export interface StatementKey {
  /** An Ed25519 public key, 64 hexadecimal digits. */
  readonly key: string;
  /** The last statement it may sign; null: there is no last. */
  readonly until: number | null;
}

/** A release that some devices search with already, and the others not yet. */
export interface RollOut {
  /** Of the devices that do, in millionths. */
  readonly share: number;
  /** 64 hexadecimal digits; with the device's secret they decide. */
  readonly salt: string;
  /** What the others search with. */
  readonly rest: Target;
}

/** One statement; whether it is signed by anybody to be trusted, `follow` says. */
export interface Statement {
  readonly spaceId: string;
  /** Of the `encoder.onnx` that the releases belong to. */
  readonly encoderSha256: string;
  /** Its number, from 1. */
  readonly sequence: number;
  /** Who may sign what follows. */
  readonly keys: readonly StatementKey[];
  /** What is in force. */
  readonly release: Target;
  /** The newest version that was withdrawn for an older one, or null. */
  readonly rollbackFrom: string | null;
  /** Which share of the devices searches with it; null: all. */
  readonly rollOut: RollOut | null;
  /** 128 hexadecimal digits each, by the id of the key that made them. */
  readonly signatures: ReadonlyMap<string, string>;
}

/** The statement in `line`, by whomever signed. Throws CorruptArtifactError or UnsupportedVersionError. */
export function parseStatement(line: Uint8Array, name = "the statement"): Statement {
  const outer = Fields.ofJson(line, name, LARGEST_STATEMENT);
  const fields = outer.child("signed");
  checkFormat(fields, name);
  const signatures = outer.texts("signatures", MOST_KEYS);
  for (const digits of signatures.values()) checkDigits(digits, 64, name);
  const found: Statement = {
    spaceId: fields.text("space_id", MOST_CHARACTERS),
    encoderSha256: fields.text("encoder_sha256", MOST_CHARACTERS),
    sequence: fields.integer("sequence", 1, Number.MAX_SAFE_INTEGER),
    keys: fields.sequence("keys", MOST_KEYS).map((item) => keyOf(item, name)),
    release: targetOf(fields.child("release")),
    rollbackFrom: fields.textOrNull("rollback_from", MOST_CHARACTERS),
    rollOut: rollOutOf(fields, name),
    signatures,
  };
  const written = statementBytes(found);
  if (written.length !== line.length || written.some((byte, i) => byte !== line[i])) {
    throw new CorruptArtifactError(
      `${name}: not in the bytes a statement is written in; it was changed. Fetch it again`,
    );
  }
  checkSense(found, name);
  return found;
}

/** The line that `parseStatement` reads, without its end. */
export function statementBytes(statement: Statement): Uint8Array {
  const signatures = Object.fromEntries(statement.signatures);
  return encodeUtf8(canonical({ signatures, signed: signedFields(statement) }));
}

/** What the signatures are over: canonical JSON. */
export function signedBytes(statement: Statement): Uint8Array {
  return encodeUtf8(canonical(signedFields(statement)));
}

/** What the device with this secret, 32 bytes, searches with. Throws MissingExtraError. */
export async function targetFor(statement: Statement, secret: Uint8Array): Promise<Target> {
  const { rollOut, release } = statement;
  if (rollOut === null) return release;
  const salt = Uint8Array.from(rollOut.salt.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
  const drawn = await sha256(Uint8Array.from([...secret, ...salt]));
  const first = BigInt(`0x${drawn.slice(0, 16)}`);
  return first * BigInt(WHOLE) < BigInt(rollOut.share) << 64n ? release : rollOut.rest;
}

/**
 * Whether `version` is older than `other`, as a registry counts: runs of digits are numbers, and
 * what is longer is newer ("9" before "10", "2026-11" before "2026-11.1").
 */
export function isOlder(version: string, other: string): boolean {
  const [left, right] = [runsOf(version), runsOf(other)];
  for (const [i, run] of left.entries()) {
    const its = right[i];
    if (its === undefined) return false;
    if (run === its) continue;
    if (typeof run === "string") return typeof its === "bigint" || byCodePoint(run, its) < 0;
    return typeof its === "bigint" && run < its; // a number is newer than what is none
  }
  return left.length < right.length;
}

function runsOf(version: string): (string | bigint)[] {
  const runs: string[][] = [];
  let before: boolean | null = null;
  for (const character of version) {
    const isDigit = DIGITS.begins(character);
    if (isDigit === before) runs[runs.length - 1]!.push(character);
    else runs.push([character]);
    before = isDigit;
  }
  return runs.map((run) => (DIGITS.begins(run[0]!) ? BigInt(run.map(digitOf).join("")) : run.join("")));
}

/** What a digit of any script is worth: scripts' digits stand in tens, the zero first. */
function digitOf(digit: string): number {
  const point = digit.codePointAt(0) as number;
  let before = 0;
  while (DIGITS.has(point - before - 1)) before++;
  return before % 10;
}

function checkFormat(fields: Fields, name: string): void {
  const found = fields.text("format", MOST_CHARACTERS);
  if (found !== FORMAT) {
    throw new CorruptArtifactError(
      `${name}: found ${repr(found)}, expected a statement (${repr(FORMAT)})`,
    );
  }
  const version = fields.integer("format_version", 1);
  if (version > VERSION) {
    throw new UnsupportedVersionError(
      `${name}: format_version is ${version}, this release reads up to ${VERSION}; update ` +
        "pocketquery",
    );
  }
}

/** What each field alone does not show. */
function checkSense(found: Statement, name: string): void {
  const { version } = found.release;
  const lasting = found.keys.some(({ until }) => until === null);
  let wrong = "";
  if (new Set(found.keys.map(({ key }) => key)).size < found.keys.length || !lasting) {
    wrong = "keys of which two are equal or each has an end, expected different ones, of which one has no end";
  } else if (found.rollbackFrom !== null && !isOlder(version, found.rollbackFrom)) {
    wrong = `a rollback from ${shortened(found.rollbackFrom)} to ${shortened(version)}`;
  } else if (found.rollOut !== null && !isOlder(found.rollOut.rest.version, version)) {
    wrong = `a roll-out from ${shortened(found.rollOut.rest.version)} to ${shortened(version)}`;
  }
  if (wrong) throw new CorruptArtifactError(`${name}: found ${wrong}; it was not made by a registry`);
}

function keyOf(item: Json, name: string): StatementKey {
  if (!(item instanceof Map)) {
    throw new CorruptArtifactError(`${name}: field 'keys': expected objects`);
  }
  const fields = new Fields(item, name, "keys.");
  const key = fields.text("key");
  checkDigits(key, 32, name);
  return { key, until: item.get("until") === null ? null : fields.integer("until", 1, Number.MAX_SAFE_INTEGER) };
}

function targetOf(fields: Fields): Target {
  return {
    version: fields.text("version", MOST_CHARACTERS),
    sha256: fields.text("sha256", MOST_CHARACTERS),
  };
}

function rollOutOf(fields: Fields, name: string): RollOut | null {
  if (new Map(fields.entries()).get("roll_out") === null) return null;
  const found = fields.child("roll_out");
  const salt = found.text("salt");
  checkDigits(salt, 32, `${name}: roll_out.salt`);
  return { share: found.integer("share", 0, WHOLE - 1), salt, rest: targetOf(found.child("rest")) };
}

function checkDigits(text: string, bytes: number, name: string): void {
  if (text.length !== 2 * bytes || !/^[0-9a-f]*$/.test(text)) {
    throw new CorruptArtifactError(
      `${name}: found ${repr(shortened(text))}, expected ${2 * bytes} hexadecimal digits`,
    );
  }
}

function signedFields(statement: Statement): object {
  const { rollOut } = statement;
  return {
    format: FORMAT,
    format_version: VERSION,
    space_id: statement.spaceId,
    encoder_sha256: statement.encoderSha256,
    sequence: statement.sequence,
    keys: statement.keys.map(({ key, until }) => ({ key, until })),
    release: { ...statement.release },
    rollback_from: statement.rollbackFrom,
    roll_out: rollOut === null ? null : { share: rollOut.share, salt: rollOut.salt, rest: { ...rollOut.rest } },
  };
}

/** JSON with sorted keys and no blanks. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).sort(([a], [b]) => byCodePoint(a, b));
  return `{${fields.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(",")}}`;
}
