/** The documents of a publisher's file: `documents.sqlite`, read only. */
import { CorruptArtifactError, UnsupportedVersionError } from "../../errors.js";
import { encodeUtf8 } from "../../utf8.js";
import type { BaseDocuments, StoredTexts, TermPostings } from "../deltas/base.js";
import type { Document } from "../document.js";
import { parseExactly, parseMetadata } from "../metadata.js";
import type { Postings } from "../part.js";
import { compareBytes, SqliteFile, type SqliteRecord } from "../sqlite.js";
import { damaged } from "../sqlite_record.js";

const APPLICATION_ID = 0x50514958; // "PQIX"
const VERSION = 2;

// As Python makes them: what a column means is known only where the statement is this one.
const TABLES = {
  meta: "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
  documents:
    "CREATE TABLE documents (row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, metadata TEXT NOT NULL)",
  texts: "CREATE TABLE texts (row INTEGER PRIMARY KEY, text TEXT NOT NULL)",
  tombstones: "CREATE TABLE tombstones (row INTEGER PRIMARY KEY)",
  postings:
    "CREATE TABLE postings (term TEXT NOT NULL, first_row INTEGER NOT NULL, rows BLOB NOT NULL," +
    " counts BLOB NOT NULL, PRIMARY KEY (term, first_row)) WITHOUT ROWID",
  segments:
    "CREATE TABLE segments (first_row INTEGER PRIMARY KEY, count INTEGER NOT NULL," +
    " lengths BLOB NOT NULL, languages BLOB NOT NULL, vectors_sha256 TEXT NOT NULL)",
  files: // that documents were read from, for what updates the index; no search reads it
    "CREATE TABLE files (path TEXT PRIMARY KEY, size INTEGER NOT NULL," +
    " mtime_ns INTEGER NOT NULL, sha256 TEXT NOT NULL, ids TEXT NOT NULL) WITHOUT ROWID",
} as const;

type Table = keyof typeof TABLES;

/** Where the tables begin, and the index of documents. */
type Roots = Record<Table | "ids", number>;

/** Rows that came together, and the hash of their vectors. */
export interface Segment {
  readonly firstRow: number;
  readonly count: number;
  readonly vectorsSha256: string;
}

/** The documents of an SQLite file. */
export class StoredDocuments implements BaseDocuments {
  readonly count: number;
  readonly lengths: Uint32Array;
  readonly languages: Uint16Array;
  readonly segments: readonly Segment[];
  /** Rows of deleted documents. */
  readonly deleted: readonly number[];
  private readonly database: SqliteFile;
  private readonly roots: Roots;
  private readonly columns = new Map<string, unknown[]>();

  /**
   * @param bytes the whole file
   * @param file what to call it in errors
   * @throws CorruptArtifactError, UnsupportedVersionError
   */
  constructor(
    bytes: Uint8Array,
    private readonly file: string,
  ) {
    this.database = new SqliteFile(bytes, file);
    if (this.database.applicationId !== APPLICATION_ID) {
      throw new CorruptArtifactError(
        `${file} is a database, but not of a pocketquery index; build the index again`,
      );
    }
    if (this.database.userVersion > VERSION) {
      throw new UnsupportedVersionError(
        `${file} is of version ${this.database.userVersion}, this release reads up to ${VERSION}; ` +
          "upgrade pocketquery",
      );
    }
    if (this.database.userVersion < VERSION) {
      throw new UnsupportedVersionError(
        `${file} is of version ${this.database.userVersion}, this release reads from ${VERSION} on; ` +
          "build the index again",
      );
    }
    this.roots = findRoots(this.database, file);
    [this.segments, this.lengths, this.languages] = this.readSegments();
    this.count = this.lengths.length;
    this.deleted = Array.from(this.database.rows(this.roots.tombstones), ([row]) => row);
    if (this.deleted.some((row) => row >= this.count)) {
      throw damaged(file, "a row is deleted that is not there");
    }
  }

  /** The value of `key`, which every index has. */
  meta(key: string): string {
    for (const entry of this.database.entries(this.roots.meta, encodeUtf8(key))) {
      return entry.text(1);
    }
    throw damaged(this.file, `it lacks ${key}`);
  }

  postings(term: string): Postings {
    return this.unpacked(this.database.entries(this.roots.postings, encodeUtf8(term)));
  }

  /** The postings of a term's records, of one segment each, as one. */
  private unpacked(records: Iterable<SqliteRecord>): Postings {
    const found: { firstRow: number; rows: Uint32Array; counts: Uint16Array }[] = [];
    for (const entry of records) {
      const [rows, counts] = [entry.blob(2), entry.blob(3)];
      if (rows.length % 4 || counts.length * 2 !== rows.length) {
        throw damaged(this.file, `the postings of a term have ${rows.length} bytes`);
      }
      // Copied, since a typed array begins at a multiple of its numbers' size.
      found.push({
        firstRow: entry.integer(1),
        rows: new Uint32Array(rows.slice().buffer),
        counts: new Uint16Array(counts.slice().buffer),
      });
    }
    const total = found.reduce((sum, { rows }) => sum + rows.length, 0);
    const [rows, counts] = [new Uint32Array(total), new Uint16Array(total)];
    let at = 0;
    for (const record of found) {
      counts.set(record.counts, at);
      for (const row of record.rows) {
        if (row + record.firstRow >= this.count) {
          throw damaged(this.file, "a term's row is not there");
        }
        rows[at++] = row + record.firstRow;
      }
    }
    return { rows, counts };
  }

  /** By the index of ids, which nobody signs; so the row itself has to say the same. */
  rowOf(id: string): number | undefined {
    for (const entry of this.database.entries(this.roots.ids, encodeUtf8(id))) {
      const row = this.checkRow(entry.integer(1));
      if (this.database.row(this.roots.documents, row)?.text(1) === id) return row;
      throw damaged(this.file, `the index of ids leads to row ${row}, which has another id`);
    }
    return undefined;
  }

  document(row: number): Document {
    const { id, metadata, text } = this.texts(row);
    return { id, text, metadata: parseMetadata(metadata, this.file) };
  }

  texts(row: number): StoredTexts {
    const document = this.database.row(this.roots.documents, row);
    const text = this.database.row(this.roots.texts, row);
    if (!document || !text) throw damaged(this.file, `row ${row} has no document`);
    return { id: document.text(1), metadata: document.text(2), text: text.text(1) };
  }

  *postingsByTerm(): Generator<TermPostings> {
    let term: Uint8Array | undefined;
    let records: SqliteRecord[] = []; // of the term, one a segment
    for (const entry of this.database.entries(this.roots.postings)) {
      const next = entry.textBytes(0);
      if (term && compareBytes(term, next) !== 0) {
        yield { term, ...this.unpacked(records) };
        records = [];
      }
      term = next;
      records.push(entry);
    }
    if (term) yield { term, ...this.unpacked(records) };
  }

  /** Reads each field once and keeps it: parsing the metadata is what a filter costs. */
  prepare(fields: ReadonlySet<string>): void {
    const missing = [...fields].filter((field) => !this.columns.has(field));
    if (!missing.length) return;
    const columns = missing.map(() => new Array<unknown>(this.count).fill(undefined));
    for (const [row, record] of this.database.rows(this.roots.documents)) {
      const metadata = parseExactly(record.text(2), this.file);
      for (const [i, field] of missing.entries()) {
        if (Object.hasOwn(metadata, field)) columns[i]![this.checkRow(row)] = metadata[field];
      }
    }
    for (const [i, field] of missing.entries()) this.columns.set(field, columns[i]!);
  }

  value(row: number, field: string): unknown {
    return this.columns.get(field)?.[row];
  }

  private checkRow(row: number): number {
    if (row < 0 || row >= this.count) throw damaged(this.file, `row ${row} is not there`);
    return row;
  }

  private readSegments(): [Segment[], Uint32Array, Uint16Array] {
    const segments: Segment[] = [];
    const [lengths, languages]: [number[][], number[][]] = [[], []];
    let next = 0;
    for (const [firstRow, record] of this.database.rows(this.roots.segments)) {
      const segment = { firstRow, count: record.integer(1), vectorsSha256: record.text(4) };
      const [some, spoken] = [numbersOf(record.blob(2), Uint32Array), numbersOf(record.blob(3), Uint16Array)];
      if (firstRow !== next || some.length !== segment.count || spoken.length !== segment.count) {
        throw damaged(this.file, `the segment at row ${firstRow} has ${some.length} lengths, ${spoken.length} languages`);
      }
      next += segment.count;
      segments.push(segment);
      lengths.push(some);
      languages.push(spoken);
    }
    return [segments, Uint32Array.from(lengths.flat()), Uint16Array.from(languages.flat())];
  }
}

/** Copied, since a typed array begins at a multiple of its numbers' size. */
function numbersOf(blob: Uint8Array, kind: typeof Uint16Array | typeof Uint32Array): number[] {
  return blob.length % kind.BYTES_PER_ELEMENT ? [] : Array.from(new kind(blob.slice().buffer));
}

/** Where each table begins, every page of it checked. */
function findRoots(database: SqliteFile, file: string): Roots {
  const found: Partial<Record<string, number>> = {};
  for (const { type, name, table, root, sql } of database.schema()) {
    const expected = Object.hasOwn(TABLES, table) ? TABLES[table as Table] : undefined;
    const isTable = type === "table" && name === table && sql === expected;
    const isIndex = type === "index" && sql === null && name === `sqlite_autoindex_${table}_1`;
    if (!expected || !(isTable || isIndex) || found[name] !== undefined) {
      throw damaged(file, `it has the ${type} ${name}, which is not of an index`);
    }
    found[name] = root;
    database.check(root, isTable && !sql?.endsWith("WITHOUT ROWID") ? "table" : "index");
  }
  const root = (name: string): number => {
    const number = found[name];
    if (number === undefined) throw damaged(file, `it lacks ${name}`);
    return number;
  };
  const tables = Object.keys(TABLES).map((name) => [name, root(name)]);
  const roots = Object.fromEntries(tables) as Record<Table, number>;
  return { ...roots, ids: root("sqlite_autoindex_documents_1") };
}
