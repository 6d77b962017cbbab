/** Operators that choose, move or count numbers, and change none; and sums along axes. */

import { axisOf, INT64, type Memory, type NdArray, shown, sizeOf, strided, stridesOf } from "./memory.js";
import { type Inputs, listOf, needed, numberOf, type Operator, reshaped } from "./operator.js";
import { unsupported } from "./unsupported.js";

const shape: Operator = (node, { memory }) => {
  const [start, end] = [numberOf(node, "start", 0), numberOf(node, "end", Infinity)];
  return (inputs) => {
    const sizes = needed(inputs, 0).shape.slice(start, end); // which counts and cuts as ONNX does
    return memory.store(INT64, [sizes.length], sizes);
  };
};

const gather: Operator = (node, { memory }) => {
  const along = numberOf(node, "axis", 0);
  return (inputs) => {
    const [from, rows] = [needed(inputs, 0), needed(inputs, 1)];
    const axis = axisOf(along, from.shape.length);
    const [before, after] = [from.shape.slice(0, axis), from.shape.slice(axis + 1)];
    const count = from.shape[axis]!;
    const out = memory.allocate(from.type, [...before, ...rows.shape, ...after]);
    const [numbers, to, chosen] = [memory.bytes(from), memory.bytes(out), memory.view(rows)];
    const blocks = to.length === 0 ? 0 : sizeOf(before);
    const width = numbers.length / (blocks * count); // bytes
    let place = 0;
    for (let block = 0; block < blocks; block++) {
      for (const row of chosen) {
        const counted = row < 0 ? row + count : row;
        if (!(counted >= 0 && counted < count)) throw new RangeError(`row ${row} of a table of ${count}`);
        const begin = (block * count + counted) * width;
        to.set(numbers.subarray(begin, begin + width), place);
        place += width;
      }
    }
    return out;
  };
};

/** The axes of a node: its second input, or in older operator sets its attribute. */
function axesOf(memory: Memory, inputs: Inputs, fixed: readonly number[] | undefined): readonly number[] | undefined {
  return inputs[1] === undefined ? fixed : Array.from(memory.view(inputs[1]));
}

const unsqueeze: Operator = (node, { memory }) => {
  const fixed = listOf(node, "axes");
  return (inputs) => {
    const array = needed(inputs, 0);
    const axes = axesOf(memory, inputs, fixed) ?? [];
    const rank = array.shape.length + axes.length;
    const added = new Set(axes.map((axis) => axisOf(axis, rank)));
    const sizes = [...array.shape];
    const longer = Array.from({ length: rank }, (_, axis) => (added.has(axis) ? 1 : sizes.shift() ?? 1));
    return reshaped(memory, array, longer);
  };
};

const squeeze: Operator = (node, { memory }) => {
  const fixed = listOf(node, "axes");
  return (inputs) => {
    const array = needed(inputs, 0);
    const axes = axesOf(memory, inputs, fixed)?.map((axis) => axisOf(axis, array.shape.length));
    const left = array.shape.filter((size, axis) => (axes ? !axes.includes(axis) : size !== 1));
    return reshaped(memory, array, left);
  };
};

const reshape: Operator = (node, { memory }) => {
  if (numberOf(node, "allowzero", 0) !== 0) throw unsupported("a Reshape to no numbers");
  return (inputs) => {
    const array = needed(inputs, 0);
    const asked = Array.from(memory.view(needed(inputs, 1)), (size, axis) => (size === 0 ? array.shape[axis]! : size));
    const known = sizeOf(asked.filter((size) => size !== -1));
    return reshaped(memory, array, asked.map((size) => (size === -1 ? sizeOf(array.shape) / known : size)));
  };
};

const slice: Operator = (_, { memory }) => (inputs) => {
  const array = needed(inputs, 0);
  const [start, end, axis, step] = [1, 2, 3, 4].map((i) => (inputs[i] ? memory.view(inputs[i]) : undefined));
  if (start?.length !== 1 || end?.length !== 1 || (step?.[0] ?? 1) !== 1) {
    throw unsupported("a Slice of several axes, or one that leaves numbers out");
  }
  return cut(memory, array, axisOf(axis?.[0] ?? 0, array.shape.length), start[0]!, end[0]!);
};

/** From `start` to before `end` along an axis; both may count from its end. */
function cut(memory: Memory, array: NdArray, axis: number, start: number, end: number): NdArray {
  const size = array.shape[axis]!;
  const place = (at: number): number => Math.min(Math.max(at < 0 ? at + size : at, 0), size);
  const [first, last] = [place(start), Math.max(place(start), place(end))];
  const width = sizeOf(array.shape.slice(axis + 1));
  const shape = array.shape.map((old, i) => (i === axis ? last - first : old));
  const out = memory.allocate(array.type, shape);
  const [from, to] = [memory.view(array), memory.view(out)];
  for (let block = 0, at = 0; at < to.length; block++, at += (last - first) * width) {
    const begin = block * size * width;
    to.set(from.subarray(begin + first * width, begin + last * width), at);
  }
  return out;
}

const split: Operator = (node, { memory }) => {
  const along = numberOf(node, "axis", 0);
  return (inputs) => {
    const array = needed(inputs, 0);
    const axis = axisOf(along, array.shape.length);
    const whole = array.shape[axis]!;
    if (inputs[1] === undefined) throw unsupported("a Split without sizes");
    const sizes = Array.from(memory.view(inputs[1]));
    const together = sizes.reduce((sum, size) => sum + size, 0);
    if (sizes.length !== node.outputs.length || together !== whole || sizes.some((size) => size < 0)) {
      throw new RangeError(`${node.outputs.length} parts of sizes ${shown(sizes)} of an axis of ${whole}`);
    }
    let end = 0;
    return sizes.map((size) => cut(memory, array, axis, end, (end += size)));
  };
};

const transpose: Operator = (node, { memory }) => {
  const asked = listOf(node, "perm");
  return (inputs) => {
    const array = needed(inputs, 0);
    const order = asked ?? array.shape.map((_, axis) => array.shape.length - 1 - axis);
    const strides = stridesOf(array.shape);
    const out = memory.allocate(array.type, order.map((axis) => array.shape[axis]!));
    const [from, to] = [memory.view(array), memory.view(out)];
    if (shown(order) === "(1, 0)") { // weights: millions of numbers, once
      const [rows, columns] = array.shape as [number, number];
      for (let at = 0, column = 0; column < columns; column++) {
        for (let row = 0; row < rows; row++) to[at++] = from[row * columns + column]!;
      }
      return out;
    }
    const place = strided(out.shape, order.map((axis) => strides[axis]!));
    for (let at = 0; at < to.length; at++) to[at] = from[place(at)]!;
    return out;
  };
};

/** A reduction over some axes; all of them where none are named. */
function reduction(next: (sum: number, value: number) => number, last: (sum: number) => number): Operator {
  return (node, { memory }) => {
    const [fixed, keeps] = [listOf(node, "axes"), numberOf(node, "keepdims", 1) !== 0];
    const keepsAll = numberOf(node, "noop_with_empty_axes", 0) !== 0;
    return (inputs) => {
      const array = needed(inputs, 0);
      const { shape: sizes } = array;
      const asked = axesOf(memory, inputs, fixed) ?? [];
      const named = asked.length > 0 || keepsAll ? asked : sizes.map((_, axis) => axis);
      const axes = new Set(named.map((axis) => axisOf(axis, sizes.length)));
      const kept = sizes.map((size, axis) => (axes.has(axis) ? 1 : size));
      const place = strided(sizes, stridesOf(kept).map((stride, axis) => (axes.has(axis) ? 0 : stride)));
      const sums = new Float64Array(sizeOf(kept));
      for (const [at, value] of memory.view(array).entries()) {
        const to = place(at);
        sums[to] = next(sums[to]!, value);
      }
      return memory.store(array.type, keeps ? kept : sizes.filter((_, axis) => !axes.has(axis)), sums.map(last));
    };
  };
}

export const SHAPES: Readonly<Record<string, Operator>> = {
  Shape: shape,
  Gather: gather,
  Unsqueeze: unsqueeze,
  Squeeze: squeeze,
  Reshape: reshape,
  Slice: slice,
  Split: split,
  Transpose: transpose,
  ReduceSum: reduction((sum, value) => sum + value, (sum) => sum),
  ReduceL2: reduction((sum, value) => sum + value * value, Math.sqrt),
};
