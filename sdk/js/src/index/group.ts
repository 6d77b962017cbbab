/** One hit a group: the best passage of each file, of each value of a field. Python's `grouping.py`. */
import type { Metadata } from "./document.js";
import { valuesAt } from "./filters.js";

const COUNTED = 100; // of the best hits: those in which others of a group are counted

/** The best hit of each of `k` groups after the `offset` best; `others` says how many more are among the hundred best. */
export async function bestOfGroups<Hit extends { readonly metadata: Metadata }>(
  search: (k: number) => Promise<Hit[]>,
  field: string,
  k: number,
  offset: number,
): Promise<Hit[]> {
  for (let depth = Math.max(COUNTED, offset + k); ; depth *= 4) {
    const hits = await search(depth);
    const keys = hits.map((hit, place) => {
      const values = valuesAt((name) => own(hit.metadata, name), field);
      return values === undefined ? place : JSON.stringify(values, (_, value: unknown) => (typeof value === "bigint" ? `${value}` : value));
    });
    const firsts = new Map<string | number, number>();
    for (const [place, key] of keys.entries()) if (!firsts.has(key)) firsts.set(key, place);
    if (firsts.size < offset + k && hits.length === depth) continue;
    const counted = keys.slice(0, COUNTED);
    return [...firsts].slice(offset, offset + k).map(([key, place]) => {
      const others = counted.filter((other) => other === key).length - 1;
      return { ...hits[place]!, others: Math.max(others, 0) };
    });
  }
}

/** A field at the top of metadata, undefined where it is absent. */
export function own(metadata: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(metadata, name) ? metadata[name] : undefined;
}
