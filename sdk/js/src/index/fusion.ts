/**
 * One score of words and meaning, for one query; Python's `search.py`.
 *
 *     fused(d) = a (cos(d) - m) / (1 - m) + bm25(d) / U - s    a = .25 (1 + 2 (1 - p / U))
 *
 * m is the mean cosine of all documents with the query, U the most that BM25 can be for it, p the part of U
 * whose terms some document has. A document's score needs no other document. A hit's is 1 at most. In an index of
 * several languages p is of the terms that some document in d's language has, and s is what d has of both for its
 * language alone: the mean of those in it less the mean of all.
 */
import type { Lexical } from "./bm25.js";
import { ownPart } from "./vectors/vectors.js";

const DENSE_WEIGHT = 0.25;
const LEANING = 2;
const LEAST_ROOM = 0.05; // between the mean cosine and 1: of documents that are nearly all alike

/** Of a language: how far its mean cosine and mean BM25 are from those of all, and its rows. */
export interface Apart {
  readonly cosine: number;
  readonly words: number;
  readonly rows: number;
}

export class Fusion {
  private readonly whole: number;
  private readonly most: number;
  /** a / (1 - m) and s, by language. */
  private readonly own = new Map<number, { readonly meaning: number; readonly share: number }>();

  /**
   * @param mean m
   * @param languages empty where no two are named
   */
  constructor(
    private readonly mean: number,
    { most, present, own }: Lexical,
    languages: ReadonlyMap<number, Apart> = new Map(),
  ) {
    this.most = most || 1;
    const weight = (some: number): number => {
      const absent = most ? 1 - some / most : 1;
      return (DENSE_WEIGHT * (1 + LEANING * absent)) / Math.max(1 - mean, LEAST_ROOM);
    };
    this.whole = weight(present);
    for (const [language, { cosine, words, rows }] of languages) {
      const meaning = weight(present + ownPart(rows) * ((own.get(language) ?? 0) - present)); // few may lack words by chance
      this.own.set(language, { meaning, share: cosine * meaning + words / this.most });
    }
  }

  /**
   * The words of a document without a vector count alone; -Infinity where it shares none.
   * @param language the document's; undefined where no two are named
   */
  score(cosine: number, bm25: number, isPlaced: boolean, language?: number): number {
    if (!isPlaced && bm25 <= 0) return -Infinity;
    const own = language === undefined ? undefined : this.own.get(language);
    const meant = isPlaced ? (cosine - this.mean) * (own?.meaning ?? this.whole) - (own?.share ?? 0) : 0;
    return meant + bm25 / this.most;
  }

  /** That of fused scores, of cosines that have this one. */
  slack(cosines: number): number {
    return cosines * Math.max(this.whole, ...Array.from(this.own.values(), ({ meaning }) => meaning));
  }
}
