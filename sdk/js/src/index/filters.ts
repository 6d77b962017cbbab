/**
 * The filter language: conditions on metadata. Python's `filters.py`, without SQL.
 *
 *     { lang: "en", year: { $gte: 2000 } }               all of them
 *     { tag: { $in: ["news", "sport"] } }                one of the values
 *     { $or: [{ lang: "en" }, { $not: { year: 1999 } }] }
 *     { path: { $prefix: "garden/" }, "author.name": "Ada", date: { $gte: "2024-01-01" } }
 *
 * A field is a name at the top of the metadata. Where a document has no such name, dots lead into
 * objects, and into each object of a list. Operators: $eq, $ne, $in, $nin, $all, $gt, $gte, $lt,
 * $lte, $prefix, $contains, $exists; $and, $or, $not. A list in the metadata matches where one of
 * its values does. Values compare within their kind (numbers, texts, booleans, null). Texts compare
 * by code point, dates by time (dates.ts); $contains ignores case. $ne, $nin and $not are exact
 * opposites, so they match where the field is absent; null equals null and absent alike.
 */
import { InvalidInputError } from "../errors.js";
import { kindOf, repr, show } from "../python_text.js";
import { checkText } from "../texts.js";
import { encodeUtf8 } from "../utf8.js";
import { inOrder } from "./dates.js";
import { isObject } from "./document.js";
import { canonical, comparable, wholeNumber } from "./metadata.js";

/** Conditions as a caller gives them. */
export type Filter = Readonly<Record<string, unknown>>;

/** A filter that was checked. */
export interface Condition {
  /** The names it asks for. */
  readonly fields: ReadonlySet<string>;
  /** Whether metadata meets it; `read` gives a field's value, undefined where it is absent. */
  readonly test: (read: (field: string) => unknown) => boolean;
}

type Test = Condition["test"];
type Holds = (value: unknown) => boolean;

// The bounds are Python's, which SQLite's parser sets in part.
const MOST_DEPTH = 10;
const MOST_PARTS = 300; // joined by one operator
const MOST_CONDITIONS = 500; // in all: each is looked at for every document
const MOST_VALUES = 100_000; // of lists, in all
const MOST_BYTES = 1 << 22; // of names and texts, in all, as UTF-8
const JOINS = ["$and", "$or", "$not"];
const OPERATORS = "$eq, $ne, $in, $nin, $all, $gt, $gte, $lt, $lte, $prefix, $contains, $exists";

/**
 * The condition that `filter` states; an empty one is true of every document.
 * @throws InvalidInputError an unknown operator, a value the operator cannot take, or more than is
 *   allowed: 500 conditions, 100,000 values in lists, 4 MiB of text, 10 levels
 */
export function compileFilter(filter: unknown): Condition {
  checkSize(filter);
  const compiler = new Compiler();
  const test = compiler.all(filter, 0);
  return { fields: compiler.fields, test };
}

/** Counts before anything is made of it; what holds itself has no end and so too many values. */
function checkSize(filter: unknown): void {
  let [conditions, values, bytes] = [0, 0, 0];
  const waiting = [filter];
  while (waiting.length) {
    const one = waiting.pop();
    values++;
    if (typeof one === "string") {
      bytes += encodeUtf8(one).length;
    } else if (isObject(one)) {
      const items = Object.entries(one);
      const parts = items.filter(([name, value]) => JOINS.includes(name) || isObject(value));
      conditions += Math.max(items.length - parts.length, items.length ? 0 : 1);
      for (const [name, value] of items) if (name === "$all" && Array.isArray(value)) conditions += value.length;
      for (const [name, value] of items) waiting.push(name, value);
    } else if (Array.isArray(one)) {
      if (values + one.length > MOST_VALUES) values += one.length;
      else for (const value of one) waiting.push(value);
    }
    atMost(conditions, MOST_CONDITIONS, "conditions");
    atMost(values, MOST_VALUES, "names and values");
    atMost(bytes, MOST_BYTES, "bytes of text");
  }
}

function atMost(found: number, most: number, what: string): void {
  if (found > most) {
    throw new InvalidInputError(
      `the filter has ${found} ${what} or more, at most ${most} are possible; use $in for many ` +
        "values of one field, and search with several filters for more",
    );
  }
}

class Compiler {
  readonly fields = new Set<string>();

  all(filter: unknown, depth: number): Test {
    if (!isObject(filter)) {
      throw new InvalidInputError(
        `a filter is ${kindOf(filter)}, expected an object such as ` +
          '{"lang": "en", "year": {"$gte": 2000}}',
      );
    }
    if (depth > MOST_DEPTH) {
      throw new InvalidInputError(`the filter is nested more than ${MOST_DEPTH} deep`);
    }
    return every(Object.entries(filter).map(([name, value]) => this.one(name, value, depth)));
  }

  private one(name: string, value: unknown, depth: number): Test {
    if (name === "$not") return negated(this.all(value, depth + 1));
    if (name === "$and" || name === "$or") {
      const parts = listed(name, value).map((part) => this.all(part, depth + 1));
      return name === "$and" ? every(parts) : some(parts);
    }
    if (name.startsWith("$")) throw unknown(name, "$and, $or, $not or a field's name");
    for (const field of columnsOf(checkText(name, "a filter's field"))) this.fields.add(field);
    if (!isObject(value)) return this.compare(name, "$eq", value);
    const operators = Object.entries(value);
    if (!operators.length) {
      throw new InvalidInputError(
        `the filter asks nothing of ${repr(name)}; expected a value or an operator such as ` +
          '{"$gte": 2000}',
      );
    }
    return every(operators.map(([operator, item]) => this.compare(name, operator, item)));
  }

  private compare(field: string, operator: string, value: unknown): Test {
    if (operator === "$eq") return equal(field, value);
    if (operator === "$ne") return negated(equal(field, value));
    if (operator === "$in") return member(field, listed(operator, value));
    if (operator === "$nin") return negated(member(field, listed("$in", value)));
    if (operator === "$all") return every(listed(operator, value).map((one) => equal(field, one)));
    if (operator === "$prefix" || operator === "$contains") return partOfText(field, operator, value);
    if (/^\$[gl]te?$/.test(operator)) {
      const wanted = scalar(operator, value);
      return anyValue(field, (found) => isInOrder(found, operator, wanted));
    }
    if (operator === "$exists") {
      if (typeof value !== "boolean") {
        throw new InvalidInputError(`$exists takes true or false, found ${shown(value)}`);
      }
      return (read) => (valuesAt(read, field) !== undefined) === value;
    }
    throw unknown(operator, OPERATORS);
  }
}

function equal(field: string, value: unknown): Test {
  if (value === null) {
    const isNull = anyValue(field, (found) => found === null);
    return (read) => valuesAt(read, field) === undefined || isNull(read);
  }
  const wanted = typeof value === "boolean" ? value : scalar("$eq", value);
  return anyValue(field, (found) => found === wanted);
}

function member(field: string, values: readonly unknown[]): Test {
  const wanted = new Set<unknown>();
  let orAbsent = false;
  for (const value of values) {
    if (typeof value === "string") wanted.add(checkText(value, "a value of $in"));
    else if (value === null || typeof value === "boolean") {
      wanted.add(value);
      orAbsent ||= value === null;
    } else {
      const number = scalar("$in", value);
      if (number !== Infinity && number !== -Infinity) wanted.add(number); // as in Python
    }
  }
  const among = anyValue(field, (found) => wanted.has(found));
  return (read) => (orAbsent && valuesAt(read, field) === undefined) || among(read);
}

function partOfText(field: string, operator: string, value: unknown): Test {
  if (typeof value !== "string") throw new InvalidInputError(`${operator} takes a text, found ${shown(value)}`);
  checkText(value, `the value of ${operator}`);
  if (operator === "$prefix") return anyValue(field, (found) => typeof found === "string" && found.startsWith(value));
  const wanted = folded(value);
  return anyValue(field, (found) => typeof found === "string" && folded(found).includes(wanted));
}

/** `text` without what makes letters of one word differ: case, and how accents are coded. */
function folded(text: string): string {
  return text.toUpperCase().normalize("NFC");
}

function anyValue(field: string, holds: Holds): Test {
  return (read) => valuesAt(read, field)?.some(holds) ?? false;
}

/** The names at the top of the metadata in which `field` can be. */
export function columnsOf(field: string): string[] {
  return field.includes(".") ? [field, field.split(".")[0]!] : [field];
}

/** What a filter compares a field with: its value, or the items of a list; undefined where it is absent. */
export function valuesAt(read: (field: string) => unknown, field: string): unknown[] | undefined {
  const value = read(field);
  if (value !== undefined || !field.includes(".")) return value === undefined ? value : comparable(value);
  const [first = "", ...names] = field.split(".");
  const top = read(first);
  let values: unknown[] = top === undefined ? [] : [top];
  for (const name of names) {
    values = values.flat().flatMap((one) => (isObject(one) && Object.hasOwn(one, name) ? [one[name]] : []));
  }
  return values.length ? values.flatMap(comparable) : undefined;
}

/** Whether two texts or two numbers are in that order; false where they are of two kinds. */
function isInOrder(found: unknown, operator: string, wanted: string | number | bigint): boolean {
  if (typeof wanted === "string") return typeof found === "string" && inOrder(found, operator, wanted);
  if (typeof found !== "number" && typeof found !== "bigint") return false;
  const order = found < wanted ? -1 : found > wanted ? 1 : 0;
  return (operator.startsWith("$g") ? order > 0 : order < 0) || (order === 0 && operator.endsWith("e"));
}

/** `value` as it is compared: a text or a number. */
function scalar(operator: string, value: unknown): string | number | bigint {
  if (typeof value === "string") return checkText(value, `the value of ${operator}`);
  if (typeof value === "bigint") return wholeNumber(value);
  if (typeof value === "number" && !Number.isNaN(value)) return canonical(value);
  throw new InvalidInputError(
    `${operator} is given ${shown(value)}, expected a text or a number` +
      (operator === "$eq" ? ", true, false or null" : ""),
  );
}

function listed(operator: string, value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) {
    throw new InvalidInputError(`${operator} takes a list, found ${shown(value)}`);
  }
  return value;
}

function every(parts: readonly Test[]): Test {
  checkParts(parts);
  return (read) => parts.every((part) => part(read));
}

function some(parts: readonly Test[]): Test {
  checkParts(parts);
  return (read) => parts.some((part) => part(read));
}

function negated(test: Test): Test {
  return (read) => !test(read);
}

function checkParts(parts: readonly Test[]): void {
  if (parts.length > MOST_PARTS) {
    throw new InvalidInputError(
      `the filter joins ${parts.length} conditions, at most ${MOST_PARTS} are possible; ` +
        "use $in for many values of one field",
    );
  }
}

function shown(value: unknown): string {
  return typeof value === "object" ? kindOf(value) : show(value);
}

function unknown(name: string, expected: string): InvalidInputError {
  return new InvalidInputError(
    `the filter has the unknown operator ${repr(name)}; expected ${expected}`,
  );
}
