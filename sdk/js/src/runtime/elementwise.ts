/** Operators of one number, or of two after stretching the smaller array. */

import { axisOf, BOOL, FLOAT, INT32, INT64, isKnown, type Memory, type NdArray, type Numbers, shown, sizeOf, strided } from "./memory.js";
import { floats, needed, numberOf, type Operator } from "./operator.js";
import { unsupported } from "./unsupported.js";

type Pair = (left: number, right: number) => number;

/** An operator of two arrays, rounded to the type of the first (or `type`). */
function paired(pair: Pair, type?: number): Operator {
  return (node, { memory }) => {
    if (node.inputs.length !== 2) throw unsupported(`a ${node.operator} of ${node.inputs.length} arrays`);
    return (inputs) => stretched(memory, pair, needed(inputs, 0), needed(inputs, 1), type);
  };
}

function stretched(memory: Memory, pair: Pair, left: NdArray, right: NdArray, type = left.type): NdArray {
  const out = memory.allocate(type, broadcastShape(left.shape, right.shape));
  const [a, b, to] = [memory.view(left), memory.view(right), memory.view(out)];
  if (a.length === to.length && endsWith(left.shape, right.shape)) {
    for (let at = 0; at < to.length; ) for (let i = 0; i < b.length; i++, at++) to[at] = pair(a[at]!, b[i]!);
    return out;
  }
  const [ofLeft, ofRight] = [places(left.shape, out.shape), places(right.shape, out.shape)];
  for (let at = 0; at < to.length; at++) to[at] = pair(a[ofLeft(at)]!, b[ofRight(at)]!);
  return out;
}

/** Sums or products of any number of arrays: nearly all numbers of a graph go through a kernel here. */
function folded(name: "add" | "multiply", pair: Pair): Operator {
  return (node, { memory }) => {
    if (node.inputs.length < 2) throw unsupported(`a ${node.operator} of one array`);
    const combined = (one: NdArray, other: NdArray): NdArray => {
      const [whole, part] = sizeOf(one.shape) < sizeOf(other.shape) ? [other, one] : [one, other];
      if (whole.type !== FLOAT || part.type !== FLOAT || !endsWith(whole.shape, part.shape)) return stretched(memory, pair, one, other);
      const width = sizeOf(part.shape);
      const out = memory.allocate(FLOAT, broadcastShape(whole.shape, part.shape));
      const rows = sizeOf(whole.shape) / width;
      memory.kernels[name](whole.address, part.address, out.address, rows, width);
      return out;
    };
    return (inputs) => {
      let found = combined(needed(inputs, 0), needed(inputs, 1));
      for (let i = 2; i < inputs.length; i++) found = combined(found, needed(inputs, i));
      return found;
    };
  };
}

/** The shape that both can be stretched to. Throws RangeError: there is none. */
function broadcastShape(left: readonly number[], right: readonly number[]): number[] {
  const rank = Math.max(left.length, right.length);
  return Array.from({ length: rank }, (_, i) => {
    const a = left[i - rank + left.length] ?? 1;
    const b = right[i - rank + right.length] ?? 1;
    if (a !== b && a !== 1 && b !== 1) {
      throw new RangeError(`shapes ${shown(left)} and ${shown(right)} do not go together`);
    }
    return a === 1 ? b : a;
  });
}

/** Whether `shape`, without ones in front, is how `whole` ends: then its numbers simply repeat. */
function endsWith(whole: readonly number[], shape: readonly number[]): boolean {
  let first = 0;
  while (first < shape.length && shape[first] === 1) first++;
  const apart = whole.length - shape.length;
  return sizeOf(whole) > 0 && shape.slice(first).every((size, i) => whole[apart + first + i] === size);
}

/** Where in an array of `shape` the number for place `at` of the stretched array lies. */
function places(shape: readonly number[], whole: readonly number[]): (at: number) => number {
  const steps = new Array<number>(whole.length).fill(0);
  for (let axis = shape.length - 1, step = 1; axis >= 0; step *= shape[axis--]!) {
    if (shape[axis] !== 1) steps[axis + whole.length - shape.length] = step;
  }
  return strided(whole, steps);
}

/** An operator of each number. */
function mapped(change: (value: number) => number, type = FLOAT): Operator {
  return (_, { memory }) => (inputs) => {
    const array = needed(inputs, 0);
    const out = memory.allocate(type, array.shape);
    const [from, to] = [memory.view(array), memory.view(out)];
    for (let at = 0; at < to.length; at++) to[at] = change(from[at]!);
    return out;
  };
}

const cast: Operator = (node, { memory }) => {
  const type = numberOf(node, "to", FLOAT);
  if (!isKnown(type)) throw unsupported(`a Cast to ONNX's type ${type}`);
  return (inputs) => {
    const array = needed(inputs, 0);
    const out = memory.allocate(type, array.shape);
    if (array.type === INT32 && type === FLOAT) {
      memory.kernels.toFloats(array.address, out.address, sizeOf(array.shape));
      return out;
    }
    const [from, to] = [memory.view(array), memory.view(out)];
    if (type === BOOL) for (let i = 0; i < to.length; i++) to[i] = from[i] === 0 ? 0 : 1;
    else if (array.type === FLOAT && type !== FLOAT) for (let i = 0; i < to.length; i++) to[i] = Math.trunc(from[i]!);
    else to.set(from);
    return out;
  };
};

const divide: Operator = (_, { memory }) => (inputs) => {
  const [left, right] = [needed(inputs, 0), needed(inputs, 1)];
  const isWhole = left.type === INT32 || left.type === INT64;
  return stretched(memory, isWhole ? (a, b) => Math.trunc(a / b) : (a, b) => a / b, left, right);
};

const gelu: Operator = (node, { memory }) => {
  if ((node.attributes.get("approximate") ?? "none") !== "none") throw unsupported("an approximate Gelu");
  return (inputs) => {
    const array = floats(inputs, 0);
    const out = memory.allocate(FLOAT, array.shape);
    memory.kernels.gelu(array.address, out.address, sizeOf(array.shape));
    return out;
  };
};

/** GELU by tanh. */
const fastGelu: Operator = (node, preparation) => {
  if (node.inputs.length > 1) throw unsupported("a FastGelu with a bias");
  return mapped((x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))))(node, preparation);
};

const sigmoid = (value: number): number => 1 / (1 + Math.exp(-value));

const quickGelu: Operator = (node, preparation) => {
  const alpha = numberOf(node, "alpha", 1.702);
  return mapped((value) => value * sigmoid(alpha * value))(node, preparation);
};

/** Rows of the second array where the first is true, else of the third; both have one shape. */
const where: Operator = (_, { memory }) => (inputs) => {
  const [isSecond, second, third] = [needed(inputs, 0), needed(inputs, 1), needed(inputs, 2)];
  if (shown(second.shape) !== shown(third.shape) || second.type !== third.type) {
    throw unsupported(`a Where of shapes ${shown(second.shape)} and ${shown(third.shape)}`);
  }
  const place = places(isSecond.shape, broadcastShape(isSecond.shape, second.shape));
  const out = memory.allocate(second.type, second.shape);
  const [choice, yes, no, to] = [isSecond, second, third, out].map((array) => memory.view(array)) as [Numbers, Numbers, Numbers, Numbers];
  for (let at = 0; at < to.length; at++) to[at] = choice[place(at)] ? yes[at]! : no[at]!;
  return out;
};

const cumulativeSum: Operator = (node, { memory }) => {
  if (numberOf(node, "exclusive", 0) !== 0 || numberOf(node, "reverse", 0) !== 0) {
    throw unsupported("a CumSum that is exclusive or in reverse");
  }
  return (inputs) => {
    const array = needed(inputs, 0);
    const axis = axisOf(memory.view(needed(inputs, 1))[0] ?? 0, array.shape.length);
    const step = sizeOf(array.shape.slice(axis + 1));
    const out = memory.allocate(array.type, array.shape);
    const [from, to] = [memory.view(array), memory.view(out)];
    for (let at = 0; at < to.length; at++) {
      const isFirst = Math.floor(at / step) % array.shape[axis]! === 0;
      to[at] = from[at]! + (isFirst ? 0 : to[at - step]!);
    }
    return out;
  };
};

const sum: Operator = folded("add", (left, right) => left + right);

export const ELEMENTWISE: Readonly<Record<string, Operator>> = {
  Add: sum,
  Sum: sum,
  Mul: folded("multiply", (left, right) => left * right),
  Sub: paired((left, right) => left - right),
  Div: divide,
  Min: paired((left, right) => Math.min(left, right)),
  Max: paired((left, right) => Math.max(left, right)),
  Less: paired((left, right) => (left < right ? 1 : 0), BOOL),
  Where: where,
  Equal: paired((left, right) => (left === right ? 1 : 0), BOOL),
  Not: mapped((value) => (value === 0 ? 1 : 0), BOOL),
  Cast: cast,
  CumSum: cumulativeSum,
  Relu: mapped((value) => Math.max(value, 0)),
  Tanh: mapped(Math.tanh),
  Sigmoid: mapped(sigmoid),
  Gelu: gelu,
  "com.microsoft.Gelu": gelu,
  "com.microsoft.FastGelu": fastGelu,
  "com.microsoft.QuickGelu": quickGelu,
};
