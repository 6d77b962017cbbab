/** Byte-pair encoding as the sentencepiece library does it: a port of `bpe_model.cc`. */

/** A stretch of the normalised text and the piece it is. */
export interface Cut {
  readonly text: string;
  readonly id: number;
}

/** What merging has to know of the model. */
export interface MergeRules {
  /** The number of a piece, the unknown one's where there is none. */
  idOf(piece: string): number;
  /** The number of a piece that merging may make. */
  mergedId(piece: string): number | undefined;
  scoreOf(id: number): number;
  /** Whether the piece serves merging alone and is taken apart again in the end. */
  isUnused(id: number): boolean;
}

interface Symbol {
  text: string; // "" once it was merged into the one before it
  readonly frozen: boolean;
  before: number;
  after: number;
}

interface Pair {
  readonly left: number;
  readonly right: number;
  readonly score: number;
  readonly length: number;
}

/** The pieces that are left when no pair of neighbours can be merged; the best score goes first. */
export function merged(parts: readonly { text: string; frozen: boolean }[], rules: MergeRules): Cut[] {
  const symbols: Symbol[] = parts.map((part, i) => ({
    ...part,
    before: i - 1,
    after: i + 1 < parts.length ? i + 1 : -1,
  }));
  const agenda = new Agenda();
  const halves = new Map<string, readonly [string, string]>();
  const consider = (left: number, right: number): void => {
    const a = symbols[left];
    const b = symbols[right];
    if (a === undefined || b === undefined || a.frozen || b.frozen) return;
    const piece = a.text + b.text;
    const id = rules.mergedId(piece);
    if (id === undefined) return;
    agenda.push({ left, right, score: rules.scoreOf(id), length: piece.length });
    if (rules.isUnused(id)) halves.set(piece, [a.text, b.text]);
  };
  for (let i = 1; i < symbols.length; i++) consider(i - 1, i);
  for (let pair = agenda.pop(); pair !== undefined; pair = agenda.pop()) {
    const left = symbols[pair.left] as Symbol;
    const right = symbols[pair.right] as Symbol;
    // Either may have been merged meanwhile.
    if (!left.text || !right.text || left.text.length + right.text.length !== pair.length) continue;
    left.text += right.text;
    left.after = right.after;
    const next = symbols[right.after];
    if (next !== undefined) next.before = pair.left;
    right.text = "";
    consider(left.before, pair.left);
    consider(pair.left, left.after);
  }
  const cuts: Cut[] = [];
  const segment = (text: string): void => {
    const id = rules.idOf(text);
    const parts = rules.isUnused(id) ? halves.get(text) : undefined;
    if (parts === undefined) cuts.push({ text, id });
    else parts.forEach(segment);
  };
  for (const symbol of symbols) if (symbol.text) segment(symbol.text);
  return cuts;
}

/** Pairs, of which the one with the highest score, among equals the leftmost, comes out first. */
class Agenda {
  readonly #heap: Pair[] = [];

  push(pair: Pair): void {
    const heap = this.#heap;
    let at = heap.push(pair) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!precedes(pair, heap[parent] as Pair)) break;
      heap[at] = heap[parent] as Pair;
      at = parent;
    }
    heap[at] = pair;
  }

  pop(): Pair | undefined {
    const heap = this.#heap;
    const top = heap[0];
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return top;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      const other = heap[child + 1];
      if (other !== undefined && precedes(other, heap[child] as Pair)) child++;
      if (!precedes(heap[child] as Pair, last)) break;
      heap[at] = heap[child] as Pair;
      at = child;
    }
    heap[at] = last;
    return top;
  }
}

function precedes(a: Pair, b: Pair): boolean {
  return a.score > b.score || (a.score === b.score && a.left < b.left);
}
