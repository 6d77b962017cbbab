/** Sets of characters, written as "300-36F 483" and parsed when first asked. */

export class CharacterClass {
  readonly #ranges: string;
  #bounds: Uint32Array | null = null;

  constructor(ranges: string) {
    this.#ranges = ranges;
  }

  /** Whether the character with this code point is in the set. */
  has(point: number): boolean {
    this.#bounds ??= parsed(this.#ranges);
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
}

function parsed(ranges: string): Uint32Array {
  const bounds: number[] = [];
  for (const span of ranges.split(" ")) {
    const [first = "", last = first] = span.split("-");
    bounds.push(Number.parseInt(first, 16), Number.parseInt(last, 16) + 1);
  }
  return Uint32Array.from(bounds);
}

/** "41>61 42>62" as a map from "A" to "a" and from "B" to "b". */
export function parsePairs(pairs: string): Map<string, string> {
  return new Map(
    pairs.split(" ").map((pair) => {
      const [before = "", after = ""] = pair.split(">");
      return [character(before), character(after)];
    }),
  );
}

function character(digits: string): string {
  return String.fromCodePoint(Number.parseInt(digits, 16));
}
