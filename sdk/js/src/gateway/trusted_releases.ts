/**
 * Which releases a device trusts: whose signatures it requires, and what is in force; Python's
 * `client/trusted_releases.py`.
 *
 * What is kept only grows: a device that once required signatures keeps requiring them, and a
 * release that was replaced is not taken again, unless its registry's signed statement says that a
 * rollback is meant. Nothing of it is made of queries, and nothing is sent: of a roll-out by shares,
 * the device alone decides whether it is among the first.
 */

import { fromEnd } from "../platform/lists.js";
import { type AdapterRelease, checkFits, parseAdapter, readAdapter } from "../bundle/adapter.js";
import { checkLineageBelongs, follow, parseLineage } from "../bundle/lineage.js";
import { ENCODER_FILE, type Manifest } from "../bundle/manifest.js";
import { type Key, keyId, rawKey } from "../bundle/signature.js";
import { hexadecimal } from "../platform/hashing.js";
import {
  isOlder,
  parseStatement,
  type Statement,
  statementBytes,
  type Target,
  targetFor,
} from "../bundle/statement.js";
import { ArtifactError, CorruptArtifactError, RollbackError, SignatureError } from "../errors.js";
import { checkOptions } from "../texts.js";
import { Fields } from "../fields.js";
import { decodeUtf8, encodeUtf8 } from "../utf8.js";
import { type DevicePlace, TRUSTED_RELEASES } from "./place.js";

const FORMAT = "pocketquery-trusted-releases";
const VERSION = 1;
const LARGEST = 1 << 20;
const ATTEMPTS = 8; // of another tab that writes meanwhile

/** What is in force for one encoder. */
interface InForce {
  readonly version: string;
  readonly statement: Statement | null;
}

interface State {
  /** Hexadecimal. */
  readonly publicKey: string;
  readonly secret: string;
  /** By the SHA-256 of the encoder. */
  readonly encoders: ReadonlyMap<string, InForce>;
}

/** How a device's trust begins. */
export interface TrustOptions {
  /** Whose releases and statements to take; absent: of the key that was given first. */
  readonly publicKey?: Key | undefined;
  /** The lost key that `publicKey` takes the place of; what was in force is forgotten. */
  readonly replaces?: Key | undefined;
}

/** What one device trusts. Without a key, now and ever before: what is sound in itself. */
export class TrustedReleases {
  readonly #place: DevicePlace;
  #publicKey: string | null = null;

  private constructor(place: DevicePlace) {
    this.#place = place;
  }

  /**
   * What the device at `place` trusts.
   *
   * Throws SignatureError (another key is given than the one that is required), InvalidInputError
   * (the key is none), CorruptArtifactError or ArtifactError.
   */
  static async open(place: DevicePlace, options: TrustOptions = {}): Promise<TrustedReleases> {
    const { publicKey, replaces } = checkOptions(options, { publicKey: true, replaces: true });
    const trusted = new TrustedReleases(place);
    const given = publicKey === undefined ? null : hexadecimal(rawKey(publicKey));
    const old = replaces === undefined ? null : hexadecimal(rawKey(replaces));
    trusted.#publicKey = await trusted.#change(async (state) => {
      if (state === null) {
        if (given === null) return { result: null };
        const secret = hexadecimal(crypto.getRandomValues(new Uint8Array(32)));
        return { result: given, next: { publicKey: given, secret, encoders: new Map() } };
      }
      if (given === null || given === state.publicKey) return { result: state.publicKey };
      const lasting = lastingKeys(state);
      if (lasting.has(given)) return { result: given, next: { ...state, publicKey: given } };
      if (old === null || !(old === state.publicKey || lasting.has(old))) {
        throw await refusedKey(place.name, given, new Set([state.publicKey, ...lasting]));
      }
      return { result: given, next: { ...state, publicKey: given, encoders: new Map() } };
    });
    return trusted;
  }

  /** The key that signatures are required of, hexadecimal; null where none is. */
  get publicKey(): string | null {
    return this.#publicKey;
  }

  /**
   * Believe a registry's statements, where they may follow what is known; kept when this returns.
   *
   * Throws RollbackError, SignatureError, SpaceMismatchError, CorruptArtifactError,
   * UnsupportedVersionError; or ArtifactError (no space; what was known is known still).
   */
  async follow(lineage: Uint8Array, manifest: Manifest, name = "the lineage"): Promise<void> {
    const publicKey = this.#publicKey;
    if (publicKey === null) return;
    const statements = parseLineage(lineage, name);
    checkLineageBelongs(fromEnd(statements) as Statement, manifest, name);
    await this.#change(async (state) => {
      const known = inForceOf(state, manifest);
      const options = { known: known?.statement ?? null, publicKey, name };
      const newest = await follow(statements, { ...options, ...(known && { version: known.version }) });
      if (newest === known?.statement) return { result: undefined };
      const next = withInForce(state, manifest, { version: newest.release.version, statement: newest });
      return { result: undefined, next };
    });
  }

  /** Which release to search with; null where no statement is known. */
  async target(manifest: Manifest): Promise<Target | null> {
    const state = this.#publicKey === null ? null : await this.#read();
    const statement = inForceOf(state, manifest)?.statement ?? null;
    return state === null || statement === null ? null : targetFor(statement, bytesOfHex(state.secret));
  }

  /**
   * The release in `data`, where it is the one to search with, by what is known and by the `lineage`
   * that came with it.
   *
   * Throws RollbackError (it is another, or an older one), SignatureError (neither signed by the key
   * nor vouched for by a statement), SpaceMismatchError, CorruptArtifactError,
   * UnsupportedVersionError. And as `follow`.
   */
  releaseForSearch(data: Uint8Array, lineage: Uint8Array, manifest: Manifest): Promise<AdapterRelease> {
    return this.#release(data, lineage, manifest, "the release", true);
  }

  /** The release in `data`, where it is the one in force, which rounds train from. */
  releaseForTraining(data: Uint8Array, lineage: Uint8Array, manifest: Manifest): Promise<AdapterRelease> {
    return this.#release(data, lineage, manifest, "the adapter", false);
  }

  async #release(
    data: Uint8Array,
    lineage: Uint8Array,
    manifest: Manifest,
    name: string,
    searching: boolean,
  ): Promise<AdapterRelease> {
    if (this.#publicKey === null) return readAdapter(data, manifest, undefined, name);
    if (lineage.length > 0) await this.follow(lineage, manifest, `${name}'s lineage`);
    const known = inForceOf(await this.#read(), manifest)?.statement ?? null;
    if (known === null) return this.#withoutStatement(data, manifest, name);
    const wanted = searching ? ((await this.target(manifest)) as Target) : known.release;
    const release = await parseAdapter(data, name);
    if (release.sha256 !== wanted.sha256) {
      throw new RollbackError(
        `${name}: release ${release.version} with SHA-256 ${release.sha256} was offered, statement ` +
          `${known.sequence} of its registry expects release ${wanted.version} with ${wanted.sha256} ` +
          "here; an old one was replayed, or its statement is missing. Fetch release and lineage again",
      );
    }
    checkFits(release, manifest, name);
    return { ...release, signedBy: [...known.signatures.keys()][0] ?? null };
  }

  /** A release of a registry that makes no statements yet: its own signature counts. */
  #withoutStatement(data: Uint8Array, manifest: Manifest, name: string): Promise<AdapterRelease> {
    return this.#change(async (state) => {
      const release = await readAdapter(data, manifest, this.#publicKey as string, name);
      const known = inForceOf(state, manifest);
      if (known !== undefined && isOlder(release.version, known.version)) {
        throw new RollbackError(
          `${name}: release ${release.version} is older than release ${known.version}, which is in ` +
            "force here, and comes without its registry's word that a rollback is meant; fetch the " +
            "newest, with its lineage",
        );
      }
      const next = withInForce(state, manifest, { version: release.version, statement: null });
      return { result: release, next };
    });
  }

  async #read(): Promise<State | null> {
    return stateOf(await this.#place.read(TRUSTED_RELEASES), this.#place.name);
  }

  /** What `work` makes of the state, kept where nobody else wrote meanwhile; else once more. */
  async #change<T>(work: (state: State | null) => Promise<{ result: T; next?: State }>): Promise<T> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const data = await this.#place.read(TRUSTED_RELEASES);
      const { result, next } = await work(stateOf(data, this.#place.name));
      if (next === undefined) return result;
      if (await this.#place.replace(TRUSTED_RELEASES, data, packed(next))) return result;
    }
    throw new ArtifactError(`${this.#place.name}: others write it all the time; try again`);
  }
}

function inForceOf(state: State | null, manifest: Manifest): InForce | undefined {
  return state?.encoders.get(encoderOf(manifest));
}

function withInForce(state: State | null, manifest: Manifest, found: InForce): State {
  const known = state as State; // a key is required, so something is kept
  return { ...known, encoders: new Map([...known.encoders, [encoderOf(manifest), found]]) };
}

function encoderOf(manifest: Manifest): string {
  return manifest.files.get(ENCODER_FILE)?.sha256 ?? "";
}

function lastingKeys({ encoders }: State): Set<string> {
  const keys = [...encoders.values()].flatMap(({ statement }) => statement?.keys ?? []);
  return new Set(keys.filter(({ until }) => until === null).map(({ key }) => key));
}

async function refusedKey(name: string, given: string, required: Iterable<string>): Promise<SignatureError> {
  const found = await keyId(given);
  const expected = (await Promise.all([...required].map((key) => keyId(key)))).sort().join(", ");
  return new SignatureError(
    `${name}: the public key ${found} is given, this device requires signatures by ${expected}; give ` +
      `that one. Where it was lost and ${found} takes its place, name the lost one as what it replaces`,
  );
}

function packed({ publicKey, secret, encoders }: State): Uint8Array {
  const known = [...encoders].map(([encoder, { version, statement }]) => {
    return [encoder, { version, statement: statement && decodeUtf8(statementBytes(statement)) }];
  });
  const kept = { format: FORMAT, format_version: VERSION, public_key: publicKey, secret };
  return encodeUtf8(JSON.stringify({ ...kept, encoders: Object.fromEntries(known) }));
}

function stateOf(data: Uint8Array | null, place: string): State | null {
  if (data === null) return null;
  const name = `${place}: ${TRUSTED_RELEASES}`;
  const fields = Fields.ofJson(data, name, LARGEST);
  fields.choice("format", [FORMAT]);
  if (fields.integer("format_version") !== VERSION) {
    throw new CorruptArtifactError(`${name} is of another version; upgrade pocketquery`);
  }
  const [publicKey, secret] = [fields.text("public_key", 64), fields.text("secret", 64)];
  if (![publicKey, secret].every((digits) => /^[0-9a-f]{64}$/.test(digits))) {
    throw new CorruptArtifactError(
      `${name} is damaged, expected a key and a secret of 64 hexadecimal digits; no release is taken ` +
        "while it lies there, and where it is removed, what this device required is forgotten with it",
    );
  }
  const all = fields.child("encoders");
  const encoders = all.names().map((encoder): [string, InForce] => {
    const one = all.child(encoder);
    const line = one.textOrNull("statement");
    const statement = line === null ? null : parseStatement(encodeUtf8(line), name);
    return [encoder, { version: one.text("version"), statement }];
  });
  return { publicKey, secret, encoders: new Map(encoders) };
}

function bytesOfHex(digits: string): Uint8Array {
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
