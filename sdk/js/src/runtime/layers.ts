/** What an encoder is made of: products with weights, attention, and what puts vectors on one scale. */

import { fromEnd } from "../platform/lists.js";
import { axisOf, FLOAT, INT32, INT8, type Memory, type NdArray, shown, sizeOf, UINT8 } from "./memory.js";
import type { Constant, GraphNode } from "./onnx_graph.js";
import { floats, type Inputs, needed, numberOf, type Operator, type Preparation } from "./operator.js";
import { unsupported } from "./unsupported.js";

/** Codes of a byte, with their scale and zero point. */
function quantized(memory: Memory, array: NdArray): [codes: NdArray, scale: NdArray, zeroPoint: NdArray] {
  const codes = memory.allocate(UINT8, array.shape);
  const scale = memory.allocate(FLOAT, []);
  const zeroPoint = memory.allocate(UINT8, []);
  memory.kernels.quantize(array.address, sizeOf(array.shape), codes.address, scale.address, zeroPoint.address);
  return [codes, scale, zeroPoint];
}

const dynamicQuantizeLinear: Operator = (_, { memory }) => (inputs) => quantized(memory, floats(inputs, 0));

const dequantizeLinear: Operator = (_, { memory }) => (inputs) => {
  const codes = needed(inputs, 0);
  const out = memory.allocate(FLOAT, codes.shape);
  const [from, to, scale] = [memory.view(codes), memory.view(out), memory.view(needed(inputs, 1))];
  const zeroPoint = inputs[2] ? memory.view(inputs[2])[0]! : 0;
  if (scale.length !== 1) throw unsupported("a DequantizeLinear with several scales");
  for (let at = 0; at < to.length; at++) to[at] = (from[at]! - zeroPoint) * scale[0]!;
  return out;
};

/** Of rows in blocks with a step each, which is how weights of 4 bits become int8 when a session is made. */
const quantizeLinear: Operator = (node, { memory }) => {
  const [axis, size, type] = ["axis", "block_size", "output_dtype"].map((name) => numberOf(node, name, 0)) as [number, number, number];
  if (axis !== 1 || size < 1 || type !== INT8 || node.inputs.length !== 2) {
    throw unsupported("a QuantizeLinear other than of rows in blocks, to int8 around 0");
  }
  return (inputs) => {
    const [array, steps] = [floats(inputs, 0), floats(inputs, 1)];
    const [rows, width] = array.shape as [number, number];
    if (array.shape.length !== 2 || shown(steps.shape) !== shown([rows, width / size])) {
      throw new RangeError(`steps of shape ${shown(steps.shape)} for blocks of ${size} in ${shown(array.shape)}`);
    }
    const out = memory.allocate(INT8, array.shape);
    const [from, by, to] = [memory.view(array), memory.view(steps), memory.view(out)];
    for (let at = 0; at < to.length; at++) {
      const exact = Math.fround(from[at]! / by[Math.floor(at / size)]!);
      const near = Math.round(exact);
      const even = near - exact === 0.5 && near % 2 !== 0 ? near - 1 : near;
      to[at] = Math.min(Math.max(even, -128), 127);
    }
    return out;
  };
};

const AT_ONCE = 4; // rows that the kernel multiplies at once
const BLOCK = 16; // of the depth

/** What multiplies codes above their zero point with a node's weights, its inputs 1 and 3: int32. */
function byWeights(node: GraphNode, { memory, take }: Preparation): (codes: NdArray, zeroPoint: number) => NdArray {
  const [weights, zeroPoints] = [take(1), take(3)];
  if (weights?.shape.length !== 2 || sizeOf(weights.shape) === 0 || (weights.type !== INT8 && weights.type !== UINT8)) {
    throw unsupported(`a ${node.operator} without a matrix of weights`);
  }
  const [depth, columns] = weights.shape as [number, number];
  const known = zeroPoints ? zeroPoints.numbers.length : node.inputs[3] ? 0 : 1;
  if (known !== 1 && known !== columns) throw unsupported(`a ${node.operator} with ${known} zero points for ${columns} columns`);
  const asked = shown(weights.shape); // the weights themselves are not kept
  const padded = Math.ceil(depth / BLOCK) * BLOCK;
  const even = columns + (columns % 2);
  const kept = memory.store(INT8, [even, padded], transposed(weights, even, padded));
  const sign = weights.type === UINT8 ? 128 : 0; // taken off codes and zero point alike
  const zeroPointOf = (column: number): number =>
    (zeroPoints ? zeroPoints.numbers[zeroPoints.numbers.length > 1 ? column : 0]! : 0) - sign;
  const points = memory.store(INT32, [even], Int32Array.from({ length: columns }, (_, i) => zeroPointOf(i)));
  if (even > columns) memory.view(points)[columns] = 0;
  return (codes, zeroPoint) => {
    if (codes.type !== UINT8 || fromEnd(codes.shape) !== depth) {
      throw new RangeError(`codes of shape ${shown(codes.shape)} for weights of ${asked}`);
    }
    const rows = sizeOf(codes.shape) / depth;
    const centred = memory.allocate(INT32, [AT_ONCE, padded / 2]); // two int16 in the place of each
    const sums = memory.allocate(INT32, [AT_ONCE]);
    const out = memory.allocate(INT32, [...codes.shape.slice(0, -1), even]);
    memory.kernels.integerProducts(
      codes.address, zeroPoint, rows, depth, kept.address, points.address, even, padded,
      centred.address, sums.address, out.address,
    );
    memory.release(centred);
    memory.release(sums);
    return even === columns ? out : narrowed(memory, out, columns);
  };
}

const matMulInteger: Operator = (node, preparation) => {
  const multiply = byWeights(node, preparation);
  return (inputs) => multiply(needed(inputs, 0), inputs[2] ? preparation.memory.view(inputs[2])[0]! : 0);
};

/**
 * The product of float32 with integer weights and their scales (input 2), plus a bias (input 4):
 * DynamicQuantizeLinear, MatMulInteger and what makes float32 of its sums, in one.
 *
 * Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
 */
const dynamicQuantizeMatMul: Operator = (node, preparation) => {
  const { memory } = preparation;
  const multiply = byWeights(node, preparation);
  return (inputs) => {
    const [array, scales, bias] = [floats(inputs, 0), floats(inputs, 2), inputs[4] && floats(inputs, 4)];
    const [codes, scale, zeroPoint] = quantized(memory, array);
    const sums = multiply(codes, memory.view(zeroPoint)[0]!);
    const columns = fromEnd(sums.shape)!;
    const known = sizeOf(scales.shape);
    if ((known !== 1 && known !== columns) || (bias && sizeOf(bias.shape) !== columns)) {
      throw new RangeError(`scales of shape ${shown(scales.shape)} and a bias of ${bias && shown(bias.shape)} for ${columns} columns`);
    }
    const factors = memory.allocate(FLOAT, [columns]);
    const [to, from, by] = [memory.view(factors), memory.view(scales), memory.view(scale)[0]!];
    for (let column = 0; column < columns; column++) to[column] = from[known > 1 ? column : 0]! * by;
    const out = { ...sums, type: FLOAT }; // in the place of the sums
    const rows = sizeOf(out.shape) / columns;
    memory.kernels.toFloats(sums.address, out.address, rows * columns);
    memory.kernels.multiply(out.address, factors.address, out.address, rows, columns);
    if (bias) memory.kernels.add(out.address, bias.address, out.address, rows, columns);
    for (const over of [codes, scale, zeroPoint, factors]) memory.release(over);
    return out;
  };
};

/** Columns as rows, signed, with zeros behind them. */
function transposed({ type, shape, numbers }: Constant, rows: number, padded: number): Int8Array {
  const [depth, columns] = shape as [number, number];
  const sign = type === UINT8 ? 128 : 0;
  const out = new Int8Array(rows * padded);
  for (let from = 0, i = 0; i < depth; i++) {
    for (let column = 0; column < columns; column++) out[column * padded + i] = numbers[from++]! - sign;
  }
  return out;
}

/** Without the last column. */
function narrowed(memory: Memory, array: NdArray, columns: number): NdArray {
  const out = memory.allocate(INT32, [...array.shape.slice(0, -1), columns]);
  const [from, to] = [memory.view(array), memory.view(out)];
  for (let at = 0; at < to.length; at++) to[at] = from[Math.floor(at / columns) * (columns + 1) + (at % columns)]!;
  memory.release(array);
  return out;
}

/** Of float32; the second is one matrix, or as many as the first has. */
function product(memory: Memory, inputs: Inputs, isTransposed: boolean, alpha: number): NdArray {
  const [left, right] = [needed(inputs, 0), needed(inputs, 1)];
  const depth = fromEnd(left.shape) ?? 0;
  const [a, b] = [fromEnd(right.shape, 2), fromEnd(right.shape)];
  const [rows, columns] = isTransposed ? [b, a] : [a, b];
  const matrices = sizeOf(right.shape.slice(0, -2));
  const height = sizeOf(left.shape) / depth / matrices; // rows of the left that meet one matrix
  const goTogether = matrices === 1 || matrices === sizeOf(left.shape.slice(0, -2));
  if (left.type !== FLOAT || right.type !== FLOAT || columns === undefined || rows !== depth || !goTogether) {
    throw new RangeError(`shapes ${shown(left.shape)} and ${shown(right.shape)} have no product`);
  }
  if (right.shape.length > Math.max(2, left.shape.length)) throw unsupported(`a product of shapes ${shown(left.shape)} and ${shown(right.shape)}`);
  const out = memory.allocate(FLOAT, [...left.shape.slice(0, -1), columns]);
  for (let matrix = 0; matrix < matrices; matrix++) {
    const from = left.address + 4 * matrix * height * depth;
    const by = right.address + 4 * matrix * depth * columns;
    const to = out.address + 4 * matrix * height * columns;
    if (isTransposed) memory.kernels.dots(from, by, to, height, depth, columns, alpha);
    else memory.kernels.sums(from, by, to, height, depth, columns);
  }
  return out;
}

const fusedMatMul: Operator = (node, { memory }) => {
  const asked = ["transA", "transBatchA", "transBatchB"].find((name) => numberOf(node, name, 0) !== 0);
  const [isTransposed, alpha] = [numberOf(node, "transB", 0) !== 0, numberOf(node, "alpha", 1)];
  if (asked !== undefined || (!isTransposed && alpha !== 1)) throw unsupported(`a FusedMatMul with ${asked ?? "alpha"}`);
  return (inputs) => product(memory, inputs, isTransposed, alpha);
};

const layerNormalization: Operator = (node, { memory }) => {
  const [along, epsilon] = [numberOf(node, "axis", -1), numberOf(node, "epsilon", 1e-5)];
  if (node.inputs.length !== 3) throw unsupported("a LayerNormalization without a bias");
  return (inputs) => {
    const [array, scale, bias] = [floats(inputs, 0), floats(inputs, 1), floats(inputs, 2)];
    const { shape } = array;
    const width = fromEnd(shape) ?? 0;
    if (axisOf(along, shape.length) !== shape.length - 1 || sizeOf(scale.shape) !== width || sizeOf(bias.shape) !== width) {
      throw unsupported("a LayerNormalization of several axes");
    }
    const out = memory.allocate(FLOAT, shape);
    const rows = sizeOf(shape) / width;
    memory.kernels.layerNormalization(array.address, scale.address, bias.address, out.address, rows, width, epsilon);
    return out;
  };
};

/** Division by the L2 norm along the last axis. */
const lpNormalization: Operator = (node, { memory }) => {
  const [along, p] = [numberOf(node, "axis", -1), numberOf(node, "p", 2)];
  return (inputs) => {
    const array = floats(inputs, 0);
    if (p !== 2 || axisOf(along, array.shape.length) !== array.shape.length - 1) {
      throw unsupported("an LpNormalization other than L2 of the last axis");
    }
    const out = memory.allocate(FLOAT, array.shape);
    const [from, to, width] = [memory.view(array), memory.view(out), fromEnd(array.shape)!];
    for (let first = 0; first < to.length; first += width) {
      const norm = Math.hypot(...from.subarray(first, first + width)) || 1;
      for (let i = first; i < first + width; i++) to[i] = from[i]! / norm;
    }
    return out;
  };
};

/**
 * Attention of query, key and value, each (batch, length, heads * size), over the places that the
 * mask, (batch, length), leaves.
 *
 * Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
 */
const multiHeadAttention: Operator = (node, { memory }) => {
  const heads = numberOf(node, "num_heads", 1);
  const hidden = numberOf(node, "mask_filter_value", -10000);
  const scale = numberOf(node, "scale", 0);
  const isCausal = numberOf(node, "unidirectional", 0) !== 0;
  if (isCausal || !(heads >= 1) || node.inputs.some((name, i) => name !== "" && i !== 4 && i > 2)) {
    throw unsupported("a MultiHeadAttention with a bias or a cache, or of what came before alone");
  }
  return (inputs) => {
    const [query, key, value, mask] = [floats(inputs, 0), floats(inputs, 1), floats(inputs, 2), inputs[4]];
    const [batch, length, width] = query.shape as [number, number, number];
    const places = key.shape[1] ?? 0;
    const isWhole = shown(key.shape) === shown(value.shape) && shown(key.shape) === shown([batch, places, width]);
    if (query.shape.length !== 3 || !isWhole || width % heads !== 0) {
      throw new RangeError(`shapes ${shown(query.shape)}, ${shown(key.shape)} and ${shown(value.shape)}`);
    }
    if (mask && shown(mask.shape) !== shown([batch, places])) throw unsupported(`a mask of shape ${shown(mask.shape)}`);
    const padded = Math.ceil(places / 4) * 4;
    const [out, added, scores] = [query.shape, [padded], [padded]].map((shape) => memory.allocate(FLOAT, shape)) as [
      NdArray, NdArray, NdArray,
    ];
    memory.view(scores).fill(0); // the kernel takes whole vectors, and hides what is beyond
    for (let row = 0; row < batch; row++) {
      const shownAt = mask && memory.view(mask).subarray(row * places, (row + 1) * places);
      memory.view(added).fill(-Infinity).set(Float32Array.from({ length: places }, (_, i) => (shownAt?.[i] === 0 ? hidden : 0)));
      const [own, others] = [row * length * width * 4, row * places * width * 4];
      memory.kernels.attention(
        query.address + own, key.address + others, value.address + others, added.address, scores.address,
        out.address + own, length, places, width, heads, scale || 1 / Math.sqrt(width / heads),
      );
    }
    memory.release(added);
    memory.release(scores);
    return out;
  };
};

export const LAYERS: Readonly<Record<string, Operator>> = {
  DynamicQuantizeLinear: dynamicQuantizeLinear,
  DequantizeLinear: dequantizeLinear,
  QuantizeLinear: quantizeLinear,
  MatMulInteger: matMulInteger,
  "com.microsoft.DynamicQuantizeMatMul": dynamicQuantizeMatMul,
  MatMul: (_, { memory }) => (inputs) => product(memory, inputs, false, 1),
  "com.microsoft.FusedMatMul": fusedMatMul,
  LayerNormalization: layerNormalization,
  LpNormalization: lpNormalization,
  "com.microsoft.MultiHeadAttention": multiHeadAttention,
};
