/**
 * The lineage of releases: what a device makes of a registry's signed statements.
 *
 * A release proves who made it, not that it is the one to use now: an old one, replayed, is as well
 * signed as the newest. So a registry that signs also says which release is in force, with a number
 * that grows. Python's `sdk/bundle/lineage.py`; where what was followed is kept is the app's to say.
 */

import { fromEnd } from "../platform/lists.js";
import { CorruptArtifactError, RollbackError, SignatureError, SpaceMismatchError } from "../errors.js";
import { repr, shortened } from "../python_text.js";
import { ENCODER_FILE, type Manifest } from "./manifest.js";
import { checkSignature, type Key, keyId, rawKey } from "./signature.js";
import { hexadecimal } from "../platform/hashing.js";
import { isOlder, parseStatement, signedBytes, type Statement, type StatementKey } from "./statement.js";

const LARGEST_LINEAGE = 65_536; // bytes; a statement has some 600

/** What `follow` is told beside the statements. */
export interface FollowOptions {
  /** The newest statement that was followed so far; absent: this is the first lineage. */
  readonly known?: Statement | null;
  /** Whom to believe then. */
  readonly publicKey: Key;
  /** Of the release in force, where it came without a statement. */
  readonly version?: string;
  /** How an error calls the lineage. */
  readonly name?: string;
}

/**
 * The statements in `data`, one or more, their numbers growing; by whomever signed.
 * Throws CorruptArtifactError or UnsupportedVersionError.
 */
export function parseLineage(data: Uint8Array, name = "the lineage"): Statement[] {
  if (data.length > LARGEST_LINEAGE) {
    throw new CorruptArtifactError(
      `${name}: more than ${LARGEST_LINEAGE} bytes, which no lineage has`,
    );
  }
  if (fromEnd(data) !== 10) {
    throw new CorruptArtifactError(
      `${name}: found no statements, expected one a line, the last line ended too`,
    );
  }
  const found: Statement[] = [];
  for (let begin = 0; begin < data.length; ) {
    const end = data.indexOf(10, begin);
    found.push(parseStatement(data.subarray(begin, end), `${name}, line ${found.length + 1}`));
    begin = end + 1;
  }
  for (const [i, one] of found.entries()) {
    const before = found[i - 1];
    if (before === undefined) continue;
    if (before.sequence >= one.sequence) {
      throw new CorruptArtifactError(
        `${name}: statements ${before.sequence} and ${one.sequence}, expected numbers that grow`,
      );
    }
    if (before.spaceId !== one.spaceId || before.encoderSha256 !== one.encoderSha256) {
      throw new CorruptArtifactError(
        `${name}: its statements are of several encoders, expected one`,
      );
    }
  }
  return found;
}

/**
 * See that statements are of releases for the bundle of `manifest`. Throws SpaceMismatchError, or
 * CorruptArtifactError where they are for another `encoder.onnx`.
 */
export function checkLineageBelongs(
  statement: Statement,
  manifest: Manifest,
  name = "the lineage",
): void {
  const bundle = `the bundle ${repr(manifest.name)}`;
  const mend = "fetch the lineage of this bundle's releases";
  if (statement.spaceId !== manifest.space.id) {
    throw new SpaceMismatchError(
      `${name}: the adapter is of space ${statement.spaceId}, ${bundle} lives in space ` +
        `${manifest.space.id}; ${mend}`,
    );
  }
  const expected = manifest.files.get(ENCODER_FILE)?.sha256;
  if (statement.encoderSha256 !== expected) {
    throw new CorruptArtifactError(
      `${name}: the adapter is for the ${ENCODER_FILE} with SHA-256 ${statement.encoderSha256}, ` +
        `${bundle} has ${expected}; ${mend}`,
    );
  }
}

/**
 * The newest of `statements`, where each may follow the one before; with the signatures that were
 * checked. What is known, where there is no newer.
 *
 * Throws RollbackError (the newest is older than what is known, or another with the same number; or
 * an older release is put in force and no statement says that a rollback is meant), SignatureError
 * (one is not signed by a key that may sign it), or MissingExtraError (no Ed25519).
 */
export async function follow(statements: readonly Statement[], options: FollowOptions): Promise<Statement> {
  const { publicKey, version, name = "the lineage" } = options;
  let known = options.known ?? null;
  let waiting = statements;
  if (known === null) waiting = await fromFirstSigned(statements, publicKey, name);
  else checkNotReplayed(fromEnd(statements) as Statement, known, name);
  const first: readonly StatementKey[] = [{ key: hexadecimal(rawKey(publicKey)), until: null }];
  for (const one of waiting) {
    if (known !== null && one.sequence <= known.sequence) {
      checkSame(one, known, name);
      continue;
    }
    const keys: readonly StatementKey[] = known === null ? first : known.keys;
    const verified = await checkSigned(one, keys, name);
    if (known !== null) await checkKeys(one, keys, verified, name);
    const inForce: string | undefined = known === null ? version : known.release.version;
    if (inForce !== undefined) checkVersion(one, inForce, name);
    known = { ...one, signatures: verified };
  }
  return known as Statement;
}

/** `statements` from the first on that the key signed: those before it are of keys it replaced. */
async function fromFirstSigned(
  statements: readonly Statement[],
  publicKey: Key,
  name: string,
): Promise<readonly Statement[]> {
  const signer = await keyId(publicKey);
  const place = statements.findIndex(({ signatures }) => signatures.has(signer));
  if (place >= 0) return statements.slice(place);
  const signers = [...new Set(statements.flatMap(({ signatures }) => [...signatures.keys()]))];
  throw new SignatureError(
    `${name}: no statement is signed by the key ${signer}, found ${signers.join(", ") || "none"}; ` +
      "it comes from somebody else, or the key was replaced before this device could follow. " +
      "Fetch it from its publisher, or update the app that names the key",
  );
}

function checkNotReplayed(newest: Statement, known: Statement, name: string): void {
  if (newest.sequence >= known.sequence) return;
  throw new RollbackError(
    `${name}: the newest statement is number ${newest.sequence} (release ` +
      `${shortened(newest.release.version)}), this device follows number ${known.sequence} ` +
      `(release ${shortened(known.release.version)}), expected that or a later one; an old ` +
      "answer was replayed. Fetch it again from the registry",
  );
}

function checkSame(one: Statement, known: Statement, name: string): void {
  if (one.sequence < known.sequence) return;
  const [left, right] = [signedBytes(one), signedBytes(known)];
  if (left.length === right.length && left.every((byte, i) => byte === right[i])) return;
  throw new RollbackError(
    `${name}: statement ${one.sequence} puts release ${shortened(one.release.version)} in force, ` +
      `this device has another statement ${known.sequence}, with release ` +
      `${shortened(known.release.version)}; the registry was set back to a copy, or its key is in ` +
      "other hands. Ask its publisher",
  );
}

/** The signatures of `one` that were made by `keys` that may sign it; at least one. */
async function checkSigned(
  one: Statement,
  keys: readonly StatementKey[],
  name: string,
): Promise<Map<string, string>> {
  const verified = new Map<string, string>();
  for (const { key, until } of keys) {
    const signer = await keyId(key);
    const digits = one.signatures.get(signer);
    if (digits === undefined || (until !== null && one.sequence > until)) continue;
    const signature = Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
    try {
      await checkSignature(signedBytes(one), signature, key, "statement");
      verified.set(signer, digits);
    } catch (error) {
      if (!(error instanceof SignatureError)) throw error;
    }
  }
  if (verified.size === 0) {
    const may = keys.filter(({ until }) => until === null || one.sequence <= until);
    const expected = await Promise.all(may.map(({ key }) => keyId(key)));
    throw new SignatureError(
      `${name}: statement ${one.sequence} names the signers ` +
        `${[...one.signatures.keys()].join(", ") || "nobody"} and none of them signed it rightly, ` +
        `expected one of ${expected.join(", ") || "none"}; it was changed, comes from somebody ` +
        "else, or statements before it are missing. Fetch the whole lineage from its publisher",
    );
  }
  return verified;
}

/** A key that is being replaced says what is in force until its end, not who may. */
async function checkKeys(
  one: Statement,
  keys: readonly StatementKey[],
  verified: ReadonlyMap<string, string>,
  name: string,
): Promise<void> {
  if (JSON.stringify(one.keys) === JSON.stringify(keys)) return;
  const lasting = await Promise.all(
    keys.filter(({ until }) => until === null).map(({ key }) => keyId(key)),
  );
  if (lasting.some((id) => verified.has(id))) return;
  throw new SignatureError(
    `${name}: statement ${one.sequence} changes the keys and is signed by ` +
      `${[...verified.keys()].join(", ")}, which is being replaced; expected ${lasting[0]}. Ask its ` +
      "publisher",
  );
}

function checkVersion(one: Statement, inForce: string, name: string): void {
  const { version } = one.release;
  if (!isOlder(version, inForce)) return;
  if (one.rollbackFrom !== null && !isOlder(one.rollbackFrom, inForce)) return;
  throw new RollbackError(
    `${name}: statement ${one.sequence} puts release ${shortened(version)} in force, older than ` +
      `release ${shortened(inForce)}, which is in force here, and does not say that a rollback is meant`,
  );
}
