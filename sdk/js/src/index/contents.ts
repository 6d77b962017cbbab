/** One state of an index: publisher's and added documents as one, searched together. */
import { type Added, AddedDocuments } from "./added.js";
import { breathe } from "../platform/cancelling.js";
import { byCodePoint } from "../python_text.js";
import { decodeUtf8 } from "../utf8.js";
import type { Analyzer } from "../words/analyzer.js";
import { matches, type Query, without } from "../words/query.js";
import { COMPOUNDING, expand, type Expansion, Vocabulary } from "../words/vocabulary.js";
import type { BaseDocuments } from "./deltas/base.js";
import { best, candidates, ranked } from "./vectors/best.js";
import { bm25, countOf, frequency, lengthNorms, type Lexical, weighed, widestShare } from "./bm25.js";
import { content, type Document } from "./document.js";
import type { Condition } from "./filters.js";
import { type Apart, Fusion } from "./fusion.js";
import type { Part } from "./part.js";
import type { CheckedQuery } from "./query.js";
import { apartOf, type Means, QueryVector, rowBytes, Vectors } from "./vectors/vectors.js";

// A query's common words say nothing where the index lacks half of the query and few rows have them.
const LEAST_PRESENT = 0.5;
const MOST_SHARE = 0.15;
const PHRASE_SAMPLE_ROWS = 256; // rows whose texts are read at first

/** Rows, best first, with their scores; the parts of these are null where the search had no use for them. */
export interface Ranking {
  readonly rows: Uint32Array;
  readonly scores: Float64Array;
  /** NaN where a row has no vector. */
  readonly cosines: Float64Array | null;
  readonly bm25: Float32Array | null;
}

/** A query with what stands for its words; and without its common words, where these say nothing. */
interface Sought {
  readonly asked: Query;
  readonly expansion: Expansion;
  readonly said?: { readonly asked: Query; readonly expansion: Expansion };
}

/** The rows of all documents: the publisher's first, then those added, deleted ones among them. */
export class Contents {
  readonly added = new AddedDocuments();
  /** Ids of the publisher's documents that were deleted here. */
  readonly hidden: string[] = [];
  private readonly parts: readonly Part[];
  private readonly vectors: Vectors;
  private alive: Uint8Array;
  private deleted: number;
  /** Rows whose documents were deleted before the index was compacted: they count nowhere. */
  private gone: Uint8Array | undefined;
  private compactedAt = 0;
  private norms: Float32Array | undefined;
  private means: Means | undefined;
  private namesLanguages: boolean | undefined;
  private vocabulary: Vocabulary | undefined;

  /**
   * @param rows the publisher's vectors, uint8 (n, d + 4)
   * @param file of the vectors, for errors
   * @param simd false keeps to typed arrays, for tests
   */
  constructor(
    private readonly stored: BaseDocuments,
    readonly analyzer: Analyzer,
    rows: Uint8Array,
    private readonly dimension: number,
    private readonly file: string,
    private readonly simd = true,
  ) {
    this.parts = [stored, this.added];
    this.vectors = new Vectors(dimension, simd);
    this.vectors.append(rows, file);
    this.alive = new Uint8Array(stored.count).fill(1);
    for (const row of stored.deleted) this.alive[row] = 0;
    this.deleted = stored.deleted.length;
  }

  /** Documents that can be found. */
  get size(): number {
    return this.vectors.length - this.deleted;
  }

  /** The row of the document `id`, undefined where there is none. */
  rowOf(id: string): number | undefined {
    const added = this.added.rowOf(id);
    if (added !== undefined) return this.stored.count + added;
    const row = this.stored.rowOf(id);
    return row !== undefined && this.alive[row] ? row : undefined;
  }

  /** Whether the document of a row was not deleted. */
  isThere(row: number): boolean {
    return this.alive[row] === 1;
  }

  /** The document of a row that is alive. */
  document(row: number): Document {
    const { count } = this.stored;
    return row < count ? this.stored.document(row) : this.added.document(row - count);
  }

  /** The rows of the documents that can be found, rising. */
  living(): number[] {
    const rows = Array.from({ length: this.vectors.length }, (_, row) => row);
    return this.deleted ? rows.filter((row) => this.alive[row]) : rows;
  }

  /** The stored vectors of `rows`, float32 (rows, dimension), of about length 1. */
  floats(rows: readonly number[]): Float32Array {
    return this.vectors.floats(rows);
  }

  /** Add a document in the next row. */
  add(added: Added): void {
    this.vectors.append(added.vector, "the added documents");
    this.added.add(added);
    const rows = this.vectors.length;
    if (rows > this.alive.length) {
      const larger = new Uint8Array(2 * rows);
      larger.set(this.alive);
      this.alive = larger;
    }
    this.alive[rows - 1] = added.document ? 1 : 0;
    this.deleted += added.document ? 0 : 1;
    this.norms = this.means = this.namesLanguages = this.vocabulary = undefined;
  }

  /** Delete the document `id`; whether there was one. */
  delete(id: string): boolean {
    const row = this.rowOf(id);
    if (row === undefined) return false;
    if (row < this.stored.count) this.hidden.push(id);
    else this.added.erase(row - this.stored.count);
    this.alive[row] = 0;
    this.deleted++;
    return true;
  }

  /** From now on, documents deleted until now count nowhere; those added stay to be added again. */
  forgetDeleted(): void {
    this.gone = this.alive.slice(0, this.stored.count).map((alive) => 1 - alive);
    this.compactedAt = this.hidden.length;
    this.norms = this.means = this.namesLanguages = this.vocabulary = undefined;
  }

  /** The publisher's documents alone, none of them deleted here. */
  unchanged(): Contents {
    const rows = this.vectors.bytes.subarray(0, this.stored.count * rowBytes(this.dimension));
    return new Contents(this.stored, this.analyzer, rows.slice(), this.dimension, this.file, this.simd);
  }

  /** Whether the publisher's file has a document with this id, deleted here or not. */
  isStored(id: string): boolean {
    return this.stored.rowOf(id) !== undefined;
  }

  /** The same documents, without what deleted ones left behind. */
  async compacted(): Promise<Contents> {
    const made = this.unchanged();
    for (const id of this.hidden) made.delete(id);
    made.forgetDeleted();
    for (const entry of this.added.entries) {
      await breathe();
      if (entry.document) made.add(entry);
    }
    return made;
  }

  /** Whether deleted documents of the file count nowhere. */
  get isCompacted(): boolean {
    return this.gone !== undefined;
  }

  /** {@link hidden}, those deleted before the index was compacted, and those since. */
  get hiddenBy(): { before: string[]; after: string[] } {
    return { before: this.hidden.slice(0, this.compactedAt), after: this.hidden.slice(this.compactedAt) };
  }

  /** The `k` rows nearest to a unit vector, best first, of those that are 1 in `allowed`. */
  nearest(vector: Float32Array, k: number, allowed: Uint8Array): Uint32Array {
    return this.vectors.search(new QueryVector(vector), k, allowed).rows;
  }

  /** The best documents for a query, best first, of those that are 1 in `allowed`, by default the living. */
  async rank(query: CheckedQuery, allowed?: Uint8Array): Promise<Ranking> {
    const { offset, k } = query;
    const asked = query.asked && (await this.withoutAbsent(query.asked));
    query = { ...query, asked };
    const words = asked && (await this.wordsOf(query, asked));
    allowed ??= this.deleted ? this.alive : undefined;
    const most = k + offset;
    const having = asked ? this.demanded(asked, allowed) : allowed;
    if (!asked?.phrases.length && !asked?.excludedPhrases.length) return cut(this.ranked(query, words, most, having), query);
    // Whether words follow one another stands in the texts alone: those of the best are read.
    const known = new Map<number, boolean>();
    for (let tried = Math.max(PHRASE_SAMPLE_ROWS, most); ; tried *= 4) {
      const ranking = this.ranked(query, words, tried, having);
      const places: number[] = [];
      for (const [place, row] of ranking.rows.entries()) {
        if (!this.isThere(row)) continue; // deleted meanwhile
        if (!known.has(row)) known.set(row, matches(asked, await this.analyzer.sequence(content(this.document(row)))));
        if (known.get(row) && places.push(place) === most) break;
      }
      if (places.length < most && ranking.rows.length === tried) continue;
      return cut(at(ranking, places), query);
    }
  }

  /** A query without the phrases that no document has, which demand nothing: a question in another language quotes, too. */
  async withoutAbsent(asked: Query): Promise<Query> {
    const known = new Set(asked.requiredPhrases.map((phrase) => phrase.join(" ")));
    const phrases: (readonly string[])[] = [];
    for (const phrase of asked.phrases) if (known.has(phrase.join(" ")) || (await this.hasPhrase(phrase))) phrases.push(phrase);
    return phrases.length === asked.phrases.length ? asked : { ...asked, phrases };
  }

  private async hasPhrase(phrase: readonly string[]): Promise<boolean> {
    for (const [row, isOne] of this.having(new Set(phrase)).entries()) {
      if (!isOne || !this.isThere(row)) continue;
      const words = await this.analyzer.sequence(content(this.document(row)));
      if (matches({ phrases: [phrase], excludedPhrases: [] }, words)) return true;
    }
    return false;
  }

  /**
   * What is looked for, and in the index of another language what is left of it without its common words, which say
   * nothing there.
   */
  private async wordsOf({ mode, vector }: CheckedQuery, asked: Query): Promise<Sought> {
    const expansion = await this.expanded(asked);
    if (mode !== "hybrid" || !vector.length) return { asked, expansion };
    const { most, present } = weighed(this.parts, countOf(this.vectors.length, this.gone), expansion, asked, this.gone);
    if (present >= LEAST_PRESENT * most) return { asked, expansion };
    const common = await this.analyzer.commonTerms(asked);
    if (!common.length || this.widestShare(common) > MOST_SHARE) return { asked, expansion };
    const said = without(asked, common);
    return { asked, expansion, said: { asked: said, expansion: await this.expanded(said) } };
  }

  /** See the function of this name. */
  private widestShare(terms: readonly string[]): number {
    const rows = new Map<number, number>();
    if (this.namesAny) {
      for (const language of this.languageMeans().apart.keys()) rows.set(language, 0);
      for (let row = 0; row < this.vectors.length; row++) {
        const count = this.gone?.[row] ? undefined : rows.get(this.languageOf(row));
        if (count !== undefined) rows.set(this.languageOf(row), count + 1);
      }
    }
    const languageOf = rows.size ? (row: number): number => this.languageOf(row) : undefined;
    return widestShare(this.parts, countOf(this.vectors.length, this.gone), terms, rows, this.gone, languageOf);
  }

  private lexical({ asked, expansion, said }: Sought, languageOf?: (row: number) => number): Lexical {
    const norms = (this.norms ??= this.lengthNorms());
    const lexical = bm25(this.parts, expansion, asked, norms, this.gone, languageOf);
    return said ? { ...bm25(this.parts, said.expansion, said.asked, norms, this.gone, languageOf), most: lexical.most } : lexical;
  }

  private ranked(
    { mode, vector }: CheckedQuery,
    words: Sought | null,
    most: number,
    allowed: Uint8Array | undefined,
  ): Ranking {
    if (mode === "dense" || !words) {
      const meant = new QueryVector(vector);
      const apart = this.apart(meant);
      if (!apart.size) {
        const found = this.vectors.search(meant, most, allowed);
        return { ...found, cosines: found.scores, bm25: null };
      }
      const own = (cosine: number, row: number): number =>
        this.vectors.isPlaced(row) ? cosine - (apart.get(this.languageOf(row)) ?? 0) : -Infinity;
      const found = candidates(this.vectors.scores(meant).map(own), most, meant.slack, allowed);
      const exact = this.vectors.cosines(meant, found).map((cosine, i) => own(cosine, found[i]!));
      const { rows, scores } = ranked(found, exact, most);
      return { rows, scores, cosines: this.vectors.cosines(meant, rows), bm25: null };
    }
    const meant = mode === "lexical" || !vector.length ? undefined : new QueryVector(vector);
    const apart = meant ? this.apart(meant) : new Map<number, number>();
    const languageOf = apart.size ? (row: number): number => this.languageOf(row) : undefined;
    const lexical = this.lexical(words, languageOf);
    const pick = (rows: Uint32Array): Float32Array => Float32Array.from(rows, (row) => lexical.scores[row]!);
    if (!meant) {
      const found = best(lexical.scores, most, allowed, 0);
      const { rows, scores } = ranked(found, pick(found), most);
      const shares = mode === "lexical" ? scores : Float64Array.from(scores, (score) => Math.min(score / (lexical.most || 1), 1));
      return { rows, scores: shares, cosines: null, bm25: pick(rows) };
    }
    const fusion = new Fusion(meant.cosine(this.languageMeans().mean), lexical, this.ofLanguages(apart, lexical.scores));
    const fused = (cosine: number, row: number): number =>
      fusion.score(cosine, lexical.scores[row]!, this.vectors.isPlaced(row), languageOf?.(row));
    const found = candidates(this.vectors.scores(meant).map(fused), most, fusion.slack(meant.slack), allowed);
    const exact = this.vectors.cosines(meant, found).map((cosine, i) => fused(cosine, found[i]!));
    const { rows, scores } = ranked(found, exact, most);
    const cosines = this.vectors.cosines(meant, rows).map((cosine, i) => (this.vectors.isPlaced(rows[i]!) ? cosine : NaN));
    return { rows, scores: scores.map((score) => Math.min(score, 1)), cosines, bm25: pick(rows) };
  }

  private languageMeans(): Means {
    return (this.means ??= this.vectors.means((row) => this.languageOf(row), this.gone));
  }

  private languageOf(row: number): number {
    const { count, languages } = this.stored;
    return row < count ? languages[row]! : this.added.languages[row - count]!;
  }

  private get namesAny(): boolean {
    return (this.namesLanguages ??= this.parts.some(({ languages }) => Array.prototype.some.call(languages, Boolean)));
  }

  /** How far the mean cosine of each language is from that of all, see {@link apartOf}. */
  private apart(query: QueryVector): ReadonlyMap<number, number> {
    if (!this.namesAny) return new Map(); // without reading all vectors for their means
    return new Map(Array.from(this.languageMeans().apart, ([language, own]) => [language, query.cosine(own)]));
  }

  /** With that of the mean of `scores`, float32 (n,), and how many rows each has. */
  private ofLanguages(cosines: ReadonlyMap<number, number>, scores: Float32Array): ReadonlyMap<number, Apart> {
    if (!cosines.size) return new Map();
    const sums = new Map<number, Float64Array>();
    for (const language of cosines.keys()) sums.set(language, new Float64Array(2));
    for (let row = 0; row < scores.length; row++) {
      const sum = this.gone?.[row] ? undefined : sums.get(this.languageOf(row));
      if (!sum) continue;
      sum[0]!++;
      sum[1]! += scores[row]!;
    }
    const words = apartOf(sums);
    const apart = (one: number, cosine: number): Apart => ({ cosine, words: words.get(one)![0]!, rows: sums.get(one)![0]! });
    return new Map(Array.from(cosines, ([one, cosine]) => [one, apart(one, cosine)]));
  }

  /** A query's terms, and those of the index that stand for them. */
  async expanded(asked: Query): Promise<Expansion> {
    const isThere = (word: string): boolean => this.frequency(word) > 0;
    // Without reading the whole vocabulary.
    if (!asked.prefix && !COMPOUNDING.includes(this.analyzer.language) && [...asked.words.keys()].every(isThere)) {
      return { weights: asked.terms, instead: new Map() };
    }
    const vocabulary = (this.vocabulary ??= this.allTerms());
    return this.analyzer.complete(() => expand(asked, vocabulary, this.analyzer));
  }

  private frequency(term: string): number {
    return frequency(this.parts, this.parts.map((part) => part.postings(term)), this.gone);
  }

  private allTerms(): Vocabulary {
    const frequencies = new Map<string, number>();
    for (const { term, rows } of this.stored.postingsByTerm()) {
      const count = this.gone ? rows.filter((row) => !this.gone![row]).length : rows.length;
      if (count) frequencies.set(decodeUtf8(term), count);
    }
    for (const [term, count] of this.added.frequencies()) frequencies.set(term, (frequencies.get(term) ?? 0) + count);
    return new Vocabulary([...frequencies.keys()].sort(byCodePoint), (term) => frequencies.get(term) ?? 0);
  }

  /** Of `allowed` (undefined: of all) the rows that may have what a query demands, by their terms. */
  private demanded({ required, phrases, excluded }: Query, allowed: Uint8Array | undefined): Uint8Array | undefined {
    const wanted = new Set([...required, ...phrases.flat()]);
    const unwanted = excluded.filter(({ size }) => size);
    if (!wanted.size && !unwanted.length) return allowed;
    const made = allowed?.slice(0, this.vectors.length) ?? new Uint8Array(this.vectors.length).fill(1);
    if (wanted.size) {
      const having = this.having(wanted);
      for (let row = 0; row < made.length; row++) made[row]! &= having[row]!;
    }
    for (const terms of unwanted) {
      const having = this.having(terms);
      for (let row = 0; row < made.length; row++) if (having[row]) made[row] = 0;
    }
    return made;
  }

  /** 1 for the rows that have all of these terms. */
  private having(terms: ReadonlySet<string>): Uint8Array {
    const counts = new Uint32Array(this.vectors.length);
    for (const term of terms) {
      let first = 0;
      for (const part of this.parts) {
        for (const row of part.postings(term).rows) counts[first + row]!++;
        first += part.count;
      }
    }
    return Uint8Array.from(counts, (count) => (count === terms.size ? 1 : 0));
  }

  /** Which rows meet the condition; deleted documents meet none. */
  matching(condition: Condition): Uint8Array {
    const matching = new Uint8Array(this.vectors.length);
    this.readMetadata(condition.fields, (read, row) => (matching[row] = condition.test(read) ? 1 : 0));
    return matching;
  }

  /** Calls `use` with each living row and what gives a field of its metadata, undefined where it is absent. */
  readMetadata(fields: ReadonlySet<string>, use: (read: (field: string) => unknown, row: number) => void): void {
    let first = 0;
    for (const part of this.parts) {
      part.prepare(fields);
      for (let row = 0; row < part.count; row++) {
        if (this.alive[first + row]) use((field) => part.value(row, field), first + row);
      }
      first += part.count;
    }
  }

  private lengthNorms(): Float32Array {
    const lengths = new Float32Array(this.vectors.length);
    lengths.set(this.stored.lengths);
    lengths.set(this.added.lengths, this.stored.count);
    return lengthNorms(lengths, this.gone ? lengths.filter((_, row) => !this.gone![row]) : lengths);
  }
}

/** Without those before the offset, and those below the least score. */
function cut(ranking: Ranking, { offset, minScore }: CheckedQuery): Ranking {
  const places = Array.from(ranking.scores, (_, place) => place);
  return at(ranking, places.filter((place) => place >= offset && ranking.scores[place]! >= minScore));
}

/** Those at `places` of a ranking. */
function at({ rows, scores, cosines, bm25 }: Ranking, places: readonly number[]): Ranking {
  return {
    rows: Uint32Array.from(places, (place) => rows[place]!),
    scores: Float64Array.from(places, (place) => scores[place]!),
    cosines: cosines && Float64Array.from(places, (place) => cosines[place]!),
    bm25: bm25 && Float32Array.from(places, (place) => bm25[place]!),
  };
}
