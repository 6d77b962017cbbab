/**
 * The files of a zip without compression, read strictly.
 *
 * A bundle's zip is a row of plain files behind one another with a directory at the end, so that a
 * file can be as large in memory as it is stored and no larger. What a zip may do beyond that is
 * refused before a file is read: compression (a megabyte that unpacks to gigabytes), encryption, names
 * outside the folder or twice, entries that lie over one another, spans and 64-bit records, a
 * directory too large to be a bundle's.
 *
 * Source: PKWARE, APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12 and 4.3.16.
 */

import { CorruptArtifactError } from "../errors.js";
import { crc32 } from "../platform/crc32.js";
import { repr, shortened } from "../python_text.js";
import { decodeUtf8 } from "../utf8.js";
import { type FileSource, missingFile, type ReadOptions } from "./source.js";

const END_BYTES = 22;
const ENTRY_BYTES = 46;
const LOCAL_BYTES = 30;
const MOST_ENTRIES = 256;
const MOST_DIRECTORY = 1 << 18; // bytes
const MOST_COMMENT = (1 << 16) - 1;
const ENCRYPTED = 1 << 0;
const SIZES_FOLLOW = 1 << 3;
const UTF8 = 1 << 11;
const MASKED = 1 << 13;

/** A file: how the directory describes it, and where its bytes begin. */
interface Entry {
  readonly name: string;
  readonly raw: Uint8Array;
  readonly method: number;
  readonly crc: number;
  readonly packed: number;
  readonly size: number;
  readonly header: number;
  readonly start: number;
}

export class ZipSource implements FileSource {
  readonly name: string;
  readonly #source: FileSource;
  readonly #file: string;
  readonly #entries: ReadonlyMap<string, Entry>;

  private constructor(source: FileSource, file: string, name: string, entries: Map<string, Entry>) {
    this.#source = source;
    this.#file = file;
    this.name = name;
    this.#entries = entries;
  }

  /** The zip `file` in `source`. Throws ArtifactNotFoundError or CorruptArtifactError. */
  static async open(source: FileSource, file: string, name = file): Promise<ZipSource> {
    const size = await source.size(file);
    if (size === null) throw missingFile(source.name, file);
    const entries = await new Directory(source, file, name).read(size);
    return new ZipSource(source, file, name, entries);
  }

  async list(): Promise<string[]> {
    return [...this.#entries.keys()];
  }

  async size(file: string): Promise<number | null> {
    return this.#entries.get(file)?.size ?? null;
  }

  async read(file: string, options: ReadOptions = {}): Promise<Uint8Array> {
    const entry = this.#entry(file);
    const wanted = Math.min(entry.size, options.limit ?? entry.size);
    const data = await this.#span(entry, 0, wanted, options);
    options.onBytes?.(data.length);
    if (data.length < wanted) {
      const found = `${data.length} bytes are there, the zip says ${entry.size}`;
      throw this.#broken(file, found);
    }
    if (wanted === entry.size && crc32(data) !== entry.crc) {
      throw this.#broken(file, "its check sum differs from the zip's");
    }
    return data;
  }

  async readRange(
    file: string,
    begin: number,
    end: number,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<Uint8Array> {
    const entry = this.#entry(file);
    return this.#span(entry, begin, Math.max(begin, Math.min(end, entry.size)), options);
  }

  #span(entry: Entry, begin: number, end: number, options: ReadOptions): Promise<Uint8Array> {
    const signal = options.signal === undefined ? {} : { signal: options.signal };
    const from = entry.start + begin;
    return this.#source.readRange(this.#file, from, entry.start + end, signal);
  }

  #entry(file: string): Entry {
    const entry = this.#entries.get(file);
    if (entry === undefined) throw missingFile(this.name, file);
    return entry;
  }

  #broken(file: string, found: string): CorruptArtifactError {
    return new CorruptArtifactError(`${this.name}: ${file} cannot be unzipped: ${found}`);
  }
}

/** Reads and checks what a zip says of its files. */
class Directory {
  readonly #source: FileSource;
  readonly #file: string;
  readonly #name: string;

  constructor(source: FileSource, file: string, name: string) {
    this.#source = source;
    this.#file = file;
    this.#name = name;
  }

  async read(size: number): Promise<Map<string, Entry>> {
    const { count, length, begin } = await this.#end(size);
    const directory = await this.#bytes(begin, begin + length);
    const view = viewOf(directory);
    const entries = new Map<string, Entry>();
    let at = 0;
    for (let i = 0; i < count; i++) {
      if (at + ENTRY_BYTES > directory.length) this.#refuse("its directory is cut");
      const [nameLength, extra, comment, disk] = [28, 30, 32, 34].map((o) => view.getUint16(at + o, true));
      const raw = directory.subarray(at + ENTRY_BYTES, at + ENTRY_BYTES + (nameLength as number));
      const next = at + ENTRY_BYTES + (nameLength as number) + (extra as number) + (comment as number);
      if (view.getUint32(at, false) !== 0x504b0102 || next > directory.length || disk !== 0) {
        this.#refuse("its directory is broken");
      }
      const flags = view.getUint16(at + 8, true);
      const entry = {
        name: this.#nameOf(raw, flags),
        raw,
        method: view.getUint16(at + 10, true),
        crc: view.getUint32(at + 16, true),
        packed: view.getUint32(at + 20, true),
        size: view.getUint32(at + 24, true),
        header: view.getUint32(at + 42, true),
        start: 0,
      };
      this.#checkKind(entry, flags);
      if (entries.has(entry.name)) this.#refuse(`it holds ${repr(entry.name)} twice, expected once`);
      entries.set(entry.name, { ...entry, start: await this.#start(entry, begin) });
      at = next;
    }
    if (at !== length) {
      this.#refuse(`its directory has ${length - at} bytes more than its files take`);
    }
    this.#checkApart([...entries.values()]);
    return entries;
  }

  /** How many files the directory has, its length, and where it begins. */
  async #end(size: number): Promise<{ count: number; length: number; begin: number }> {
    const from = Math.max(0, size - END_BYTES - MOST_COMMENT);
    const tail = await this.#bytes(from, size);
    const view = viewOf(tail);
    let at = tail.length - END_BYTES;
    while (at >= 0 && view.getUint32(at, false) !== 0x504b0506) at--;
    if (at < 0) this.#refuse("found no directory at its end; it is truncated or no zip");
    const [disk, firstDisk, here, count] = [4, 6, 8, 10].map((o) => view.getUint16(at + o, true));
    const length = view.getUint32(at + 12, true);
    const begin = view.getUint32(at + 16, true);
    if (at + END_BYTES + view.getUint16(at + 20, true) !== tail.length) {
      this.#refuse("its comment does not end where it does; it is truncated");
    }
    if (disk !== 0 || firstDisk !== 0 || here !== count || begin === 0xffffffff || count === 0xffff) {
      this.#refuse("it is of several parts or of 64 bits, expected a plain one");
    }
    if ((count as number) > MOST_ENTRIES || length > MOST_DIRECTORY) {
      this.#refuse(
        `it lists ${count} files in ${length} bytes, expected at most ${MOST_ENTRIES} in ` +
          `${MOST_DIRECTORY}`,
      );
    }
    if (begin + length !== from + at) {
      this.#refuse("its directory is not where the end says; it is truncated or was changed");
    }
    return { count: count as number, length, begin };
  }

  /** Where the file's bytes begin, where its own header agrees with the directory. */
  async #start(entry: Entry, end: number): Promise<number> {
    const { name, raw, header } = entry;
    const data = await this.#bytes(header, header + LOCAL_BYTES + raw.length);
    if (data.length < LOCAL_BYTES + raw.length) {
      this.#refuse(`${repr(name)} begins behind its end; it is truncated`);
    }
    const view = viewOf(data);
    const flags = view.getUint16(6, true);
    const found = [14, 18, 22].map((offset) => view.getUint32(offset, true)).join();
    const described = [entry.crc, entry.packed, entry.size].join();
    if (
      view.getUint32(0, false) !== 0x504b0304 ||
      raw.some((byte, i) => byte !== data[LOCAL_BYTES + i]) ||
      view.getUint16(8, true) !== entry.method ||
      (found !== described && !(flags & SIZES_FOLLOW && found === "0,0,0")) ||
      flags & (ENCRYPTED | MASKED)
    ) {
      this.#refuse(`${repr(name)} is described otherwise where it lies than in the directory`);
    }
    const start = header + LOCAL_BYTES + raw.length + view.getUint16(28, true);
    if (start + entry.size > end) this.#refuse(`${repr(name)} reaches into the directory`);
    return start;
  }

  #checkKind({ name, method, packed, size }: Entry, flags: number): void {
    if (flags & (ENCRYPTED | MASKED)) this.#refuse(`${repr(name)} is encrypted, expected it plain`);
    if (method !== 0) {
      this.#refuse(
        `${repr(name)} is compressed (method ${method}), expected it stored as it is; pack the ` +
          "folder again with pocketquery export --zip, or with: zip -0",
      );
    }
    if (packed !== size) {
      this.#refuse(`${repr(name)} has ${packed} bytes for ${size}, expected as many`);
    }
  }

  #nameOf(raw: Uint8Array, flags: number): string {
    // Without the flag a name is of an old code page: only its ASCII half is read here.
    let name = "";
    try {
      if (!(flags & UTF8) && raw.some((byte) => byte > 0x7f)) throw new RangeError("not ASCII");
      name = decodeUtf8(raw);
    } catch {
      this.#refuse("a name in it is not UTF-8");
    }
    const parts = name.replaceAll("\\", "/").split("/");
    if (/^[/\\]/.test(name) || parts.includes("..") || /[:\0]/.test(name)) {
      this.#refuse(`it names ${repr(shortened(name))}, expected names inside the folder only`);
    }
    return name;
  }

  #checkApart(entries: Entry[]): void {
    let position = 0;
    let before = "";
    for (const entry of entries.sort((a, b) => a.header - b.header)) {
      if (entry.header < position) this.#refuse(`${repr(entry.name)} lies over ${repr(before)}`);
      position = entry.start + entry.size;
      before = entry.name;
    }
  }

  #bytes(begin: number, end: number): Promise<Uint8Array> {
    return this.#source.readRange(this.#file, begin, end);
  }

  #refuse(found: string): never {
    throw new CorruptArtifactError(`${this.#name}: not a readable zip: ${found}`);
  }
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
