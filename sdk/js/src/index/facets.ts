/** How many documents have each value of a field, and which fields there are; Python's `facets.py`. */
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

const LEAST_LIKENESS = 0.6; // of a field that was probably meant

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

/**
 * The fields of the documents' metadata, with how many documents have each, most frequent first; a field in an
 * object by dots.
 */
export async function fields(index: Searched): Promise<Map<string, number>> {
  await index.refresh();
  const counts = new Map<string, number>();
  for (const row of index.state.living()) {
    for (const name of new Set(namesIn(index.state.document(row).metadata))) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return new Map([...counts].sort(([a, left], [b, right]) => right - left || byCodePoint(a, b)));
}

/**
 * The fields in `filter` that no document has, each with the field that was probably meant, null for none:
 * `yaer: "year"`. A search takes them for absent.
 *
 * @throws InvalidInputError `filter` is none
 */
export async function unknownFields(index: Searched, filter: Filter): Promise<Map<string, string | null>> {
  compileFilter(filter);
  const known = [...(await fields(index)).keys()];
  const isKnown = (name: string): boolean => known.some((one) => one === name || one.startsWith(`${name}.`));
  const unknown = [...new Set(askedIn(filter))].filter((name) => !isKnown(name));
  return new Map(unknown.map((name) => [name, nearest(name, known)]));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function* namesIn(record: object, within = ""): Generator<string> {
  for (const [name, value] of Object.entries(record) as [string, unknown][]) {
    if (within && name.includes(".")) continue; // which no filter reaches
    const items = Array.isArray(value) ? (value as unknown[]) : [value];
    const objects = items.filter(isObject);
    if (objects.length < Math.max(items.length, 1)) yield within + name;
    if (!name.includes(".")) for (const one of objects) yield* namesIn(one, `${within}${name}.`);
  }
}

function* askedIn(filter: Filter): Generator<string> {
  for (const [name, value] of Object.entries(filter)) {
    if (!name.startsWith("$")) yield name;
    else for (const part of Array.isArray(value) ? (value as Filter[]) : [value as Filter]) yield* askedIn(part);
  }
}

/** The one of `known` that shares the most letters in order with `word`, six in ten at least; Python's difflib. */
function nearest(word: string, known: readonly string[]): string | null {
  const letters = Array.from(word);
  const likeness = (one: string[]): number => (2 * sharedOf(one, letters)) / (one.length + letters.length);
  const near = known.map((one) => ({ one, ratio: likeness(Array.from(one)) })).filter(({ ratio }) => ratio >= LEAST_LIKENESS);
  near.sort((a, b) => b.ratio - a.ratio || byCodePoint(b.one, a.one));
  return near[0]?.one ?? null;
}

/** How many letters the longest run that both have holds, and the longest before and behind it, and so on. */
function sharedOf(one: readonly string[], other: readonly string[]): number {
  let [start, from, longest] = [0, 0, 0];
  let before: number[] = [];
  for (const [i, letter] of one.entries()) {
    const runs = other.map((second, j) => (letter === second ? (before[j - 1] ?? 0) + 1 : 0));
    for (const [j, run] of runs.entries()) if (run > longest) [start, from, longest] = [i + 1 - run, j + 1 - run, run];
    before = runs;
  }
  if (!longest) return 0;
  return (
    longest +
    sharedOf(one.slice(0, start), other.slice(0, from)) +
    sharedOf(one.slice(start + longest), other.slice(from + longest))
  );
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
