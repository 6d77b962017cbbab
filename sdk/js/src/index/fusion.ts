/**
 * One score of words and meaning, for one query; Python's `search.py`.
 *
 *     fused(d) = a (cos(d) - m) / (1 - m) + bm25(d) / U - s    a = .25 (1 + 2 (1 - p / U))
 *
 * m is the mean cosine of all documents with the query, U the most that BM25 can be for it, p the part of U
 * whose terms some document has. A document's score needs no other document. A hit's is 1 at most. s is what
 * a document has of both for its language alone: the mean of those in it less the mean of all.
 */
import type { Lexical } from "./bm25.js";

const DENSE_WEIGHT = 0.25;
const LEANING = 2;
const LEAST_ROOM = 0.05; // between the mean cosine and 1: of documents that are nearly all alike

export class Fusion {
  private readonly meaning: number;
  private readonly most: number;

  /** @param mean m */
  constructor(
    private readonly mean: number,
    { most, present }: Lexical,
  ) {
    const absent = most ? 1 - present / most : 1;
    this.meaning = (DENSE_WEIGHT * (1 + LEANING * absent)) / Math.max(1 - mean, LEAST_ROOM);
    this.most = most || 1;
  }

  /**
   * The words of a document without a vector count alone; -Infinity where it shares none.
   * @param share s
   */
  score(cosine: number, bm25: number, isPlaced: boolean, share = 0): number {
    if (!isPlaced && bm25 <= 0) return -Infinity;
    return (isPlaced ? (cosine - this.mean) * this.meaning - share : 0) + bm25 / this.most;
  }

  /** s of a language, of its means of cosines and of BM25, less those of all. */
  share(cosines: number, bm25: number): number {
    return cosines * this.meaning + bm25 / this.most;
  }

  /** That of fused scores, of cosines that have this one. */
  slack(cosines: number): number {
    return cosines * this.meaning;
  }
}
