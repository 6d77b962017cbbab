/**
 * An index's changes, in memory and in their store, in step with what other tabs and programs store.
 *
 * Before a search and before each change the store is asked whether it is as it was left; what others
 * appended is added here, and what they put down anew is read anew. Writing compares again, in one step
 * with the writing, so nothing of others' is lost also where there are no locks.
 */
import { ArtifactError, ChangedElsewhereError, SpaceMismatchError, StorageFullError } from "../../errors.js";
import { concatenated } from "../../files/bytes.js";
import { crc32 } from "../../platform/crc32.js";
import { breathe } from "../../platform/cancelling.js";
import type { Added } from "../added.js";
import type { Contents } from "../contents.js";
import { type Change, decodeLog, encodeChange, encodeChanges, encodeLog, encodeName, type Space } from "./change_log.js";
import { type ChangeStore, difference, NOTHING_WRITTEN, type Written, writtenIn } from "./change_store.js";

/** Bytes of changes, to tell whether they are still there. */
interface Known extends Written {
  readonly sum: number; // CRC-32
}

const NOTHING: Known = { ...NOTHING_WRITTEN, sum: 0 };
/** Something is there, of which the bytes were not read since it was edited. */
const EDITED: Known = { ...NOTHING_WRITTEN, length: 1, sum: Number.NaN };
const HEAD = 1; // records before the first change
const NAME = 1; // the place of the record with the log's name
const ATTEMPTS = 5;

/** The contents of an index with its changes; all that changes them goes through {@link change}. */
export class Journal {
  private known = NOTHING; // the changes that are in `contents`
  private tried = NOTHING; // these, or with one more, whose writing failed: it may be there all the same
  private seen: Written = NOTHING_WRITTEN; // the store, when it was last read or written
  private whole = true; // whether nothing torn is behind them
  private owes = false; // an erasure, for which there was no room
  private places: number[] = []; // of the records of the added documents
  private records = 0;
  private turn: Promise<unknown> = Promise.resolve();
  private changing: Promise<boolean> | undefined; // whether the change under way began on contents that are up to date
  private readonly listeners = new Set<() => void>();
  private unwatch: (() => void) | undefined;
  private isTold = true;

  constructor(
    public contents: Contents,
    private readonly space: Space,
    private readonly store: ChangeStore,
  ) {}

  /** Read the changes for the first time; the signal ends it with its reason. */
  async open(signal?: AbortSignal): Promise<void> {
    await this.load(true, signal);
  }

  /**
   * Take up what others stored; whether there was something. While something is changed here, that has done so, and
   * nobody is to wait until it is written.
   */
  async takeUp(): Promise<boolean> {
    if (await this.changing) return false;
    return this.inTurn(() => this.refresh());
  }

  /** Call `listener` after each change of the contents, until what is returned is called. */
  onChange(listener: () => void): () => void {
    const own = (): void => listener(); // one that is given twice is called twice
    this.listeners.add(own);
    this.unwatch ??= this.store.watch?.(() => void this.takeUp().catch(() => undefined)); // the next search says why
    return () => {
      this.listeners.delete(own);
      if (this.listeners.size > 0) return;
      this.unwatch?.();
      this.unwatch = undefined;
    };
  }

  /** Do `work`, which changes something, while nobody else does, on contents that are up to date. */
  change<T>(work: () => Promise<T>): Promise<T> {
    const attempted = async (): Promise<T> => {
      for (let attempt = 1; ; attempt++) {
        const fresh = this.refresh();
        this.changing = fresh.then(() => true, () => false);
        await fresh;
        try {
          return await work();
        } catch (error) {
          if (!(error instanceof ChangedElsewhereError) || attempt === ATTEMPTS) throw error;
        } finally {
          this.changing = undefined;
        }
      }
    };
    const inTurn = (): Promise<T> => this.inTurn(attempted);
    return this.store.alone ? this.store.alone(inTurn) : inTurn();
  }

  /** Within {@link change}: store and add documents; the signal ends it with its reason before they are stored. */
  async add(added: readonly Added[], signal?: AbortSignal): Promise<void> {
    await this.append({ add: added }, signal);
    for (const one of added) this.contents.add(one);
    this.tell();
  }

  /** Within {@link change}: delete documents, which are there. */
  async delete(ids: readonly string[]): Promise<void> {
    const own = ids.filter((id) => this.contents.added.rowOf(id) !== undefined);
    try {
      if (!own.length) await this.append({ delete: ids });
      else if (this.store.edit && this.whole) await this.erase(ids, own);
      else await this.rewrite(ids);
    } catch (error) {
      if (!(error instanceof StorageFullError)) throw error;
      if (await this.deletedWithoutRoom(ids, own, error)) return;
    }
    for (const id of ids) this.contents.delete(id);
    this.tell();
  }

  /** Within {@link change}: drop what deleted documents left behind. */
  async compact(): Promise<void> {
    const compacted = await this.contents.compacted();
    try {
      await this.replace(changesOf(compacted));
      this.contents = compacted;
    } catch (error) {
      const isOwn = this.contents.hidden.length === 0; // else a record must say so
      if (!(error instanceof StorageFullError) || !this.store.edit || !isOwn) throw error;
      await this.remove([]);
    }
    this.tell();
  }

  /** Call the listeners, once this piece of work is over. */
  private tell(): void {
    if (!this.isTold) return;
    this.isTold = false;
    void Promise.resolve().then(() => {
      this.isTold = true;
      for (const listener of this.listeners) void Promise.resolve().then(listener); // one that throws stops no other
    });
  }

  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.turn.then(work);
    this.turn = done.catch(() => undefined);
    return done;
  }

  private async refresh(): Promise<boolean> {
    if (this.whole && difference(await this.state(), this.seen) === null) return false;
    try {
      return await this.load();
    } catch (error) {
      if (!(error instanceof ArtifactError || error instanceof SpaceMismatchError)) throw error;
      throw new ChangedElsewhereError(
        `${this.store.name}: another tab or program put something else in its place; open the index again (${error.message})`,
        { cause: error },
      );
    }
  }

  private async state(): Promise<Written> {
    return this.store.state ? this.store.state() : writtenIn([await this.store.read()]);
  }

  /** Read the store; whether there are changes that were not in `contents`. */
  private async load(isOpening = false, signal?: AbortSignal): Promise<boolean> {
    let before: Written;
    let bytes: Uint8Array;
    do {
      before = await this.state();
      bytes = await this.store.read();
    } while (difference(await this.state(), before) !== null);
    const { length, sum } = this.known;
    const isLonger = length > 0 && bytes.length >= length && crc32(bytes.subarray(0, length)) === sum;
    const from = isLonger ? length : 0;
    const { changes, whole } = await decodeLog(bytes, this.space, this.contents.analyzer, this.store.name, from, signal);
    const now = behind(bytes.subarray(from, whole), isLonger ? this.known : NOTHING);
    this.seen = before;
    const same = ({ length, sum }: Known): boolean => length === now.length && sum === now.sum;
    if (same(this.known) || same(this.tried)) {
      this.whole = same(this.known) && whole === bytes.length;
      return false;
    }
    if (!isLonger) {
      if (this.known.length > 0) this.contents = this.contents.unchanged();
      [this.places, this.records] = [[], whole > 0 ? HEAD : 0];
    }
    for (const change of changes) {
      if ("compact" in change) this.contents.forgetDeleted();
      else if ("delete" in change) for (const id of change.delete) this.contents.delete(id);
      else {
        for (const added of change.add) {
          if (isOpening) await breathe(signal); // later, nobody is to see some of them
          this.replay(added);
        }
      }
      this.records++;
    }
    this.known = this.tried = now;
    this.whole = whole === bytes.length;
    this.tell();
    return true;
  }

  /** A newer publisher's file may have the id that was added here; the device's document wins. */
  private replay(added: Added): void {
    if (added.document) this.contents.delete(added.document.id);
    this.contents.add(added);
    this.places.push(this.records);
  }

  private async append(change: Change, signal?: AbortSignal): Promise<void> {
    if (!this.whole || this.owes || this.known.length === 0) return this.rewrite([], change);
    return this.appendBehind(change, signal);
  }

  private async appendBehind(change: Change, signal?: AbortSignal): Promise<void> {
    const parts = this.parts([change]);
    const bytes = await encodeChanges(parts, signal);
    const longer = bytes.reduce((known, record) => behind(record, known), this.known);
    try {
      this.seen = (await this.store.append(concatenated(bytes), this.seen)) ?? longer;
    } catch (error) {
      const isClear = error instanceof ChangedElsewhereError || this.store.edit;
      if (!isClear) [this.tried, this.whole] = [longer, false];
      throw error;
    }
    this.known = this.tried = longer;
    this.count(parts);
  }

  /** Put all changes down anew, without the documents `erased`, and with one more change. */
  private async rewrite(erased: readonly string[], more?: Change): Promise<void> {
    const fromFile = erased.filter((id) => this.contents.added.rowOf(id) === undefined);
    const changes = changesOf(this.contents, new Set(erased));
    if (fromFile.length) changes.push({ delete: fromFile });
    await this.replace(more ? [...changes, more] : changes);
  }

  private async replace(changes: readonly Change[]): Promise<void> {
    const parts = this.parts(changes);
    const bytes = await encodeLog(this.space, parts);
    const now = behind(bytes);
    this.seen = (await this.store.replace(bytes, this.seen)) ?? now;
    this.known = this.tried = now;
    [this.whole, this.owes] = [true, false];
    [this.places, this.records] = [[], HEAD + 1];
    this.count(parts);
  }

  /** Erase documents in their records. */
  private async erase(ids: readonly string[], own: readonly string[]): Promise<void> {
    const { added } = this.contents;
    const records = new Map([[NAME, encodeName()]]);
    for (const row of own.map((id) => added.rowOf(id)!)) {
      await breathe();
      records.set(this.places[row]!, encodeChange({ add: [{ ...added.entries[row]!, document: null }] }));
    }
    const others = ids.filter((id) => added.rowOf(id) === undefined);
    if (others.length) records.set(this.records, encodeChange({ delete: others }));
    this.seen = await this.store.edit!({ records, known: this.seen });
    this.known = this.tried = EDITED;
    if (others.length) this.records++;
  }

  /**
   * Where there is no room to write that documents are gone, their records go whole, terms and vectors too; in
   * a file, the ids are noted behind the rest, and the documents are erased when something is written next.
   * Whether the contents are up to date already.
   */
  private async deletedWithoutRoom(ids: readonly string[], own: readonly string[], full: StorageFullError): Promise<boolean> {
    if (!this.store.edit) {
      if (!own.length || !this.whole) throw full;
      await this.appendBehind({ delete: ids });
      this.owes = true;
      return false;
    }
    // What hides a publisher's document is a record of its own.
    if (own.length < ids.length || own.some((id) => this.contents.isStored(id))) throw full;
    await this.remove(own);
    return true;
  }

  /** Remove the records of these documents, and of all that were deleted before. */
  private async remove(ids: readonly string[]): Promise<void> {
    const gone = new Set(ids);
    const records = new Map<number, null>();
    for (const [row, { document }] of this.contents.added.entries.entries()) {
      if (document === null || gone.has(document.id)) records.set(this.places[row]!, null);
    }
    this.seen = await this.store.edit!({ records, known: this.seen });
    this.known = this.tried = EDITED;
    await this.load();
  }

  /** Changes by record: one for each document, where the store can change single records. */
  private parts(changes: readonly Change[]): Change[] {
    if (!this.store.edit) return [...changes];
    return changes.flatMap((change): Change[] =>
      "add" in change ? change.add.map((one) => ({ add: [one] })) : [change],
    );
  }

  /** Note where the documents in records that were written lie. */
  private count(parts: readonly Change[]): void {
    for (const part of parts) {
      if ("add" in part) for (const _ of part.add) this.places.push(this.records);
      this.records++;
    }
  }
}

/** `bytes`, behind those known. */
function behind(bytes: Uint8Array, { length, begin, sum } = NOTHING): Known {
  const whole = { length: length + bytes.length, begin: writtenIn([begin, bytes]).begin };
  return { ...whole, sum: Number.isNaN(sum) ? sum : crc32(bytes, sum) };
}

/** All changes that make `contents` of the publisher's file, without the documents `erased`. */
function changesOf(contents: Contents, erased: ReadonlySet<string> = new Set()): Change[] {
  const { added, hidden, isCompacted } = contents;
  const entries = added.entries.map((entry) =>
    entry.document && erased.has(entry.document.id) ? { ...entry, document: null } : entry,
  );
  const { before, after } = contents.hiddenBy;
  return [
    { delete: isCompacted ? before : hidden },
    ...(isCompacted ? [{ compact: true } as const, { delete: after }] : []),
    { add: entries },
  ];
}
