/** Sets of characters, parsed when first asked. */

export class CharacterClass {
  readonly #parse: () => number[];
  #bounds: number[] | null = null;

  private constructor(parse: () => number[]) {
    this.#parse = parse;
  }

  /** Ranges of code points, as in "300-36F 483". */
  static of(ranges: string): CharacterClass {
    return new CharacterClass(() =>
      ranges.split(" ").flatMap((span) => {
        const [first = "", last = first] = span.split("-");
        return [Number.parseInt(first, 16), Number.parseInt(last, 16) + 1];
      }),
    );
  }

  /** Where the set begins and ends by turns, each as its distance from the one before, in base 36. */
  static ofSteps(steps: string): CharacterClass {
    let last = 0;
    return new CharacterClass(() => steps.split(" ").map((step) => (last += Number.parseInt(step, 36))));
  }

  /** Whether the character with this code point is in the set. */
  has(point: number): boolean {
    this.#bounds ??= this.#parse();
    // The number of bounds not above the point: odd inside a range.
    let low = 0;
    let high = this.#bounds.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#bounds[middle] as number) <= point) low = middle + 1;
      else high = middle;
    }
    return low % 2 === 1;
  }

  /** Whether the first character of `text` is in the set. */
  begins(text: string): boolean {
    const point = text.codePointAt(0);
    return point !== undefined && this.has(point);
  }
}

/**
 * Code points and what they become, of runs of (first, number of characters, step between them, what to add
 * to each): in base 36, signed, the first as its distance from the one before.
 */
export function mapOfRuns(runs: string): Map<number, number> {
  const changed = new Map<number, number>();
  const fields = runs.split(" ").map((digits) => Number.parseInt(digits, 36));
  let first = 0;
  for (let i = 0; i < fields.length; i += 4) {
    const [distance = 0, count = 0, step = 0, added = 0] = fields.slice(i, i + 4);
    first += distance;
    for (let n = 0; n < count; n++) changed.set(first + n * step, first + n * step + added);
  }
  return changed;
}
