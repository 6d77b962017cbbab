/**
 * A small, strict, read-only reader of SQLite files held in memory.
 * https://www.sqlite.org/fileformat2.html
 *
 * It walks b-trees of tables, finds rows by rowid and entries of an index by their first column.
 * It knows UTF-8 and the rollback journal alone, and no SQL. Every read is checked against the
 * file's bounds. {@link SqliteFile.check} walks trees once and lets each page have one owner, so
 * that no loop, and no page that many rows share, can keep a later read busy.
 */
import { SqliteRecord, damaged, varint } from "./sqlite_record.js";

export { SqliteRecord } from "./sqlite_record.js";

const MAGIC = "SQLite format 3\0";
const FILE_HEADER = 100;
const INTERIOR_INDEX = 2;
const INTERIOR_TABLE = 5;
const LEAF_INDEX = 10;
const LEAF_TABLE = 13;
const MOST_DEPTH = 24; // of a b-tree; with two children a page already 16 million pages

/** A row of sqlite_schema. */
export interface SchemaEntry {
  readonly type: string;
  readonly name: string;
  readonly table: string;
  readonly root: number;
  readonly sql: string | null;
}

interface Page {
  readonly kind: number;
  readonly start: number;
  readonly count: number;
  readonly pointers: number;
  readonly right: number;
}

/** A cell: `left` child and `rowid` where its kind of page has them. */
interface Cell {
  readonly left: number;
  readonly rowid: number;
  readonly payload: number;
  readonly size: number;
  readonly local: number;
}

/** An SQLite file. */
export class SqliteFile {
  private readonly bytes: Uint8Array;
  private readonly view: DataView;
  private readonly pageSize: number;
  private readonly usable: number;
  private readonly pages: number;
  private readonly owned: Uint8Array;

  /**
   * @param bytes the whole file
   * @param file what to call it in errors
   * @throws CorruptArtifactError not an SQLite file of the kind described above, or truncated
   */
  constructor(
    bytes: Uint8Array,
    private readonly file: string,
  ) {
    const { buffer, byteOffset, byteLength } = bytes;
    this.bytes = new Uint8Array(buffer, byteOffset, byteLength); // a Buffer's slice copies nothing
    this.view = new DataView(buffer, byteOffset, byteLength);
    if (bytes.length < FILE_HEADER || String.fromCharCode(...bytes.subarray(0, 16)) !== MAGIC) {
      throw damaged(file, "it is no SQLite database");
    }
    const size = this.view.getUint16(16);
    this.pageSize = size === 1 ? 65536 : size;
    if (this.pageSize < 512 || (this.pageSize & (this.pageSize - 1)) !== 0) {
      throw damaged(file, `its pages have ${size} bytes`);
    }
    if (bytes[18] !== 1 || bytes[19] !== 1) {
      throw damaged(file, "it was left in WAL mode, expected a rollback journal");
    }
    this.usable = this.pageSize - bytes[20]!;
    const format = this.view.getUint32(44);
    const encoding = this.view.getUint32(56);
    if (this.usable < 480 || format < 1 || format > 4 || encoding !== 1) {
      throw damaged(file, `its schema is of format ${format} and text encoding ${encoding}`);
    }
    const whole = Math.floor(bytes.length / this.pageSize);
    const stated = this.view.getUint32(28);
    const current = stated > 0 && this.view.getUint32(24) === this.view.getUint32(92);
    this.pages = current ? stated : whole;
    if (this.pages > whole || this.pages < 1) {
      throw damaged(
        file,
        `it has ${bytes.length} bytes, expected ${this.pages * this.pageSize}: it is truncated`,
      );
    }
    this.owned = new Uint8Array(this.pages + 1);
  }

  /** What kind of database its maker calls it. */
  get applicationId(): number {
    return this.view.getUint32(68);
  }

  /** The format version its maker gave it. */
  get userVersion(): number {
    return this.view.getUint32(60);
  }

  /** The tables, indexes, views and triggers. */
  schema(): SchemaEntry[] {
    this.check(1, "table");
    return Array.from(this.rows(1), ([, record]) => ({
      type: record.text(0),
      name: record.text(1),
      table: record.text(2),
      root: record.integer(3),
      sql: record.isNull(4) ? null : record.text(4),
    }));
  }

  /**
   * Walk the tree at `root`, overflow pages and all; call it once for each tree before reading it.
   * Rows of a table are in their order, so that whoever asks for one and whoever reads all get the same.
   * @throws CorruptArtifactError a page is no part of such a tree or belongs to two owners, or a row
   *   is where it is not looked for
   */
  check(root: number, kind: "table" | "index"): void {
    const [leaf, interior] =
      kind === "table" ? [LEAF_TABLE, INTERIOR_TABLE] : [LEAF_INDEX, INTERIOR_INDEX];
    let last = Number.NEGATIVE_INFINITY; // the greatest rowid until here
    const walk = (number: number, depth: number): void => {
      this.own(number, depth);
      const page = this.page(number);
      if (page.kind !== leaf && page.kind !== interior) {
        throw damaged(this.file, `page ${number} is of another kind than its tree`);
      }
      for (let i = 0; i < page.count; i++) {
        const cell = this.cell(page, i);
        if (cell.left) walk(cell.left, depth + 1);
        for (const next of this.overflow(cell)) this.own(next, 0);
        if (kind === "index") continue;
        // An inner page's is as great as the greatest below it, and may be greater.
        if (page.kind === leaf ? cell.rowid <= last : cell.rowid < last) {
          throw damaged(this.file, `page ${number} has rows out of their order`);
        }
        last = cell.rowid;
      }
      if (page.right) walk(page.right, depth + 1);
    };
    walk(root, 0);
  }

  /** The rows of the table at `root` in the order of their rowids. */
  *rows(root: number, depth = 0): Generator<[rowid: number, record: SqliteRecord]> {
    const page = this.page(root, depth);
    for (let i = 0; i < page.count; i++) {
      const cell = this.cell(page, i);
      if (page.kind === LEAF_TABLE) yield [cell.rowid, this.record(cell)];
      else yield* this.rows(cell.left, depth + 1);
    }
    if (page.right) yield* this.rows(page.right, depth + 1);
  }

  /** The row `rowid` of the table at `root`, undefined where there is none. */
  row(root: number, rowid: number): SqliteRecord | undefined {
    for (let number = root, depth = 0; ; depth++) {
      const page = this.page(number, depth);
      const i = this.first(page, (cell) => cell.rowid >= rowid);
      const cell = i < page.count ? this.cell(page, i) : undefined;
      if (page.kind === LEAF_TABLE) {
        return cell?.rowid === rowid ? this.record(cell) : undefined;
      }
      number = cell?.left ?? page.right;
    }
  }

  /** The entries of the index at `root`, or those whose first column is the text `key` (UTF-8). */
  *entries(root: number, key?: Uint8Array, depth = 0): Generator<SqliteRecord> {
    const page = this.page(root, depth);
    const first = key ? this.first(page, (cell) => compareBytes(this.key(cell), key) >= 0) : 0;
    for (let i = first; i < page.count; i++) {
      const cell = this.cell(page, i);
      if (cell.left) yield* this.entries(cell.left, key, depth + 1);
      if (key && compareBytes(this.key(cell), key) !== 0) return;
      yield this.record(cell);
    }
    if (page.right) yield* this.entries(page.right, key, depth + 1);
  }

  /** The first cell of `page` for which `holds`; it holds for all after it, too. */
  private first(page: Page, holds: (cell: Cell) => boolean): number {
    let low = 0;
    let high = page.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (holds(this.cell(page, middle))) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  private own(number: number, depth: number): void {
    if (depth > MOST_DEPTH) throw damaged(this.file, "a tree is too deep");
    if (number < 1 || number > this.pages || this.owned[number]) {
      throw damaged(this.file, `page ${number} is not there or belongs to two trees`);
    }
    this.owned[number] = 1;
  }

  private page(number: number, depth = 0): Page {
    if (number < 1 || number > this.pages || depth > MOST_DEPTH) {
      throw damaged(this.file, `page ${number} is not there`);
    }
    const start = (number - 1) * this.pageSize;
    const header = number === 1 ? start + FILE_HEADER : start;
    const kind = this.bytes[header]!;
    const interior = kind === INTERIOR_INDEX || kind === INTERIOR_TABLE;
    if (!interior && kind !== LEAF_INDEX && kind !== LEAF_TABLE) {
      throw damaged(this.file, `page ${number} is of the unknown kind ${kind}`);
    }
    const count = this.view.getUint16(header + 3);
    const pointers = header + (interior ? 12 : 8);
    if (pointers + 2 * count > start + this.usable) {
      throw damaged(this.file, `page ${number} has ${count} cells`);
    }
    const right = interior ? this.view.getUint32(header + 8) : 0;
    if (interior && !right) throw damaged(this.file, `page ${number} lacks a child`);
    return { kind, start, count, pointers, right };
  }

  private cell(page: Page, index: number): Cell {
    const end = page.start + this.usable;
    const start = page.start + this.view.getUint16(page.pointers + 2 * index);
    const interior = page.kind === INTERIOR_INDEX || page.kind === INTERIOR_TABLE;
    let at = interior ? start + 4 : start;
    if (start < page.pointers + 2 * page.count || at > end) {
      throw damaged(this.file, "a cell lies outside its page");
    }
    const left = interior ? this.view.getUint32(start) : 0;
    if (interior && !left) throw damaged(this.file, "a cell lacks its child");
    if (page.kind === INTERIOR_TABLE) {
      return { left, rowid: this.rowid(at, end).value, payload: 0, size: 0, local: 0 };
    }
    const size = varint(this.bytes, at, end, this.file);
    at = size.next;
    let rowid = 0;
    if (page.kind === LEAF_TABLE) ({ value: rowid, next: at } = this.rowid(at, end));
    const local = this.localSize(size.value, page.kind === LEAF_TABLE);
    if (at + local + (local < size.value ? 4 : 0) > end || size.value > this.bytes.length) {
      throw damaged(this.file, "a cell leaves its page");
    }
    return { left, rowid, payload: at, size: size.value, local };
  }

  /** Rowids of our tables count from 0, so that a negative one (two's complement) is damage. */
  private rowid(at: number, end: number): { value: number; next: number } {
    return varint(this.bytes, at, end, this.file);
  }

  /** How much of a payload stays on its page. */
  private localSize(size: number, table: boolean): number {
    const most = table ? this.usable - 35 : Math.floor(((this.usable - 12) * 64) / 255) - 23;
    if (size <= most) return size;
    const least = Math.floor(((this.usable - 12) * 32) / 255) - 23;
    const fitting = least + ((size - least) % (this.usable - 4));
    return fitting <= most ? fitting : least;
  }

  /** The overflow pages of a cell, as many as its size needs. */
  private *overflow(cell: Cell): Generator<number> {
    let next = cell.local < cell.size ? this.view.getUint32(cell.payload + cell.local) : 0;
    for (let left = cell.size - cell.local; left > 0; left -= this.usable - 4) {
      if (next < 1 || next > this.pages) throw damaged(this.file, "a long value is cut off");
      yield next;
      next = this.view.getUint32((next - 1) * this.pageSize);
    }
  }

  /** The whole payload: a view where it lies on one page, else a copy. */
  private record(cell: Cell): SqliteRecord {
    const local = this.bytes.subarray(cell.payload, cell.payload + cell.local);
    if (cell.local === cell.size) return new SqliteRecord(local, this.file);
    const whole = new Uint8Array(cell.size);
    whole.set(local);
    let filled = cell.local;
    for (const number of this.overflow(cell)) {
      const start = (number - 1) * this.pageSize + 4;
      const piece = Math.min(this.usable - 4, cell.size - filled);
      whole.set(this.bytes.subarray(start, start + piece), filled);
      filled += piece;
    }
    return new SqliteRecord(whole, this.file);
  }

  /** The first column of an index's entry, without reading the pages that only others fill. */
  private key(cell: Cell): Uint8Array {
    if (cell.local < cell.size) {
      const end = cell.payload + cell.local;
      const header = varint(this.bytes, cell.payload, end, this.file);
      const type = varint(this.bytes, header.next, end, this.file);
      const start = cell.payload + header.value;
      const stop = start + (type.value - 13) / 2;
      if (type.value >= 13 && type.value % 2 === 1 && stop <= end) {
        return this.bytes.subarray(start, stop);
      }
    }
    return this.record(cell).textBytes(0);
  }
}

/** The order of two texts in UTF-8: negative, 0 or positive. */
export function compareBytes(left: Uint8Array, right: Uint8Array): number {
  const length = Math.min(left.length, right.length);
  for (let i = 0; i < length; i++) {
    const difference = left[i]! - right[i]!;
    if (difference) return difference;
  }
  return left.length - right.length;
}
