/**
 * Commitments to shares, by which it is proven who lied about one, or nobody is named; Python's
 * `client/private/commitments.py` says why they hide and bind.
 */

import { concatenated } from "../files/bytes.js";
import { encodeUtf8 } from "../utf8.js";
import { digestOf, PROTOCOL } from "./keys.js";
import { numberOf } from "./layout.js";

const BYTES = 16; // of the hash of one share

/**
 * Those to both shares that the device at position `dealer` dealt `neighbour`, first of the self seed:
 * 32 bytes. A receipt is the same, computed by the neighbour.
 */
export function commitments(
  beta: Uint8Array,
  dealer: number,
  neighbour: number,
  selfShare: Uint8Array,
  maskShare: Uint8Array,
): Uint8Array {
  const hash = (part: "self" | "mask", share: Uint8Array): Uint8Array => {
    const label = encodeUtf8(`${PROTOCOL} share ${part} `);
    return digestOf(label, beta, numberOf(dealer), numberOf(neighbour), share).slice(0, BYTES);
  };
  return concatenated([hash("self", selfShare), hash("mask", maskShare)]);
}
