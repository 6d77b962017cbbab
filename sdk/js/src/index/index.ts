/**
 * The index on the device: the folder that Python builds, opened and searched anywhere.
 *
 *     const index = await openIndex(source, { encoder });
 *     for (const hit of await index.search("when was the bridge built", { k: 3 })) {
 *       console.log(hit.score, hit.id, hit.text);
 *     }
 *
 * The publisher's files are never changed. What is added and deleted here goes to a
 * {@link ChangeStore} and is merged at search, so that the results are those of a Python index to
 * which the same was done.
 */
import { fromEnd } from "../platform/lists.js";
import { first, giveWay, throwIfAborted } from "../platform/cancelling.js";
import { ChangedElsewhereError, InvalidInputError, PocketQueryError, SpaceMismatchError } from "../errors.js";
import { type CacheOption, withCache } from "../files/cache/cache.js";
import { checkSource, type FileSource, type Progress } from "../files/source.js";
import { kindOf, repr, show } from "../python_text.js";
import type { Key } from "../bundle/signature.js";
import { checkOptions, checkText, type Names } from "../texts.js";
import { Analyzer } from "../words/analyzer.js";
import { type LoadProgram, loadProgram } from "../words/languages.js";
import { withoutOperators } from "../words/query.js";
import { type Added, analyzed } from "./added.js";
import type { ChangeStore } from "./changes/change_store.js";
import type { Journal } from "./changes/journal.js";
import { Contents } from "./contents.js";
import { checkDocument, content, type Document, type Metadata, type NewDocument } from "./document.js";
import { NoDocuments } from "./deltas/base.js";
import { compileFilter } from "./filters.js";
import { type Check, INFO, readFolder } from "./folder.js";
import { bestOfGroups } from "./group.js";
import { languageFilter } from "./languages.js";
import {
  ADD_OPTIONS,
  type AddOptions,
  type CheckedQuery,
  checkQuery,
  type QueryEncoder,
  SEARCH_OPTIONS,
  type SearchOptions,
} from "./query.js";
import { quantize, unitVector, type VectorLike } from "./vectors/vectors.js";

export { absentPhrases } from "./absent_phrases.js";
export { type ChangeStore, checkWritten, MemoryChanges, type Written, writtenIn } from "./changes/change_store.js";
export { IndexedDbChanges } from "./changes/indexed_db_changes.js";
export type { Document, Metadata, NewDocument } from "./document.js";
export { type FacetCount, type FacetOptions, facets, fields, unknownFields } from "./facets.js";
export type { Filter } from "./filters.js";
export type { AddOptions, Mode, QueryEncoder, SearchOptions } from "./query.js";
export { type Snippet, type SnippetOptions, type SnippetSource, snippet } from "./snippet.js";
export type { VectorLike } from "./vectors/vectors.js";

/** A document found. */
export interface Hit {
  readonly id: string;
  /**
   * The higher the better: the cosine, in an index of several languages less what a language has by itself
   * (dense), BM25 (lexical), or the fused score (hybrid), which no other document and no filter changes, so that
   * it can be compared with `minScore`.
   */
  readonly score: number;
  readonly text: string;
  readonly metadata: Metadata;
  /** With the query; null in a search by words, and for a text too short to have a vector. */
  readonly cosine: number | null;
  /** Of the query's words; null in a search by meaning. */
  readonly bm25: number | null;
  /** In a search with `groupBy`, how many more of the hundred best documents are of the same group. */
  readonly others: number;
}

/** The vectors of an index's documents: what training compares queries with. */
export interface IndexVectors {
  readonly count: number;
  readonly dimension: number;
  readonly spaceId: string;
  /** The row of the document with this id, undefined where there is none. */
  rowOf(id: string): number | undefined;
  /** Float32 (rows, dimension), of about length 1. */
  vectors(rows: readonly number[]): Float32Array;
  /** The rows nearest to a vector (dimension,), best first, at most k. */
  nearest(query: Float32Array, k: number): number[];
  /**
   * The rows found by words and meaning together, best first, at most k, with their scores; a
   * blank text, or one whose vector cannot be used, is an InvalidInputError.
   */
  ranked(text: string, vector: Float32Array, k: number): Promise<{ rows: number[]; scores: number[] }>;
}

/** How to open an index. */
export interface OpenIndexOptions {
  /**
   * Turns a query's text into a vector of the index's space; a promise of it lets bundle and index
   * load side by side.
   */
  readonly encoder?: QueryEncoder | Promise<QueryEncoder> | undefined;
  /**
   * What leads from the index in `source` to its newest version: the bytes of files that
   * `pocketquery delta make` wrote, in the order in which they were made. Applied in memory, at every
   * opening; one that `source` has already is passed over. What comes of it is held to the hash that
   * the last one names, unless sizes alone are checked and no key is given.
   */
  readonly deltas?: readonly Uint8Array[] | undefined;
  /** Where changes are kept; without it the index is for reading only. */
  readonly changes?: ChangeStore | undefined;
  /**
   * Of the texts of an index that begins on the device, by which words are stemmed; "english" by default,
   * "none" keeps words whole.
   */
  readonly language?: string | undefined;
  /** Compare every byte with its hash (the default), or sizes and structure only. */
  readonly check?: Check | undefined;
  /** The publisher's: index and deltas must be signed by its private half. */
  readonly publicKey?: Key | undefined;
  /**
   * Keep the publisher's files on the device: true in IndexedDB, or where you say. A later opening fetches what is
   * new alone, and works without a network.
   */
  readonly cache?: CacheOption | undefined;
  /** Ends the opening with its reason. */
  readonly signal?: AbortSignal | undefined;
  /** Told of each file how much of it has arrived. */
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

const OPEN_OPTIONS: Names<OpenIndexOptions> = {
  encoder: true,
  deltas: true,
  changes: true,
  language: true,
  check: true,
  publicKey: true,
  cache: true,
  signal: true,
  onProgress: true,
};
const CHECKS: readonly Check[] = ["hashes", "sizes"];

/**
 * Open the index in `source`; everything is read into memory.
 *
 * @param source null: there are no publisher's files, and what `changes` keeps is the whole index, in the
 *   encoder's space; so an index begins on the device
 * @throws InvalidInputError `source` is neither; null without an encoder, or beside deltas or a key
 * @throws ArtifactNotFoundError a file is not there
 * @throws CorruptArtifactError a file is truncated, was changed or is of another format
 * @throws UnsupportedVersionError a newer version of the format
 * @throws SignatureError a key was given, and the index is not signed by it
 * @throws SpaceMismatchError the encoder, a delta or the changes are of another space; names both
 * @throws ArtifactError a delta was made from another index
 */
export async function openIndex(source: FileSource | null, options: OpenIndexOptions = {}): Promise<Index> {
  return openWith(loadProgram, source, options);
}

/** @internal As {@link openIndex}, with the stemmers from where `load` brings them. */
export async function openWith(
  load: LoadProgram,
  source: FileSource | null,
  options: OpenIndexOptions,
): Promise<Index> {
  void Promise.resolve(options?.encoder).catch(() => undefined); // heard below, unless something fails before
  const { check = "hashes", signal, language, cache } = checkOptions(options, OPEN_OPTIONS);
  if (!CHECKS.includes(check)) {
    throw new InvalidInputError(`check is ${show(check)}, expected one of (${CHECKS.map(repr).join(", ")})`);
  }
  throwIfAborted(signal);
  if (source === null) return ownIndex(load, options);
  if (language !== undefined) {
    throw new InvalidInputError("an index in files has a language of its own; leave out the language");
  }
  return withCache(checkSource(source, "the index"), INFO, cache, (files) => publishedIndex(load, files, options));
}

async function publishedIndex(load: LoadProgram, source: FileSource, options: OpenIndexOptions): Promise<Index> {
  const { changes, check = "hashes", deltas = [], publicKey, signal } = options;
  const [folder, encoder] = await Promise.all([
    readFolder(source, check, load, publicKey, options).then(async (found) => {
      if (Array.isArray(deltas) && deltas.length === 0) return found;
      const { withDeltas } = await import("./deltas/apply.js");
      return withDeltas(found, deltas, check === "hashes" || publicKey !== undefined, publicKey);
    }),
    options.encoder,
  ]);
  throwIfAborted(signal);
  const { spaceId, dimension, documents, analyzer, rows, vectorsFile } = folder;
  if (encoder && encoder.spaceId !== spaceId) {
    throw SpaceMismatchError.between(
      `the index ${source.name}`,
      spaceId,
      "the encoder",
      encoder.spaceId,
    );
  }
  const contents = new Contents(documents, analyzer, rows, dimension, vectorsFile);
  return new Index(spaceId, dimension, contents, encoder, await journalOf(contents, { spaceId, dimension }, changes, signal));
}

/** The index of a device's own documents alone. */
async function ownIndex(
  load: LoadProgram,
  { encoder, changes, deltas, publicKey, signal, language = "english" }: OpenIndexOptions,
): Promise<Index> {
  if (deltas?.length || publicKey !== undefined) {
    throw new InvalidInputError(
      "deltas and publicKey are about a publisher's files, and the source is null; name the files' source, " +
        "or leave them out",
    );
  }
  const { spaceId, dimension } = (await encoder) ?? {};
  if (spaceId === undefined || dimension === undefined) {
    throw new InvalidInputError(
      "an index that begins on the device needs an encoder with spaceId and dimension, as load() gives " +
        "one: openIndex(null, { encoder, changes })",
    );
  }
  const analyzer = new Analyzer(language, load);
  const contents = new Contents(new NoDocuments(), analyzer, new Uint8Array(), dimension, "no file");
  const journal = await journalOf(contents, { spaceId, dimension }, changes, signal);
  return new Index(spaceId, dimension, contents, await encoder, journal);
}

/** The changes in a store, read; none where there is no store. */
async function journalOf(
  contents: Contents,
  space: { readonly spaceId: string; readonly dimension: number },
  store: ChangeStore | undefined,
  signal: AbortSignal | undefined,
): Promise<Journal | undefined> {
  if (!store) return undefined;
  const { Journal } = await import("./changes/journal.js");
  const journal = new Journal(contents, space, store);
  await journal.open(signal);
  return journal;
}

/** An open index; made by {@link openIndex}. */
export class Index {
  private writing: Promise<unknown> = Promise.resolve();

  /** @internal */
  constructor(
    /** The space of the vectors. */
    readonly spaceId: string,
    /** Of the vectors. */
    readonly dimension: number,
    private readonly opened: Contents,
    private readonly encoder: QueryEncoder | undefined,
    private readonly journal: Journal | undefined,
  ) {}

  private get contents(): Contents {
    return this.journal?.contents ?? this.opened;
  }

  /** Documents that can be found. */
  get size(): number {
    return this.contents.size;
  }

  /** In which its words are stemmed; "none": they are whole. */
  get language(): string {
    return this.contents.analyzer.language;
  }

  /** The document with this id, undefined where there is none. */
  get(id: string): Document | undefined {
    const row = this.contents.rowOf(checkText(id, "the id"));
    return row === undefined ? undefined : this.contents.document(row);
  }

  /**
   * The `k` best documents, best first; fewer where fewer match.
   *
   * @param query a text, or its vector (dimension,), of any length but 0
   * @throws InvalidInputError a blank text, a vector of another dimension or not finite, k < 1, an
   *   unknown mode or filter operator; dense or hybrid for a text without an encoder
   */
  search(query: string | VectorLike, options: SearchOptions = {}): Promise<Hit[]> {
    return first(() => this.searched(query, options)); // before what an addition still has to do
  }

  private async searched(query: string | VectorLike, options: SearchOptions): Promise<Hit[]> {
    const { filter: given, groupBy, languages } = checkOptions(options, SEARCH_OPTIONS);
    await this.refresh();
    const filter = languages === undefined ? given : { $and: [given ?? {}, languageFilter(languages)] };
    const condition = filter === undefined || filter === null ? undefined : compileFilter(filter);
    const request = await checkQuery(query, options, this.dimension, this.encoder, this.contents.analyzer);
    if (!request) return [];
    const { contents } = this; // one state for all that follows: another may take its place meanwhile
    const allowed = condition && contents.matching(condition);
    if (groupBy === undefined) return hitsOf(contents, request, allowed);
    const best = (k: number): Promise<Hit[]> => hitsOf(contents, { ...request, k, offset: 0 }, allowed);
    return bestOfGroups(best, checkText(groupBy, "groupBy"), request.k, request.offset);
  }

  /** @internal What facets.ts and snippet.ts read. */
  get state(): Contents {
    return this.contents;
  }

  /**
   * Take up what other tabs and programs added and deleted since; searches and changes do so themselves, `get`
   * and `size` do not. Where the changes cannot be read, the index stays as it was.
   *
   * @returns whether there was something
   * @throws ChangedElsewhereError another index was put in the place of the changes
   */
  async refresh(): Promise<boolean> {
    try {
      return (await this.journal?.takeUp()) ?? false;
    } catch (error) {
      if (error instanceof ChangedElsewhereError || !(error instanceof PocketQueryError)) throw error;
      return false;
    }
  }

  /**
   * The vectors of the documents that are there now, by row, for training: see
   * `pocketquery/training`. What is added or deleted later does not count.
   */
  vectors(): IndexVectors {
    const living = this.contents.living();
    const places = new Map(living.map((row, place) => [row, place]));
    const alive = new Uint8Array((fromEnd(living) ?? -1) + 1);
    for (const row of living) alive[row] = 1;
    const { contents, dimension, spaceId } = this;
    return {
      count: living.length,
      dimension,
      spaceId,
      rowOf: (id) => {
        const row = contents.rowOf(checkText(id, "the id"));
        return row === undefined ? undefined : places.get(row);
      },
      vectors: (rows) => contents.floats(rows.map((row) => livingRow(living, row))),
      nearest: (query, k) => {
        const vector = unitVector(query, dimension, "the query's vector");
        return Array.from(contents.nearest(vector, k, alive), (row) => places.get(row)!);
      },
      ranked: async (text, vector, k) => {
        const words = withoutOperators(text);
        const request = await checkQuery(words, { mode: "hybrid", vector, k }, dimension, undefined, contents.analyzer);
        const { rows, scores } = await contents.rank(request!, alive); // nothing is being typed
        return { rows: Array.from(rows, (row) => places.get(row)!), scores: Array.from(scores) };
      },
    };
  }

  /**
   * Add documents with their vectors, all or none; when this resolves they are stored.
   *
   * @param documents with ids that the index does not have
   * @param vectors one a document, (dimension,), by the index's document encoder. None: by the light
   *   encoder that the index was opened with, which finds less and needs nothing else
   * @throws InvalidInputError an id twice or already there, a vector or text that cannot be used,
   *   no vectors and no encoder of documents, or the index is for reading only
   * @throws ArtifactError it cannot be stored; the index is as it was
   */
  async add(
    documents: readonly NewDocument[],
    vectors?: readonly VectorLike[] | null,
    options: AddOptions = {},
  ): Promise<void> {
    const journal = this.writable();
    const { signal } = checkOptions(options, ADD_OPTIONS);
    const checked = checkedDocuments(documents);
    const rows = await this.quantized(checked, vectors ?? (await this.encoded(checked, options)), signal);
    throwIfAborted(signal);
    await this.write(async () => {
      const added: Added[] = [];
      for (const [i, document] of checked.entries()) {
        await giveWay(signal);
        added.push(await analyzed(this.contents.analyzer, document, rows[i]!, signal));
      }
      await journal.change(async () => {
        const known = checked.find(({ id }) => this.contents.rowOf(id) !== undefined);
        if (known) throw taken(known.id);
        if (added.length) await journal.add(added, signal);
      });
    });
  }

  /**
   * Delete the documents with these ids; unknown ids are passed over.
   *
   * The id, text and metadata of a document that was added here are erased from the changes, too.
   *
   * @returns how many were deleted
   * @throws InvalidInputError not a list of texts, or the index is for reading only
   * @throws ArtifactError it cannot be stored; what is stored is as it was
   */
  async delete(ids: readonly string[]): Promise<number> {
    if (!Array.isArray(ids)) {
      throw new InvalidInputError(`ids is ${kindOf(ids)}, expected a list of ids`);
    }
    const checked = [...new Set(Array.from(ids, (id, i) => checkText(id, `ids[${i}]`)))];
    const journal = this.writable();
    return this.write(() =>
      journal.change(async () => {
        const there = checked.filter((id) => this.contents.rowOf(id) !== undefined);
        if (there.length) await journal.delete(there);
        return there.length;
      }),
    );
  }

  /**
   * Drop what deleted documents left behind: their terms and vectors, which count in the scores until
   * then, as in Python. The publisher's files stay as they are.
   *
   * @throws InvalidInputError the index is for reading only
   * @throws ArtifactError it cannot be stored; the index is as it was
   */
  async compact(): Promise<void> {
    const journal = this.writable();
    await this.write(() => journal.change(() => journal.compact()));
  }

  /**
   * Call `listener` after documents were added or deleted, here or in another tab: what is shown may be searched
   * for anew. What another tab stored is then in the index. Another program's changes (in Node), and another tab's
   * where there is no BroadcastChannel, are noticed by the next search or {@link refresh}.
   *
   * @returns ends it
   */
  onChange(listener: () => void): () => void {
    return this.journal?.onChange(listener) ?? (() => undefined);
  }

  private async encoded(
    documents: readonly Document[],
    options: AddOptions,
  ): Promise<readonly VectorLike[]> {
    if (typeof this.encoder?.encodeDocument !== "function") {
      throw new InvalidInputError(
        "documents came without vectors, and the index was opened without an encoder of documents; " +
          "pass vectors, or openIndex(source, { encoder: await load() })",
      );
    }
    if (!documents.length) return [];
    return this.encoder.encodeDocument(documents.map(content), { ...options, between: () => giveWay(options.signal) });
  }

  private async quantized(
    documents: readonly Document[],
    vectors: readonly VectorLike[],
    signal: AbortSignal | undefined,
  ): Promise<Uint8Array[]> {
    if (!Array.isArray(vectors)) {
      throw new InvalidInputError(`vectors is ${kindOf(vectors)}, expected a list`);
    }
    if (documents.length !== vectors.length) {
      throw new InvalidInputError(`${documents.length} documents came with ${vectors.length} vectors`);
    }
    const copies = Array.from(vectors as readonly VectorLike[], (one) => (hasNumbers(one) ? one.slice() : one));
    const rows: Uint8Array[] = [];
    for (const [i, vector] of copies.entries()) {
      rows.push(quantize(unitVector(vector, this.dimension, `vectors[${i}]`)));
      await giveWay(signal);
    }
    return rows;
  }

  private writable(): Journal {
    if (this.journal) return this.journal;
    throw new InvalidInputError(
      "the index is open for reading only; open it with openIndex(source, { changes: store })",
    );
  }

  /** Writers wait for each other. */
  private write<T>(work: () => Promise<T>): Promise<T> {
    const done = this.writing.then(work);
    this.writing = done.catch(() => undefined);
    return done;
  }
}

async function hitsOf(contents: Contents, request: CheckedQuery, allowed: Uint8Array | undefined): Promise<Hit[]> {
  const { rows, scores, cosines, bm25 } = await contents.rank(request, allowed);
  return Array.from(rows).flatMap((row, i) => {
    if (!contents.isThere(row)) return []; // deleted meanwhile
    const { id, text, metadata } = contents.document(row);
    const cosine = cosines?.[i] ?? NaN;
    const words = { cosine: Number.isNaN(cosine) ? null : cosine, bm25: bm25?.[i] ?? null };
    return [{ id, score: scores[i]!, text, metadata, ...words, others: 0 }];
  });
}

function hasNumbers(value: unknown): value is Float32Array {
  return Array.isArray(value) || value instanceof Float32Array || value instanceof Float64Array;
}

/** Copies of the documents. Throws InvalidInputError: one cannot be stored, or an id comes twice. */
function checkedDocuments(documents: readonly NewDocument[]): Document[] {
  if (!Array.isArray(documents)) {
    throw new InvalidInputError(`documents is ${kindOf(documents)}, expected a list`);
  }
  const ids = new Set<string>();
  return Array.from(documents as readonly NewDocument[], (document, i) => {
    const checked = checkDocument(document, `documents[${i}]`);
    if (ids.has(checked.id)) throw taken(checked.id);
    ids.add(checked.id);
    return checked;
  });
}

/** Throws InvalidInputError: there is no such row. */
function livingRow(living: readonly number[], row: number): number {
  const found = living[row];
  if (found !== undefined) return found;
  throw new InvalidInputError(`found the row ${show(row)}, expected one of ${living.length}, from 0`);
}

function taken(id: string): InvalidInputError {
  return new InvalidInputError(
    `the id ${repr(id)} is in the index already; ids are unique. Delete the old document first, ` +
      "or give this one another id",
  );
}
