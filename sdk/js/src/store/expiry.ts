/**
 * How old a kept query is, on devices whose clock jumps, stands still or was never set: Python's
 * `client/store/expiry.py`.
 *
 * Age is a counter of our own, which never shrinks, by four rules:
 *
 * 1. Every reading that is later than the last one counts, at most an hour of it. An opening of the
 *    store at which the clock does not even do that counts an hour.
 * 2. Where a clock that is set is up to a day ahead of what was counted, it is believed at once.
 * 3. Where it is further ahead, what it leapt to is believed once it is read again a day later or
 *    more, half a query's lifetime at a time; where it goes back before, not at all.
 * 4. Where it is more than a day before what it showed when the counter began, it was wrong then or
 *    is now. Read so again a day later or more, it is believed from then on, which adds nothing.
 */

// 2025-01-01 and 2500-01-01 (UTC): a clock outside has not been set, whatever it shows.
const EARLIEST = 1_735_689_600;
const LATEST = 16_725_225_600;
const HOUR = 3_600;
const DAY = 86_400;

/** The counter, and what is known of the clock; all in seconds. */
export interface Age {
  /** Lived through so far; never shrinks. */
  readonly seconds: number;
  /** The clock when it was last read; null where it was not. */
  readonly seen: number | null;
  /** What a right clock showed when `seconds` was 0; null where none was ever set. */
  readonly origin: number | null;
  /**
   * What the clock showed when it leapt further ahead than is believed at once, or to before
   * `origin`; null where it did neither.
   */
  readonly landed: number | null;
}

export const NO_AGE: Age = { seconds: 0, seen: null, origin: null, landed: null };

/** Whether `now` (Unix seconds) can be the time of day; NaN cannot. */
export function isSet(now: number): boolean {
  return now >= EARLIEST && now < LATEST;
}

/** The counter when the clock shows `now`; one belief in a leap adds at most `most` seconds. */
export function ageAt(age: Age, now: number, most: number, opening = false): Age {
  if (!Number.isFinite(now)) return age;
  // 1. It ticked, or the store was opened.
  const step = age.seen === null ? 0 : now - age.seen;
  let seconds = age.seconds + Math.min(Math.max(step, 0), HOUR);
  if (opening && age.seen !== null && (step === 0 || (step < 0 && !isSet(now)))) seconds += HOUR;
  if (!isSet(now)) return { ...age, seconds, seen: now };
  const origin = age.origin ?? now - seconds;
  const { landed } = age;
  // 4. It is before the beginning.
  if (now < origin - DAY) {
    if (landed === null || now < landed) return { seconds, seen: now, origin, landed: now };
    if (now - landed < DAY) return { seconds, seen: now, origin, landed };
    return { seconds, seen: now, origin: now - seconds, landed: null };
  }
  // 2. It is about where we think.
  let ahead = now - origin - seconds;
  if (ahead <= DAY) return { seconds: seconds + Math.max(ahead, 0), seen: now, origin, landed: null };
  // 3. It leapt.
  if (landed === null || now < landed) return { seconds, seen: now, origin, landed: now };
  if (now - landed < DAY) return { seconds, seen: now, origin, landed };
  seconds += Math.min(Math.max(landed - origin - seconds, 0), most);
  ahead = now - origin - seconds;
  return ahead > DAY
    ? { seconds, seen: now, origin, landed: now }
    : { seconds: seconds + ahead, seen: now, origin, landed: null };
}

/** The counter that a query kept now belongs to: as if a leap were believed. */
export function stampOf({ seconds, seen, origin }: Age): number {
  return seen === null || origin === null || !isSet(seen) ? seconds : Math.max(seconds, seen - origin);
}
