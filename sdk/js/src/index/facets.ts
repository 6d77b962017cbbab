/** How many documents have each value of a field; Python's `facets.py`. */
import { byCodePoint } from "../python_text.js";
import { checkOptions, checkText, type Names } from "../texts.js";
import { columnsOf, compileFilter, type Filter, valuesAt } from "./filters.js";
import { own } from "./group.js";
import type { Contents } from "./contents.js";
import type { Metadata } from "./document.js";
import type { SearchOptions } from "./query.js";

/** A value of a field and how many documents have it. */
export interface FacetCount {
  readonly value: string | number | boolean;
  readonly documents: number;
}

type Value = FacetCount["value"] | bigint; // whole numbers beyond 2^53 are told apart

/** An `Index`. */
interface Searched {
  readonly size: number;
  readonly state: Contents;
  refresh(): Promise<boolean>;
  search(query: string, options: SearchOptions): Promise<readonly { readonly metadata: Metadata }[]>;
}

/** Which documents count. */
export interface FacetOptions {
  /** Only those that meet it. */
  readonly filter?: Filter;
  /** Only those that a search by its words finds. */
  readonly query?: string;
}

const FACET_OPTIONS: Names<FacetOptions> = { filter: true, query: true };

/**
 * The values of a field, most frequent first, of equal ones numbers, then texts, rising. A list counts once for each
 * of its values.
 *
 * @param field as in a filter
 * @throws InvalidInputError as `search`
 */
export async function facets(index: Searched, field: string, options: FacetOptions = {}): Promise<FacetCount[]> {
  const { filter, query } = checkOptions(options, FACET_OPTIONS);
  checkText(field, "the field");
  const counts = new Map<Value, number>();
  const count = (read: (name: string) => unknown): void => {
    for (const value of new Set(valuesAt(read, field))) {
      if (!["string", "number", "bigint", "boolean"].includes(typeof value)) continue;
      counts.set(value as Value, (counts.get(value as Value) ?? 0) + 1);
    }
  };
  if (query !== undefined) {
    const hits = await index.search(query, { k: Math.max(index.size, 1), mode: "lexical", ...(filter && { filter }) });
    for (const { metadata } of hits) count((name) => own(metadata, name));
  } else {
    await index.refresh();
    const condition = compileFilter(filter ?? {});
    const fields = new Set([...condition.fields, ...columnsOf(field)]);
    index.state.readMetadata(fields, (read) => {
      if (condition.test(read)) count(read);
    });
  }
  const sorted = [...counts].sort(([a, left], [b, right]) => right - left || inOrder(a, b));
  return sorted.map(([value, documents]) => ({ value: typeof value === "bigint" ? Number(value) : value, documents }));
}

function inOrder(a: Value, b: Value): number {
  const [left, right] = [rank(a), rank(b)];
  if (left !== right) return left - right;
  if (typeof a === "string" && typeof b === "string") return byCodePoint(a, b);
  return a < b ? -1 : a > b ? 1 : 0;
}

function rank(value: Value): number {
  return typeof value === "string" ? 2 : typeof value === "boolean" ? 0 : 1;
}
