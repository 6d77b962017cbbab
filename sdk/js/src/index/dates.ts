/**
 * Dates and times in metadata, as filters compare them: `2024`, `2024-05`, `2024-05-31`,
 * `2024-05-31T10:00`, `2024-05-31 12:00:00.5+02:00` (ISO 8601 and RFC 3339); without a time zone in UTC. A
 * year, a month or a day is a span, a time of day is an instant. Python's `dates.py`.
 */
import { byCodePoint } from "../python_text.js";

const DATE =
  /^(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(?:[Zz]|([+-])(\d\d)(?::?(\d\d))?)?)?)?)?$/;

/** The first microsecond of a date and the first after it, from 1970 on; undefined where it is none. */
function span(text: string): readonly [bigint, bigint] | undefined {
  const matched = DATE.exec(text);
  if (!matched) return undefined;
  const number = (group: number, otherwise = 0) => Number(matched[group] ?? otherwise);
  const [year, month, day, hour, minute, second] = [number(1), number(2, 1), number(3, 1), number(4), number(5), number(6)];
  const [hours, minutes] = [number(9), number(10)];
  const start = new Date(startOf(year, month - 1, day));
  if (year < 1 || start.getUTCMonth() !== month - 1 || start.getUTCDate() !== day) return undefined;
  if (Math.max(hour, hours) > 23 || Math.max(minute, second, minutes) > 59) return undefined;
  if (matched[4] === undefined) {
    const next = matched[3] ? startOf(year, month - 1, day + 1) : matched[2] ? startOf(year, month, 1) : startOf(year + 1, 0, 1);
    return [BigInt(start.getTime()) * 1000n, BigInt(next) * 1000n];
  }
  const offset = (hours * 60 + minutes) * (matched[8] === "-" ? -1 : 1);
  const seconds = start.getTime() / 1000 + (hour * 60 + minute - offset) * 60 + second;
  const instant = BigInt(seconds) * 1_000_000n + BigInt((matched[7] ?? "").slice(0, 6).padEnd(6, "0"));
  return [instant, instant + 1n];
}

function startOf(year: number, month: number, day: number): number {
  return new Date(0).setUTCFullYear(year, month, day); // Date.UTC takes the years to 99 for the last century's
}

/**
 * Whether two texts are in that order: as dates where both are, else by code point. A date that names more than a
 * year is in no order with a text that is no date. $gte and $lt ask for the bound's beginning, $lte and $gt for its
 * end: $lte a day takes in all of that day.
 */
export function inOrder(value: string, operator: string, bound: string): boolean {
  const isBelow = operator.startsWith("$l");
  if (value.length > 4 || bound.length > 4) {
    const [own, other] = [span(value), span(bound)];
    if (own && other) return own[0] < other[operator === "$gte" || operator === "$lt" ? 0 : 1] === isBelow;
    if (other && bound.length > 4) return false;
  }
  const order = byCodePoint(value, bound);
  return (order < 0 || (order === 0 && (operator === "$lte" || operator === "$gt"))) === isBelow;
}
