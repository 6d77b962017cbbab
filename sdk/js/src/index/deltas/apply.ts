/** From an index to the next version of it, in memory: the publisher's files stay as they are. */
import { fromEnd } from "../../platform/lists.js";
import type { Key } from "../../bundle/signature.js";
import {
  ArtifactError,
  CorruptArtifactError,
  InvalidInputError,
  SignatureError,
} from "../../errors.js";
import { kindOf, repr } from "../../python_text.js";
import { type Added, analyzed } from "../added.js";
import { rowBytes } from "../vectors/vectors.js";
import type { Base, BaseDocuments } from "./base.js";
import { contentsSha256 } from "./contents_hash.js";
import { type Changes, Delta } from "./delta.js";
import { checkDeltaSpace } from "./manifest.js";
import { PatchedDocuments } from "./patched.js";

/**
 * `base` after the deltas, each the whole file, in the order in which they were made. Those that
 * led to what `base` holds already are passed over.
 *
 * @param isHashed whether what comes of it is held to the hash that the last delta names
 * @param publicKey every delta must be signed by its private half
 * @throws ArtifactError a delta was made from another index
 * @throws SpaceMismatchError a delta is of another space
 * @throws SignatureError with a key: a delta is not signed by it; without: the index says it is
 *   signed and a delta is not
 * @throws CorruptArtifactError, UnsupportedVersionError a delta cannot be used
 */
export async function withDeltas<T extends Base>(
  base: T,
  deltas: readonly Uint8Array[],
  isHashed: boolean,
  publicKey?: Key,
): Promise<T> {
  checkList(deltas);
  const opened = await Promise.all(
    deltas.map((bytes, i) => Delta.open(bytes, `deltas[${i}]`, publicKey)),
  );
  checkChain(base, opened);
  const last = fromEnd(opened);
  if (!last) return base;
  if (base.documents.deleted.length) {
    throw new ArtifactError(
      `${base.name} was changed after it was made: documents of it were deleted. Expected the ` +
        `index that ${opened[0]!.name} was made from; fetch the whole index`,
    );
  }
  // What comes out of it is hashed, and that tells whether `base` was the right one.
  let failed: unknown;
  try {
    const made = await applied(base, opened);
    if (!isHashed) return made;
    if (contentsOf(made) === last.manifest.new.sha256) return made;
  } catch (error) {
    failed = error;
  }
  const found = contentsOf(base);
  if (found === last.manifest.new.sha256) return base;
  const first = opened.findIndex(({ manifest }) => manifest.old.sha256 === found);
  if (first > 0) return withDeltas(base, deltas.slice(first), isHashed, publicKey);
  const { name, manifest } = opened[0]!;
  if (first < 0) {
    throw new ArtifactError(
      `${base.name} has ${base.documents.count} documents, contents ${found}; ${name} was made ` +
        `from an index of ${manifest.old.documents}, contents ${manifest.old.sha256}. Fetch the ` +
        "delta that was made from this one, or the whole index",
    );
  }
  if (failed !== undefined) throw failed;
  throw new ArtifactError(
    `${last.name} leads to contents of another SHA-256 here, expected ${last.manifest.new.sha256}. ` +
      "Fetch the whole index",
  );
}

function checkList(deltas: unknown): void {
  const isList = Array.isArray(deltas);
  const place = isList ? deltas.findIndex((one) => !(one instanceof Uint8Array)) : -1;
  if (isList && place < 0) return;
  const found = isList ? `a list with ${kindOf(deltas[place])} in it` : kindOf(deltas);
  throw new InvalidInputError(
    `deltas is ${found}, expected a list of Uint8Array, the bytes of the files`,
  );
}

function checkChain(base: Base, deltas: readonly Delta[]): void {
  for (const [i, { name, manifest }] of deltas.entries()) {
    checkDeltaSpace(base.name, base, manifest);
    if (base.signatureKeyId !== null && manifest.signatureKeyId === null) {
      throw new SignatureError(
        `${base.name} says it is signed by the key ${repr(base.signatureKeyId)} and ${name} is not ` +
          "signed; expected a signed delta. Fetch it from its publisher",
      );
    }
    const before = deltas[i - 1];
    if (before && before.manifest.new.sha256 !== manifest.old.sha256) {
      throw new ArtifactError(
        `${name} leads on from contents ${manifest.old.sha256}, and ${before.name} leads to ` +
          `${before.manifest.new.sha256}; expected the deltas in the order in which they were made`,
      );
    }
  }
}

/** The hash of what an index holds. */
export function contentsOf({ documents, rows, spaceId, dimension, analyzer }: Base): string {
  return contentsSha256(documents, rows, { spaceId, dimension, language: analyzer.language });
}

async function applied<T extends Base>(base: T, deltas: readonly Delta[]): Promise<T> {
  let [documents, rows] = [base.documents, base.rows];
  for (const delta of deltas) {
    if (delta.manifest.old.documents !== documents.count) {
      throw new ArtifactError(`${delta.name} was made from another index`); // which, is said above
    }
    const changes = await delta.read();
    checkIds(documents, changes, delta);
    rows = merged(rows, changes, rowBytes(base.dimension));
    const came: Added[] = [];
    for (const { document, vector } of changes.entries) came.push(await analyzed(base.analyzer, document, vector));
    documents = new PatchedDocuments(documents, changes, came, delta.name);
  }
  return { ...base, documents, rows };
}

/** Hold what a delta says of ids against the index: what goes, what comes, what changes. */
function checkIds(documents: BaseDocuments, changes: Changes, { name, manifest }: Delta): void {
  const kept = new Uint8Array(documents.count);
  for (const row of changes.order) if (row >= 0) kept[row] = 1;
  const gone = new Set<string>();
  for (const [row, isKept] of kept.entries()) if (!isKept) gone.add(documents.texts(row).id);
  const ids = new Set(changes.entries.map(({ texts }) => texts.id));
  const isNew = (id: string) => {
    const row = documents.rowOf(id);
    return row === undefined || !kept[row];
  };
  const changed = [...gone].filter((id) => ids.has(id));
  const removed = new Set(changes.removed);
  const agrees =
    changed.length === manifest.changed &&
    gone.size - changed.length === removed.size &&
    [...removed].every((id) => gone.has(id) && !ids.has(id)) &&
    ids.size === changes.entries.length &&
    [...ids].every(isNew);
  if (agrees) return;
  throw new CorruptArtifactError(
    `${name} names other documents than go, come and change in the index; it was made wrongly. ` +
      "Fetch the whole index",
  );
}

/** The vectors in the new order. */
function merged(old: Uint8Array, { order, entries }: Changes, width: number): Uint8Array {
  const rows = new Uint8Array(order.length * width);
  let next = 0;
  for (const [row, from] of order.entries()) {
    const vector = from < 0 ? entries[next++]!.vector : old.subarray(from * width, (from + 1) * width);
    rows.set(vector, row * width);
  }
  return rows;
}
