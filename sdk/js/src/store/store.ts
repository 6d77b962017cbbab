/**
 * What the user searched for and opened, kept on the device for local training, by consent: Python's
 * `client/store/store.py`.
 *
 * Nothing is kept until the user consents, and nothing stays when the consent is withdrawn. What is
 * kept expires, is limited in number and size, can be read out and can be erased. It never leaves
 * the device: only the local training reads it.
 */

import { fromEnd } from "../platform/lists.js";
import { ArtifactError, InvalidInputError } from "../errors.js";
import { randomName } from "../files/bytes.js";
import { isBlank, kindOf, repr } from "../python_text.js";
import { checkCount, checkOptions, checkText, type Names } from "../texts.js";
import {
  type Change,
  type Kept,
  MemoryBackend,
  type Row,
  type StoreBackend,
  type StoreState,
} from "./backend.js";
import { checkExample, type Example, plainQuery, sizeOf } from "./example.js";
import { type Age, ageAt, isSet, NO_AGE, stampOf } from "./expiry.js";

const DAY = 86_400;
const MINUTE = 60;
const MOST_DAYS = 36_525;

/** The name of what is kept of a private round, for a day at most. */
export const SECURE = "secure";
/** The name of what plain rounds leave for the next one; it goes with the last query at the latest. */
export const ROUNDS = "rounds";

/** How much is kept, and by which clock. */
export interface StoreOptions {
  /** How many queries are kept; of more, the oldest go. */
  readonly maxRows?: number;
  /** After how many days a query goes. */
  readonly maxAgeDays?: number;
  /** How much text (queries and ids, UTF-8) is kept; of more, the oldest go. */
  readonly maxBytes?: number;
  /** Unix seconds. */
  readonly clock?: () => number;
}

const STORE_OPTIONS: Names<StoreOptions> = { maxRows: true, maxAgeDays: true, maxBytes: true, clock: true };

/** A kept query as its owner reads it. */
export interface Exported {
  readonly query: string;
  readonly shown: readonly string[];
  readonly opened: string | null;
  /** Unix seconds of the device's clock, null if it was not set. */
  readonly time: number | null;
}

interface Limits {
  readonly rows: number;
  readonly bytes: number;
  readonly age: number;
}

/** The queries of one user; opened by `QueryStore.open`. */
export class QueryStore {
  readonly #backend: StoreBackend;
  readonly #limits: Limits;
  readonly #clock: () => number;
  #closed = false;

  private constructor(backend: StoreBackend, limits: Limits, clock: () => number) {
    this.#backend = backend;
    this.#limits = limits;
    this.#clock = clock;
  }

  /**
   * Open the store at `place`, or make an empty one there, without consent.
   *
   * Throws InvalidInputError (a limit that is none), CorruptArtifactError (damaged, or another
   * program's), UnsupportedVersionError or ArtifactError (it cannot be opened or made).
   */
  static async open(
    place: StoreBackend = new MemoryBackend(),
    options: StoreOptions = {},
  ): Promise<QueryStore> {
    const { maxRows = 2000, maxAgeDays = 90, maxBytes = 4 << 20 } = checkOptions(options, STORE_OPTIONS);
    if (!(maxAgeDays > 0 && maxAgeDays <= MOST_DAYS)) {
      throw new InvalidInputError(
        `maxAgeDays is ${String(maxAgeDays)}, expected a number of days above 0, at most 36525 (a ` +
          "hundred years)",
      );
    }
    const limits = {
      rows: checkCount(maxRows, "maxRows", 1e9),
      bytes: checkCount(maxBytes, "maxBytes", 2 ** 40),
      age: maxAgeDays * DAY,
    };
    const store = new QueryStore(place, limits, options.clock ?? (() => Date.now() / 1000));
    await store.#read((kept) => kept.state); // damage is an error, whatever comes of the next
    await store.#tidy(true);
    return store;
  }

  /** Remove the store at `place`, also a damaged one; none is fine too. */
  static async destroy(place: StoreBackend): Promise<void> {
    await place.destroy();
  }

  /** Whether the user has consented and not withdrawn, here or in another tab. */
  consent(): Promise<boolean> {
    return this.#read(({ state }) => state.consent);
  }

  /**
   * A name, made at random, for what is kept; another one once any of it was erased. What was
   * computed of the queries carries it, and is dropped where it is no longer this one. What goes
   * because of its age, or because there is too much, changes no name.
   */
  epoch(): Promise<string> {
    return this.#read(({ state }) => state.epoch);
  }

  /** From now on, queries may be kept. */
  async giveConsent(): Promise<void> {
    await this.#transact(({ state }) => ({ result: undefined, state: { ...state, consent: true } }));
  }

  /** Keep nothing any more, and erase what was kept, in one transaction. */
  async withdrawConsent(): Promise<void> {
    await this.#transact((kept) => ({
      ...emptied(kept),
      state: { ...kept.state, ...NO_AGE, consent: false, epoch: randomName() },
    }));
  }

  /** Erase all that was kept, and what was made of it; consent stays as it is. */
  async eraseAll(): Promise<void> {
    await this.#transact(emptied);
  }

  /**
   * Erase every search for `query`, whatever its case, spaces and punctuation, and what was made of
   * the queries: who can tell which part came of this one. None is fine too.
   */
  async forget(query: string): Promise<void> {
    const wanted = plainQuery(checkText(query, "the query"));
    await this.#transact(({ state, rows }) => ({
      result: undefined,
      state: { ...state, epoch: randomName() },
      remove: rows.filter((row) => plainQuery(row.query) === wanted).map(({ number }) => number),
      made: null,
      erases: true,
    }));
  }

  /**
   * Keep a query; false where it is not kept: no consent, blank, or larger than the store.
   *
   * `shown`: ids of what the search returned, best first; `opened`: the one that was opened, if any.
   *
   * Throws InvalidInputError (something is no text; `opened` was not shown) or ArtifactError (no
   * space; nothing was changed).
   */
  async add(query: string, shown: readonly string[] = [], opened: string | null = null): Promise<boolean> {
    const example = checkExample(query, shown, opened);
    const size = sizeOf(example);
    if (isBlank(query) || size > this.#limits.bytes) return false;
    const now = this.#clock();
    return this.#transact((kept): Change<boolean> => {
      if (!kept.state.consent) return { result: false };
      const aged = this.#due(kept, false, { ...example, size, time: isSet(now) ? now : null }, now);
      return { result: true, ...aged };
    });
  }

  /**
   * Note that `opened` was opened after the newest search for `query`; false where that search was
   * not kept or did not show it.
   */
  async recordOpened(query: string, opened: string): Promise<boolean> {
    checkExample(query, [opened], opened);
    return this.#transact(({ rows }): Change<boolean> => {
      const newest = [...rows].reverse().find((row) => row.query === query);
      if (newest === undefined || !newest.shown.includes(opened)) return { result: false };
      return { result: true, put: [{ ...newest, opened }] };
    });
  }

  /** What is kept and not expired, oldest first; of more than `limit`, the newest. */
  async examples(limit?: number): Promise<Example[]> {
    if (limit !== undefined) checkCount(limit, "limit");
    const rows = await this.#rows();
    return rows
      .slice(limit === undefined ? 0 : -limit)
      .map(({ query, shown, opened }) => ({ query, shown, opened }));
  }

  /** All that is kept, oldest first, for the user to read. */
  async export(): Promise<Exported[]> {
    const rows = await this.#rows();
    return rows.map(({ query, shown, opened, time }) => ({ query, shown, opened, time }));
  }

  /** How many queries are kept and not expired. */
  async size(): Promise<number> {
    return (await this.#rows()).length;
  }

  /**
   * Keep what was computed of the queries, by name, say an adapter: it goes with them, whatever is
   * erased. False, and nothing is kept, where the consent is gone or something was erased since
   * `epoch` was read: read it before the queries. Throws InvalidInputError: it is no Uint8Array.
   */
  async keep(made: Readonly<Record<string, Uint8Array>>, epoch: string): Promise<boolean> {
    const copies = Object.entries(made).map(([name, bytes]): [string, Uint8Array] => {
      return [checkText(name, "the name"), copyOf(bytes, repr(name))];
    });
    return this.#transact(({ state }): Change<boolean> => {
      if (!state.consent || state.epoch !== epoch) return { result: false };
      const noted = Object.hasOwn(made, SECURE) && { state: { ...state, roundKept: this.#clock() } };
      return { result: true, ...noted, made: new Map(copies) };
    });
  }

  /**
   * What was kept under this name, or `bytes`, kept now where there was nothing: of several tabs that
   * ask, all get the same. Null where `keep` would keep nothing.
   */
  async keptOr(name: string, bytes: Uint8Array, epoch: string): Promise<Uint8Array | null> {
    const copy = copyOf(bytes, repr(checkText(name, "the name")));
    return this.#transact(({ state, made }): Change<Uint8Array | null> => {
      if (!state.consent || state.epoch !== epoch) return { result: null };
      const found = made.get(name);
      return found ? { result: found } : { result: copy, made: new Map([[name, copy]]) };
    });
  }

  /** What was kept under this name, null where there is nothing. */
  kept(name: string): Promise<Uint8Array | null> {
    return this.#read(({ made, state }) => (state.consent ? (made.get(name) ?? null) : null));
  }

  /** Drop what was computed of the queries, all of it or what has these names; the queries stay. */
  async dropKept(...names: string[]): Promise<void> {
    await this.#drop(names, true);
  }

  /**
   * Drop what is of no more use, as `dropKept` does where the user asks for it. Where there is no space
   * to write that down it throws ArtifactError and is there still, and the queries are not risked.
   */
  async discardKept(...names: string[]): Promise<void> {
    await this.#drop(names, false);
  }

  async #drop(names: string[], erases: boolean): Promise<void> {
    const made = names.length > 0 ? new Map(names.map((name) => [name, null])) : null;
    await this.#transact(() => ({ result: undefined, made, erases }));
  }

  /**
   * Delete what is due; done when a store is opened, and by a device before it trains. A store that stays
   * open needs it now and then: reading notes no time, and a leap of the clock is believed only where it
   * is seen again. Where there is no space to write, nothing happens: what is due is not given out anyway.
   */
  tidy(): Promise<void> {
    return this.#tidy(false);
  }

  /** Close the store; twice does no harm. */
  close(): void {
    this.#closed = true;
    this.#backend.close();
  }

  async #tidy(opening: boolean): Promise<void> {
    try {
      await this.#transact((kept) => {
        const due = this.#due(kept, opening);
        return { result: undefined, ...due, ...this.#left(kept, due, opening) };
      });
    } catch (error) {
      if (!(error instanceof ArtifactError)) throw error;
    }
  }

  #rows(): Promise<Row[]> {
    return this.#read(({ state, rows }) => {
      const { seconds } = ageAt(state, this.#clock(), this.#limits.age / 2);
      return rows.filter((row) => row.age >= seconds - this.#limits.age);
    });
  }

  #read<T>(work: (kept: Kept) => T): Promise<T> {
    return this.#transact((kept) => ({ result: work(kept) }));
  }

  async #transact<T>(work: (kept: Kept) => Change<T>): Promise<T> {
    if (this.#closed) {
      throw new InvalidInputError(`${this.#backend.name} is closed; open it again`);
    }
    return this.#backend.transact(work);
  }

  /**
   * What is left of plain rounds goes with the last query, after which a running device forgets it, too: the
   * epoch changes. And at an opening, whatever device it is, what is left of a private round that nobody went
   * on with for a day; a running one sees to its own.
   */
  #left(
    { state, rows, made }: Kept,
    due: Pick<Change<unknown>, "state" | "remove">,
    opening: boolean,
  ): Partial<Change<unknown>> {
    const isNew = Math.abs(this.#clock() - (state.roundKept ?? Number.NaN)) < DAY;
    const gone = opening && made.has(SECURE) && !isNew ? [SECURE] : [];
    const areGone = rows.length > 0 && rows.length === due.remove?.length; // the last queries, by age
    if (made.has(ROUNDS) && areGone) gone.push(ROUNDS);
    if (!gone.length) return {};
    const next = { ...state, ...due.state, ...(gone.includes(ROUNDS) && { epoch: randomName() }) };
    return { made: new Map(gone.map((name) => [name, null])), state: next };
  }

  /** The age now, noted where a minute has passed or more, what of it is new, and what is due. */
  #due(
    { state, rows }: Kept,
    opening: boolean,
    added?: Example & Pick<Row, "size" | "time">,
    now = this.#clock(),
  ): Pick<Change<unknown>, "state" | "put" | "remove"> {
    const age = ageAt(state, now, this.#limits.age / 2, opening);
    const stamp = stampOf(age);
    // What was kept while the clock was wrongly ahead is not of the future.
    const early = isSet(now) ? rows.filter((row) => row.age > stamp) : [];
    const put: Row[] = early.map((row) => ({ ...row, age: stamp }));
    if (added) put.push({ ...added, number: (fromEnd(rows)?.number ?? 0) + 1, age: stamp });
    const all = new Map([...rows, ...put].map((row) => [row.number, row]));
    const remove: number[] = [];
    let [count, bytes] = [0, 0];
    for (const row of [...all.values()].sort((a, b) => b.number - a.number)) {
      const beyond = ++count > this.#limits.rows || (bytes += row.size) > this.#limits.bytes;
      if (beyond || row.age < age.seconds - this.#limits.age) remove.push(row.number);
    }
    const gone = new Set(remove);
    const stays = put.filter(({ number }) => !gone.has(number));
    return { ...(noted(state, age) && { state: { ...state, ...age } }), put: stays, remove };
  }
}

/** Whether the clock is worth a write of its own. */
function noted(state: StoreState, age: Age): boolean {
  const moved = state.seen === null || Math.abs((age.seen ?? 0) - state.seen) >= MINUTE;
  return moved || age.seconds - state.seconds >= MINUTE;
}

/** Throws InvalidInputError: `bytes` are none; an error calls them `name`. */
function copyOf(bytes: unknown, name: string): Uint8Array {
  if (bytes instanceof Uint8Array) return Uint8Array.from(bytes);
  throw new InvalidInputError(`${name} is ${kindOf(bytes)}, expected a Uint8Array`);
}

function emptied({ state, rows }: Kept): Change<undefined> {
  return {
    result: undefined,
    state: { ...state, epoch: randomName() },
    remove: rows.map(({ number }) => number),
    made: null,
    erases: true,
  };
}
