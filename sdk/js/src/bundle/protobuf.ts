/**
 * Reading protobuf messages by field number, for the two formats we meet in it: ONNX models and
 * sentencepiece models. Strict: every length is checked before it is followed.
 *
 * Source: https://protobuf.dev/programming-guides/encoding/
 */

import { decodeUtf8 } from "../utf8.js";

/** One field of a message: its number, and its value or where its bytes lie. */
export interface Field {
  readonly number: number;
  readonly wire: "varint" | "fixed64" | "bytes" | "fixed32";
  /** For a varint: the value. Above 2^53 it is inexact; two's complement is undone. */
  readonly value: number;
  /** For the other kinds: the span of the value in the whole array. */
  readonly begin: number;
  readonly end: number;
}

const WIRES = ["varint", "fixed64", "bytes", , , "fixed32"] as const;

/** The fields of the message in `data` from `begin` to before `end`. Throws RangeError where it is cut. */
export function* fieldsOf(data: Uint8Array, begin = 0, end = data.length): Generator<Field> {
  let at = begin;
  const varint = (): number => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      if (at >= end) throw new RangeError("a message that is cut");
      const byte = data[at++] as number;
      if (shift === 0n && byte < 0x80) return byte; // nearly all are
      value |= BigInt(byte & 0x7f) << shift;
      if (byte >= 0x80) continue;
      if (value >> 64n) break;
      return Number(BigInt.asIntN(64, value));
    }
    throw new RangeError("a number of more than 64 bits");
  };
  while (at < end) {
    const tag = varint();
    const number = Math.floor(tag / 8);
    const wire = WIRES[tag & 7];
    if (wire === undefined || number < 1 || tag > 0xffffffff) throw new RangeError(`a field of kind ${tag & 7}`);
    if (wire === "varint") {
      yield { number, wire, value: varint(), begin: at, end: at };
      continue;
    }
    const length = wire === "bytes" ? varint() : wire === "fixed64" ? 8 : 4;
    if (length < 0 || length > end - at) throw new RangeError("a message that is cut");
    yield { number, wire, value: 0, begin: at, end: at + length };
    at += length;
  }
}

/** A field that is text. */
export function textOf(data: Uint8Array, { begin, end }: Field): string {
  return decodeUtf8(data.subarray(begin, end));
}

/** The numbers of a repeated integer field: one of its occurrences, packed or not. */
export function integersOf(data: Uint8Array, field: Field): number[] {
  if (field.wire === "varint") return [field.value];
  const numbers: number[] = [];
  // A packed field is a row of varints: read them as the values of field 1.
  let at = field.begin;
  while (at < field.end) {
    let value = 0n;
    let shift = 0n;
    for (;;) {
      if (at >= field.end || shift > 63n) throw new RangeError("a list that is cut");
      const byte = data[at++] as number;
      value |= BigInt(byte & 0x7f) << shift;
      shift += 7n;
      if (byte < 0x80) break;
    }
    numbers.push(Number(BigInt.asIntN(64, value)));
  }
  return numbers;
}
