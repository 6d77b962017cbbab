/**
 * SQLite's record format: a row as a header of serial types and the values behind it.
 * https://www.sqlite.org/fileformat2.html#record_format
 *
 * A getter gives the value in the type its name says or throws CorruptArtifactError, so that a
 * damaged file is refused where it is read and not later, as a strange value.
 */
import { CorruptArtifactError } from "../errors.js";
import { decodeUtf8 } from "../utf8.js";

/** The damaged file's error; every reader of the index uses it. */
export function damaged(file: string, what: string): CorruptArtifactError {
  return new CorruptArtifactError(
    `${file} is damaged: ${what}; copy the index anew or build it again`,
  );
}

/** A variable-length integer of `bytes` at `offset`, before `end`: its value and where it ends. */
export function varint(
  bytes: Uint8Array,
  offset: number,
  end: number,
  file: string,
): { value: number; next: number } {
  let value = 0;
  for (let i = 0; i < 9 && offset + i < end; i++) {
    const byte = bytes[offset + i]!;
    value = i === 8 ? value * 256 + byte : value * 128 + (byte & 127);
    if (value > Number.MAX_SAFE_INTEGER) throw damaged(file, "an integer is too large");
    if (i === 8 || byte < 128) return { value, next: offset + i + 1 };
  }
  throw damaged(file, "an integer is cut off");
}

/** UTF-8 `bytes` as text. */
export function decodeText(bytes: Uint8Array, file: string): string {
  try {
    return decodeUtf8(bytes);
  } catch {
    throw damaged(file, "a text is not UTF-8");
  }
}

/** The values of one row. */
export class SqliteRecord {
  private readonly types: number[] = [];
  private readonly starts: number[] = [];

  /** @param payload the whole record */
  constructor(
    private readonly payload: Uint8Array,
    private readonly file: string,
  ) {
    const header = varint(payload, 0, payload.length, file);
    if (header.value > payload.length) throw damaged(file, "a record's header is cut off");
    let start = header.value;
    for (let at = header.next; at < header.value; ) {
      const type = varint(payload, at, header.value, file);
      at = type.next;
      this.types.push(type.value);
      this.starts.push(start);
      start += sizeOf(type.value, file);
    }
    if (start > payload.length) throw damaged(file, "a record is cut off");
  }

  /** How many values there are. */
  get length(): number {
    return this.types.length;
  }

  /** Whether the value of `column` is NULL. */
  isNull(column: number): boolean {
    return this.type(column) === 0;
  }

  /** The integer of `column`, at most 2^53 in size. */
  integer(column: number): number {
    const type = this.type(column);
    if (type === 8 || type === 9) return type - 8;
    if (type < 1 || type > 6) throw damaged(this.file, `column ${column} holds no integer`);
    const start = this.starts[column]!;
    let value = 0n;
    for (const byte of this.payload.subarray(start, start + sizeOf(type, this.file))) {
      value = (value << 8n) | BigInt(byte);
    }
    const found = Number(BigInt.asIntN(8 * sizeOf(type, this.file), value));
    if (!Number.isSafeInteger(found)) throw damaged(this.file, "an integer is too large");
    return found;
  }

  /** The text of `column`. */
  text(column: number): string {
    return decodeText(this.textBytes(column), this.file);
  }

  /** The text of `column` as UTF-8, a view. */
  textBytes(column: number): Uint8Array {
    const type = this.type(column);
    if (type < 13 || type % 2 === 0) throw damaged(this.file, `column ${column} holds no text`);
    return this.bytes(column);
  }

  /** The bytes of `column`, a view. */
  blob(column: number): Uint8Array {
    const type = this.type(column);
    if (type < 12 || type % 2 === 1) throw damaged(this.file, `column ${column} holds no bytes`);
    return this.bytes(column);
  }

  private bytes(column: number): Uint8Array {
    const start = this.starts[column]!;
    return this.payload.subarray(start, start + sizeOf(this.types[column]!, this.file));
  }

  private type(column: number): number {
    const type = this.types[column];
    if (type === undefined) throw damaged(this.file, `a record lacks column ${column}`);
    return type;
  }
}

function sizeOf(type: number, file: string): number {
  if (type >= 12) return (type - (type % 2 === 0 ? 12 : 13)) / 2;
  const size = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0][type];
  if (size === undefined) throw damaged(file, `a record has the unknown type ${type}`);
  return size;
}
