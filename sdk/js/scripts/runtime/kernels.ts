/**
 * What takes the time of an encoder, by SIMD, over addresses of one memory. AssemblyScript;
 * compile.mjs makes src/runtime/kernels_wasm.ts of it.
 *
 * float32 arrays are row-major; an address is a multiple of 4 at least. Nothing here allocates.
 */

/** to = a + b for each row of a, (rows, width); b is one row. */
export function add(a: usize, b: usize, to: usize, rows: i32, width: i32): void {
  for (let row = 0; row < rows; row++) {
    let i = 0;
    for (; i + 4 <= width; i += 4) v128.store(at(to, i), f32x4.add(v128.load(at(a, i)), v128.load(at(b, i))));
    for (; i < width; i++) store<f32>(at(to, i), load<f32>(at(a, i)) + load<f32>(at(b, i)));
    a = at(a, width);
    to = at(to, width);
  }
}

/** to = a * b, as `add`. */
export function multiply(a: usize, b: usize, to: usize, rows: i32, width: i32): void {
  for (let row = 0; row < rows; row++) {
    let i = 0;
    for (; i + 4 <= width; i += 4) v128.store(at(to, i), f32x4.mul(v128.load(at(a, i)), v128.load(at(b, i))));
    for (; i < width; i++) store<f32>(at(to, i), load<f32>(at(a, i)) * load<f32>(at(b, i)));
    a = at(a, width);
    to = at(to, width);
  }
}

/** to = from, float32 of int32. */
export function toFloats(from: usize, to: usize, count: i32): void {
  let i = 0;
  for (; i + 4 <= count; i += 4) v128.store(at(to, i), f32x4.convert_i32x4_s(v128.load(at(from, i))));
  for (; i < count; i++) store<f32>(at(to, i), <f32>load<i32>(at(from, i)));
}

/**
 * ONNX's DynamicQuantizeLinear: `count` codes of a byte, one float32 scale, and the zero point's byte.
 * Of two whole numbers that are equally near the even one is taken.
 */
export function quantize(from: usize, count: i32, codes: usize, scaleTo: usize, zeroPointTo: usize): void {
  let i = 0;
  let lows = f32x4.splat(0);
  let highs = f32x4.splat(0);
  for (; i + 4 <= count; i += 4) {
    const some = v128.load(at(from, i));
    lows = f32x4.pmin(lows, some);
    highs = f32x4.pmax(highs, some);
  }
  lows = f32x4.pmin(lows, i8x16.shuffle(lows, lows, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  highs = f32x4.pmax(highs, i8x16.shuffle(highs, highs, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  let low = min(f32x4.extract_lane(lows, 0), f32x4.extract_lane(lows, 1));
  let high = max(f32x4.extract_lane(highs, 0), f32x4.extract_lane(highs, 1));
  for (; i < count; i++) {
    low = min(low, load<f32>(at(from, i)));
    high = max(high, load<f32>(at(from, i)));
  }
  const scale: f32 = low == high ? 1 : (high - low) / 255;
  const zeroPoint = nearest<f32>(min(max<f32>(-low / scale, 0), 255));
  store<f32>(scaleTo, scale);
  store<u8>(zeroPointTo, <u8>zeroPoint);
  const scales = f32x4.splat(scale);
  const zeroPoints = f32x4.splat(zeroPoint);
  for (i = 0; i + 16 <= count; i += 16) {
    const first = i16x8.narrow_i32x4_s(
      coded(v128.load(at(from, i)), scales, zeroPoints), coded(v128.load(at(from, i), 16), scales, zeroPoints),
    );
    const second = i16x8.narrow_i32x4_s(
      coded(v128.load(at(from, i), 32), scales, zeroPoints), coded(v128.load(at(from, i), 48), scales, zeroPoints),
    );
    v128.store(codes + i, i8x16.narrow_i16x8_u(first, second));
  }
  for (; i < count; i++) {
    const code = nearest<f32>(load<f32>(at(from, i)) / scale) + zeroPoint;
    store<u8>(codes + i, <u8>min(max<f32>(code, 0), 255));
  }
}

// @ts-ignore: AssemblyScript's
@inline
function coded(values: v128, scales: v128, zeroPoints: v128): v128 {
  return i32x4.trunc_sat_f32x4_s(f32x4.add(f32x4.nearest(f32x4.div(values, scales)), zeroPoints));
}

/**
 * int32 products of rows of codes, less their zero point, and rows of signed weights.
 *
 *     to[row, column] = sum over i of (codes[row, i] - zeroPoint) * (weights[column, i] - zeroPoints[column])
 *
 * codes: uint8 (rows, depth). weights: int8 (columns, padded), zeros beyond depth; zeroPoints: int32
 * (columns,). centred: for int16 (4, padded), sums: for int32 (4,). padded is a multiple of 16, columns is
 * even.
 */
export function integerProducts(
  codes: usize, zeroPoint: i32, rows: i32, depth: i32, weights: usize, zeroPoints: usize, columns: i32,
  padded: i32, centred: usize, sums: usize, to: usize,
): void {
  for (let row = 0; row < rows; ) {
    const left = rows - row;
    if (left < 4 && left > 1 && rows >= 4) row = rows - 4; // four rows take less than two alone
    const some = rows - row >= 4 ? 4 : 1;
    for (let i = 0; i < some; i++) center(codes + (row + i) * depth, zeroPoint, depth, padded, centred, i, sums);
    if (some == 4) fourRows(centred, weights, columns, padded, at(to, row * columns));
    else oneRow(centred, weights, columns, padded, at(to, row * columns));
    for (let column = 0; column < columns; column++) {
      const zero = load<i32>(at(zeroPoints, column));
      if (zero == 0) continue;
      for (let i = 0; i < some; i++) {
        const place = at(to, (row + i) * columns + column);
        store<i32>(place, load<i32>(place) - zero * load<i32>(at(sums, i)));
      }
    }
    row += some;
  }
}

function center(codes: usize, zeroPoint: i32, depth: i32, padded: i32, centred: usize, row: i32, sums: usize): void {
  const to = centred + row * padded * 2;
  const zeroPoints = i16x8.splat(<i16>zeroPoint);
  let total = i32x4.splat(0);
  let i = 0;
  for (; i + 8 <= depth; i += 8) {
    const some = i16x8.sub(v128.load8x8_u(codes + i), zeroPoints);
    total = i32x4.add(total, i32x4.extadd_pairwise_i16x8_s(some));
    v128.store(to + i * 2, some);
  }
  let sum = added(total);
  for (; i < depth; i++) {
    const one = <i32>load<u8>(codes + i) - zeroPoint;
    sum += one;
    store<i16>(to + i * 2, <i16>one);
  }
  for (; i < padded; i++) store<i16>(to + i * 2, 0);
  store<i32>(at(sums, row), sum);
}

/** Two columns at a time of four rows: a weight is widened once for all four. */
function fourRows(centred: usize, weights: usize, columns: i32, padded: i32, to: usize): void {
  const apart = padded * 2; // bytes of a centred row
  for (let column = 0; column < columns; column += 2) {
    let a0 = i32x4.splat(0), a1 = i32x4.splat(0), a2 = i32x4.splat(0), a3 = i32x4.splat(0);
    let b0 = i32x4.splat(0), b1 = i32x4.splat(0), b2 = i32x4.splat(0), b3 = i32x4.splat(0);
    let left = weights + column * padded;
    let with0 = centred, with1 = with0 + apart, with2 = with1 + apart, with3 = with2 + apart;
    for (let i = 0; i < padded; i += 8) {
      const a = v128.load8x8_s(left);
      const b = v128.load8x8_s(left + padded);
      const row0 = v128.load(with0);
      a0 = i32x4.add(a0, i32x4.dot_i16x8_s(a, row0));
      b0 = i32x4.add(b0, i32x4.dot_i16x8_s(b, row0));
      const row1 = v128.load(with1);
      a1 = i32x4.add(a1, i32x4.dot_i16x8_s(a, row1));
      b1 = i32x4.add(b1, i32x4.dot_i16x8_s(b, row1));
      const row2 = v128.load(with2);
      a2 = i32x4.add(a2, i32x4.dot_i16x8_s(a, row2));
      b2 = i32x4.add(b2, i32x4.dot_i16x8_s(b, row2));
      const row3 = v128.load(with3);
      a3 = i32x4.add(a3, i32x4.dot_i16x8_s(a, row3));
      b3 = i32x4.add(b3, i32x4.dot_i16x8_s(b, row3));
      left += 8;
      with0 += 16; with1 += 16; with2 += 16; with3 += 16;
    }
    pair(at(to, column), a0, b0);
    pair(at(to, columns + column), a1, b1);
    pair(at(to, 2 * columns + column), a2, b2);
    pair(at(to, 3 * columns + column), a3, b3);
  }
}

function oneRow(centred: usize, weights: usize, columns: i32, padded: i32, to: usize): void {
  for (let column = 0; column < columns; column += 2) {
    let a0 = i32x4.splat(0), a1 = i32x4.splat(0), b0 = i32x4.splat(0), b1 = i32x4.splat(0);
    let left = weights + column * padded;
    for (let i = 0; i < padded; i += 16) {
      const low = v128.load(centred + i * 2);
      const high = v128.load(centred + i * 2, 16);
      a0 = i32x4.add(a0, i32x4.dot_i16x8_s(v128.load8x8_s(left), low));
      b0 = i32x4.add(b0, i32x4.dot_i16x8_s(v128.load8x8_s(left + padded), low));
      a1 = i32x4.add(a1, i32x4.dot_i16x8_s(v128.load8x8_s(left, 8), high));
      b1 = i32x4.add(b1, i32x4.dot_i16x8_s(v128.load8x8_s(left + padded, 8), high));
      left += 16;
    }
    pair(at(to, column), i32x4.add(a0, a1), i32x4.add(b0, b1));
  }
}

// @ts-ignore: AssemblyScript's
@inline
function pair(to: usize, a: v128, b: v128): void {
  store<i32>(to, added(a));
  store<i32>(to, added(b), 4);
}

// @ts-ignore: AssemblyScript's
@inline
function added(lanes: v128): i32 {
  const half = i32x4.add(lanes, i8x16.shuffle(lanes, lanes, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  return i32x4.extract_lane(half, 0) + i32x4.extract_lane(half, 1);
}

/** to[row, column] = alpha * sum over i of left[row, i] * right[column, i]. */
export function dots(left: usize, right: usize, to: usize, rows: i32, depth: i32, columns: i32, alpha: f32): void {
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      store<f32>(at(to, row * columns + column), alpha * dot(at(left, row * depth), at(right, column * depth), depth));
    }
  }
}

// @ts-ignore: AssemblyScript's
@inline
function dot(a: usize, b: usize, count: i32): f32 {
  let sums = f32x4.splat(0), others = f32x4.splat(0);
  let i = 0;
  for (; i + 8 <= count; i += 8) {
    sums = f32x4.add(sums, f32x4.mul(v128.load(at(a, i)), v128.load(at(b, i))));
    others = f32x4.add(others, f32x4.mul(v128.load(at(a, i), 16), v128.load(at(b, i), 16)));
  }
  let sum = total(f32x4.add(sums, others));
  for (; i < count; i++) sum += load<f32>(at(a, i)) * load<f32>(at(b, i));
  return sum;
}

/** to[row, column] = sum over i of left[row, i] * right[i, column]. */
export function sums(left: usize, right: usize, to: usize, rows: i32, depth: i32, columns: i32): void {
  for (let row = 0; row < rows; row++) {
    const by = at(left, row * depth);
    let column = 0;
    for (; column + 16 <= columns; column += 16) {
      let a = f32x4.splat(0), b = f32x4.splat(0), c = f32x4.splat(0), d = f32x4.splat(0);
      let from = at(right, column);
      for (let i = 0; i < depth; i++) {
        const factor = v128.load32_splat(at(by, i));
        a = f32x4.add(a, f32x4.mul(factor, v128.load(from)));
        b = f32x4.add(b, f32x4.mul(factor, v128.load(from, 16)));
        c = f32x4.add(c, f32x4.mul(factor, v128.load(from, 32)));
        d = f32x4.add(d, f32x4.mul(factor, v128.load(from, 48)));
        from = at(from, columns);
      }
      const place = at(to, row * columns + column);
      v128.store(place, a);
      v128.store(place, b, 16);
      v128.store(place, c, 32);
      v128.store(place, d, 48);
    }
    for (; column < columns; column++) {
      let sum: f32 = 0;
      for (let i = 0; i < depth; i++) sum += load<f32>(at(by, i)) * load<f32>(at(right, i * columns + column));
      store<f32>(at(to, row * columns + column), sum);
    }
  }
}

/** ONNX's LayerNormalization along the last axis. */
export function layerNormalization(
  from: usize, scale: usize, bias: usize, to: usize, rows: i32, width: i32, epsilon: f32,
): void {
  for (let row = 0; row < rows; row++) {
    const mean = sumOf(from, width) / <f32>width;
    const means = f32x4.splat(mean);
    let squares = f32x4.splat(0);
    let i = 0;
    for (; i + 4 <= width; i += 4) {
      const some = f32x4.sub(v128.load(at(from, i)), means);
      squares = f32x4.add(squares, f32x4.mul(some, some));
    }
    let square = total(squares);
    for (; i < width; i++) square += (load<f32>(at(from, i)) - mean) * (load<f32>(at(from, i)) - mean);
    const factor: f32 = 1 / sqrt<f32>(square / <f32>width + epsilon);
    const factors = f32x4.splat(factor);
    for (i = 0; i + 4 <= width; i += 4) {
      const some = f32x4.mul(f32x4.sub(v128.load(at(from, i)), means), factors);
      v128.store(at(to, i), f32x4.add(f32x4.mul(some, v128.load(at(scale, i))), v128.load(at(bias, i))));
    }
    for (; i < width; i++) {
      const one = (load<f32>(at(from, i)) - mean) * factor;
      store<f32>(at(to, i), one * load<f32>(at(scale, i)) + load<f32>(at(bias, i)));
    }
    from = at(from, width);
    to = at(to, width);
  }
}

// @ts-ignore: AssemblyScript's
@inline
function sumOf(from: usize, count: i32): f32 {
  let sums = f32x4.splat(0);
  let i = 0;
  for (; i + 4 <= count; i += 4) sums = f32x4.add(sums, v128.load(at(from, i)));
  let sum = total(sums);
  for (; i < count; i++) sum += load<f32>(at(from, i));
  return sum;
}

/** value * (1 + erf(value / sqrt(2))) / 2 of each; `count` is rounded up to a multiple of 4, for which there is room. */
export function gelu(from: usize, to: usize, count: i32): void {
  for (let i = 0; i < count; i += 4) {
    const values = v128.load(at(from, i));
    const half = f32x4.mul(values, f32x4.splat(0.5));
    const found = errorFunction(f32x4.mul(values, f32x4.splat(0.70710678118654752)));
    v128.store(at(to, i), f32x4.add(half, f32x4.mul(half, found)));
  }
}

/**
 * Within 1.5e-7.
 *
 * Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
 */
// @ts-ignore: AssemblyScript's
@inline
function errorFunction(values: v128): v128 {
  const x = f32x4.abs(values);
  const one = f32x4.splat(1);
  const t = f32x4.div(one, f32x4.add(one, f32x4.mul(x, f32x4.splat(0.3275911))));
  let sum = f32x4.splat(1.061405429);
  sum = f32x4.add(f32x4.mul(sum, t), f32x4.splat(-1.453152027));
  sum = f32x4.add(f32x4.mul(sum, t), f32x4.splat(1.421413741));
  sum = f32x4.add(f32x4.mul(sum, t), f32x4.splat(-0.284496736));
  sum = f32x4.add(f32x4.mul(sum, t), f32x4.splat(0.254829592));
  const found = f32x4.sub(one, f32x4.mul(f32x4.mul(sum, t), exponential(f32x4.neg(f32x4.mul(x, x)))));
  return v128.bitselect(found, values, i32x4.splat(0x7fffffff)); // with the sign of the value
}

/**
 * e to the power of each, within 1e-7 of it; 0 below -87.
 *
 * Source: the polynomial and the split of ln 2 are Cephes' (expf.c).
 */
// @ts-ignore: AssemblyScript's
@inline
function exponential(values: v128): v128 {
  const x = f32x4.max(f32x4.min(values, f32x4.splat(88)), f32x4.splat(-87));
  const n = f32x4.nearest(f32x4.mul(x, f32x4.splat(1.44269504088896341)));
  const r = f32x4.sub(f32x4.sub(x, f32x4.mul(n, f32x4.splat(0.693359375))), f32x4.mul(n, f32x4.splat(-2.12194440e-4)));
  let sum = f32x4.splat(1.9875691500e-4);
  sum = f32x4.add(f32x4.mul(sum, r), f32x4.splat(1.3981999507e-3));
  sum = f32x4.add(f32x4.mul(sum, r), f32x4.splat(8.3334519073e-3));
  sum = f32x4.add(f32x4.mul(sum, r), f32x4.splat(4.1665795894e-2));
  sum = f32x4.add(f32x4.mul(sum, r), f32x4.splat(1.6666665459e-1));
  sum = f32x4.add(f32x4.mul(sum, r), f32x4.splat(5.0000001201e-1));
  sum = f32x4.add(f32x4.add(f32x4.mul(f32x4.mul(sum, r), r), r), f32x4.splat(1));
  const power = i32x4.shl(i32x4.add(i32x4.trunc_sat_f32x4_s(n), i32x4.splat(127)), 23);
  return v128.and(f32x4.mul(sum, power), f32x4.ge(values, f32x4.splat(-87)));
}

/**
 * Attention of one text, all heads: query (length, width), key and value (places, width), to (length,
 * width). shown: float32 (places,), added to the scores; scores: room for float32 (places,), both rounded up
 * to a multiple of 4, shown with values that hide what is beyond.
 */
export function attention(
  query: usize, key: usize, value: usize, shown: usize, scores: usize, to: usize, length: i32, places: i32,
  width: i32, heads: i32, scale: f32,
): void {
  const size = width / heads;
  for (let head = 0; head < heads; head++) {
    for (let row = 0; row < length; row++) {
      const mine = at(query, row * width + head * size);
      for (let place = 0; place < places; place++) {
        store<f32>(at(scores, place), scale * dot(mine, at(key, place * width + head * size), size));
      }
      soften(scores, shown, places);
      const out = at(to, row * width + head * size);
      let i = 0;
      for (; i + 4 <= size; i += 4) {
        let sum = f32x4.splat(0);
        let from = at(value, head * size + i);
        for (let place = 0; place < places; place++) {
          sum = f32x4.add(sum, f32x4.mul(v128.load32_splat(at(scores, place)), v128.load(from)));
          from = at(from, width);
        }
        v128.store(at(out, i), sum);
      }
      for (; i < size; i++) {
        let sum: f32 = 0;
        for (let place = 0; place < places; place++) {
          sum += load<f32>(at(scores, place)) * load<f32>(at(value, place * width + head * size + i));
        }
        store<f32>(at(out, i), sum);
      }
    }
  }
}

/** The softmax of scores + shown, in the scores' place. */
// @ts-ignore: AssemblyScript's
@inline
function soften(scores: usize, shown: usize, places: i32): void {
  let most = f32x4.splat(-Infinity);
  for (let i = 0; i < places; i += 4) {
    const some = f32x4.add(v128.load(at(scores, i)), v128.load(at(shown, i)));
    v128.store(at(scores, i), some);
    most = f32x4.pmax(most, some);
  }
  const largest = f32x4.splat(max(
    max(f32x4.extract_lane(most, 0), f32x4.extract_lane(most, 1)),
    max(f32x4.extract_lane(most, 2), f32x4.extract_lane(most, 3)),
  ));
  let sums = f32x4.splat(0);
  for (let i = 0; i < places; i += 4) {
    const some = exponential(f32x4.sub(v128.load(at(scores, i)), largest));
    v128.store(at(scores, i), some);
    sums = f32x4.add(sums, some);
  }
  const sum = f32x4.splat(total(sums));
  for (let i = 0; i < places; i += 4) v128.store(at(scores, i), f32x4.div(v128.load(at(scores, i)), sum));
}

// @ts-ignore: AssemblyScript's
@inline
function total(lanes: v128): f32 {
  return f32x4.extract_lane(lanes, 0) + f32x4.extract_lane(lanes, 1) +
    (f32x4.extract_lane(lanes, 2) + f32x4.extract_lane(lanes, 3));
}

/** Where the number `place` of an array of 4 bytes each lies. */
// @ts-ignore: AssemblyScript's
@inline
function at(array: usize, place: i32): usize {
  return array + (<usize>place << 2);
}
