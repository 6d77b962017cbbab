/**
 * A delta: one file with what changed from an index to the next version of it, as
 * `pocketquery delta make` writes it. Python's `delta_file.py`; docs/formats/search-index.md has it byte by byte.
 */
import { checkDetached } from "../../bundle/bundle.js";
import type { Key } from "../../bundle/signature.js";
import { checkPresent } from "../../bundle/signature_file.js";
import { sha256 } from "../../platform/hashing.js";
import { ArtifactNotFoundError, CorruptArtifactError, MissingExtraError } from "../../errors.js";
import { concatenated } from "../../files/bytes.js";
import { MemorySource } from "../../files/memory.js";
import type { FileSource } from "../../files/source.js";
import { ZipSource } from "../../files/zip.js";
import { repr } from "../../python_text.js";
import { decodeUtf8 } from "../../utf8.js";
import { checkDocument, type Document } from "../document.js";
import { parseMetadata } from "../metadata.js";
import { rowBytes, scalesOf } from "../vectors/vectors.js";
import type { StoredTexts } from "./base.js";
import {
  DELTA_FILE,
  type DeltaManifest,
  MOST_DELTA_BYTES,
  parseDeltaManifest,
  type PartName,
} from "./manifest.js";

const NEW = 0xffffffff; // in the place of an old row: the next of the new documents
const RUN_BYTES = 8;
const LENGTH_BYTES = 4;
const ADLER_BYTES = 4;

/** What comes with a delta: the document, and its texts as they are stored. */
export interface NewEntry {
  readonly document: Document;
  readonly texts: StoredTexts;
  /** Its vector's row, uint8 (d + 4,). */
  readonly vector: Uint8Array;
}

/** What a delta's parts say. */
export interface Changes {
  /** For each row of the new index the old one's, or -1 for the next of `entries`, int32 (n,). */
  readonly order: Int32Array;
  /** The ids that go. */
  readonly removed: readonly string[];
  /** What comes or changes, in the order of the new index. */
  readonly entries: readonly NewEntry[];
}

/** A delta whose description is checked; its parts are, as they are read. */
export class Delta {
  private constructor(
    /** How errors call it. */
    readonly name: string,
    readonly manifest: DeltaManifest,
    private readonly source: FileSource,
  ) {}

  /**
   * @param bytes the whole file
   * @param publicKey it must be signed by its private half
   * @throws CorruptArtifactError, UnsupportedVersionError not a delta, or a newer version's
   * @throws SignatureError a key is given and it is not signed by it; or it says it is signed and
   *   is not
   */
  static async open(bytes: Uint8Array, name: string, publicKey?: Key): Promise<Delta> {
    const source = await ZipSource.open(new MemorySource({ "": bytes }, name), "", name);
    const description = await file(source, name, DELTA_FILE, MOST_DELTA_BYTES + 1);
    if (publicKey !== undefined) await checkDetached(source, description, publicKey, {}, DELTA_FILE);
    const manifest = parseDeltaManifest(description, `${name}: ${DELTA_FILE}`);
    if (publicKey === undefined) await checkPresent(source, manifest.signatureKeyId);
    return new Delta(name, manifest, source);
  }

  /**
   * What the parts say.
   *
   * @throws CorruptArtifactError a part is not what the description names, or can be of no delta
   * @throws MissingExtraError the platform has no DecompressionStream
   */
  async read(): Promise<Changes> {
    const { manifest } = this;
    const [count, width] = [manifest.added + manifest.changed, rowBytes(manifest.dimension)];
    const vectors = await this.part("vectors");
    if (vectors.length !== count * width) {
      this.refuse("vectors", `${vectors.length} bytes, expected ${count} rows of ${width}`);
    }
    scalesOf(vectors, manifest.dimension, this.name);
    const entries = this.texts("documents", await this.part("documents"), count, 3).map(
      ([id = "", metadata = "", text = ""], i): NewEntry => {
        const found = { id, text, metadata: parseMetadata(metadata, this.name) };
        const document = checkDocument(found, `a document of ${this.name}`);
        const vector = vectors.subarray(i * width, (i + 1) * width);
        return { document, texts: { id, metadata, text }, vector };
      },
    );
    const gone = this.texts("removed", await this.part("removed"), manifest.removed, 1);
    const order = this.order(await this.part("order"), count);
    return { order, removed: gone.map(([id = ""]) => id), entries };
  }

  private order(data: Uint8Array, count: number): Int32Array {
    const { old, removed, changed } = this.manifest;
    if (data.length % RUN_BYTES) {
      this.refuse("order", `${data.length} bytes, expected runs of ${RUN_BYTES}`);
    }
    const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
    const runs = Array.from({ length: data.length / RUN_BYTES }, (_, i) => ({
      first: view.getUint32(i * RUN_BYTES, true),
      count: view.getUint32(i * RUN_BYTES + 4, true),
    }));
    const of = (some: typeof runs) => some.reduce((sum, run) => sum + run.count, 0);
    const kept = runs.filter(({ first }) => first !== NEW);
    const isInside = kept.every((run) => run.first + run.count <= old.documents);
    const expected = old.documents - removed - changed;
    if (!isInside || of(kept) !== expected || of(runs) - of(kept) !== count) {
      this.refuse("order", `other rows than ${expected} old and ${count} new ones`);
    }
    const order = new Int32Array(expected + count).fill(-1); // no longer than the two indexes
    let at = 0;
    for (const run of runs) {
      if (run.first !== NEW) for (let i = 0; i < run.count; i++) order[at + i] = run.first + i;
      at += run.count;
    }
    return order;
  }

  /** `count` times `each` texts of a part, and nothing behind them. */
  private texts(name: PartName, data: Uint8Array, count: number, each: number): string[][] {
    const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
    const found: string[][] = [];
    let at = 0;
    const text = (): string => {
      const start = at + LENGTH_BYTES;
      at = start > data.length ? start : start + view.getUint32(at, true);
      if (at > data.length) this.refuse(name, "an end within a text");
      try {
        return decodeUtf8(data.subarray(start, at));
      } catch {
        return this.refuse(name, "a text that is not UTF-8");
      }
    };
    for (let i = 0; i < count; i++) found.push(Array.from({ length: each }, text));
    if (at !== data.length) this.refuse(name, `${data.length - at} bytes behind the last text`);
    return found;
  }

  private async part(name: PartName): Promise<Uint8Array> {
    const record = this.manifest.parts[name];
    const packed = await file(this.source, this.name, name, record.bytes + 1);
    if (packed.length !== record.bytes || (await sha256(packed)) !== record.sha256) {
      this.refuse(name, "another size or SHA-256 than its description names");
    }
    const data = await inflated(packed, record.unpackedBytes).catch((error: unknown) => {
      if (error instanceof MissingExtraError) throw error;
      return this.refuse(name, `no zlib stream (${(error as Error).message})`);
    });
    const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
    const sum = packed.length < ADLER_BYTES ? -1 : view.getUint32(packed.length - ADLER_BYTES);
    if (data.length !== record.unpackedBytes || adler32(data) !== sum) {
      this.refuse(name, `another size than ${record.unpackedBytes} bytes unpacked`);
    }
    return data;
  }

  private refuse(part: string, found: string): never {
    throw new CorruptArtifactError(
      `${this.name}: the part ${repr(part)} has ${found}; fetch the delta anew, or the whole index`,
    );
  }
}

async function file(
  source: FileSource,
  delta: string,
  name: string,
  limit: number,
): Promise<Uint8Array> {
  return source.read(name, { limit }).catch((error: unknown) => {
    if (!(error instanceof ArtifactNotFoundError)) throw error;
    throw new CorruptArtifactError(
      `${delta} lacks ${name}; it is no delta, or a part was taken away. Fetch it anew`,
      { cause: error },
    );
  });
}

/** What the zlib stream `packed` unpacks to, or its first bytes where they are more than `most`. */
async function inflated(packed: Uint8Array, most: number): Promise<Uint8Array> {
  if (typeof DecompressionStream === "undefined") {
    throw new MissingExtraError(
      "a delta is packed, and this platform has no DecompressionStream; use Node 20 or a browser of " +
        "2023 or newer, a polyfill, or fetch the whole index",
    );
  }
  const stream = new Blob([packed as Uint8Array<ArrayBuffer>])
    .stream()
    .pipeThrough(new DecompressionStream("deflate"));
  const reader = stream.getReader();
  const chunks: Uint8Array[] = [];
  for (let bytes = 0; bytes <= most; ) {
    const { done, value } = await reader.read();
    if (done) return concatenated(chunks);
    chunks.push(value);
    bytes += value.byteLength;
  }
  await reader.cancel();
  return concatenated(chunks);
}

/**
 * The check sum that ends a zlib stream (RFC 1950). Some platforms pass over what lies behind the
 * stream; then its last bytes are another sum.
 */
function adler32(data: Uint8Array): number {
  let [a, b] = [1, 0];
  for (let start = 0; start < data.length; start += 4096) {
    const end = Math.min(start + 4096, data.length);
    for (let i = start; i < end; i++) {
      a += data[i]!;
      b += a;
    }
    a %= 65521;
    b %= 65521;
  }
  return b * 65536 + a;
}
