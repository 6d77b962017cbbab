/**
 * Exact products of rows of bytes with a vector for engines without WebAssembly, above all Hermes, which
 * interprets: what counts there is how many instructions a number takes.
 *
 * So four rows share them. In each column their bytes a, b, c, d lie in one int32,
 *
 *     word = a + b * 2^8 + c * 2^16 + (d - 128) * 2^24
 *
 * and three sums over the columns give the four products: of all words, of their outer bytes (a and d, so far
 * apart that neither reaches the other), and of b alone; c is what is left. All are whole numbers below 2^53,
 * in float64. Eight rows are read side by side, which halves what the vector costs.
 */

const ROWS = 8; // side by side
const WORDS = ROWS / 4; // of a column
const OUTER = ~0xffff00;
const SECOND = 0xff00;
const APART = 2 ** 24; // the outer bytes
const MOST_SUM = APART / 2 - 1; // of `a`, on either side of zero
const LARGEST_BYTE = 255;
const HALF = 128;

/** How many words `count` rows of `width` bytes take. */
export function wordsOf(count: number, width: number): number {
  return Math.ceil(count / ROWS) * WORDS * width;
}

/**
 * Put rows into words.
 * @param rows uint8 (count, width)
 * @param first the row to begin with; those side by side with it are packed, too
 * @param signed of a byte that is signed, 128 above it is taken
 * @param to (wordsOf(count, width),)
 */
export function packRows(rows: Uint8Array, width: number, first: number, count: number, to: Int32Array, signed = false): void {
  const flip = signed ? HALF * 0x01010101 : 0;
  for (let row = first - (first % ROWS); row < count; row += 4) {
    const [a, b, c, d] = [row * width, (row + 1) * width, (row + 2) * width, (row + 3) * width];
    let at = Math.floor(row / ROWS) * WORDS * width + (row % ROWS) / 4;
    for (let i = 0; i < width; i++) {
      // Beyond the last row there is nothing, which counts as 0.
      to[at] = (rows[a + i]! | (rows[b + i]! << 8) | (rows[c + i]! << 16) | (rows[d + i]! << 24)) ^ flip ^ (HALF << 24);
      at += WORDS;
    }
  }
}

/**
 * The product of each packed row with `vector`, (m,) of whole numbers from -255 to 255, m <= width.
 * @returns int32, as many as there are rows, rounded up to a multiple of 8
 */
export function packedProducts(words: Int32Array, width: number, vector: ArrayLike<number>): Int32Array {
  const out = new Int32Array((words.length / width) * 4);
  const by = Array.prototype.slice.call(vector) as number[]; // an interpreter reads it faster
  let [most, total] = [1, 0];
  for (const factor of by) {
    most = Math.max(most, Math.abs(factor));
    total += factor;
  }
  const columns = Math.floor(MOST_SUM / (LARGEST_BYTE * most)); // before a sum might reach its neighbour
  for (let from = 0; from < by.length; from += columns) {
    addProducts(words, width, by, from, Math.min(from + columns, by.length), out);
  }
  for (let row = 3; row < out.length; row += 4) out[row] = out[row]! + HALF * total;
  return out;
}

function addProducts(words: Int32Array, width: number, by: readonly number[], from: number, to: number, out: Int32Array): void {
  // Constants, not imports or fields: each of these would be looked up for every word.
  const [outer, second] = [OUTER, SECOND];
  for (let row = 0, start = 0; row < out.length; row += ROWS, start += WORDS * width) {
    let [all, ends, seconds, otherAll, otherEnds, otherSeconds] = [0, 0, 0, 0, 0, 0];
    for (let i = from, at = start + WORDS * from; i < to; i++) {
      const factor = by[i]!;
      let word = words[at++]!;
      all += word * factor;
      ends += (word & outer) * factor;
      seconds += (word & second) * factor;
      word = words[at++]!;
      otherAll += word * factor;
      otherEnds += (word & outer) * factor;
      otherSeconds += (word & second) * factor;
    }
    unpack(out, row, all, ends, seconds);
    unpack(out, row + 4, otherAll, otherEnds, otherSeconds);
  }
}

function unpack(out: Int32Array, row: number, all: number, ends: number, seconds: number): void {
  const last = Math.round(ends / APART);
  out[row] = out[row]! + ends - last * APART;
  out[row + 1] = out[row + 1]! + seconds / 2 ** 8;
  out[row + 2] = out[row + 2]! + (all - ends - seconds) / 2 ** 16;
  out[row + 3] = out[row + 3]! + last;
}
