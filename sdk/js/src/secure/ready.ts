/** Stage 1 of a private round, up: a device's certificate, and the proof that it holds the certified key. */

import { concatenated } from "../files/bytes.js";
import type { AgreementKey } from "../gateway/agreement.js";
import type { Certificate } from "./certificate.js";
import { derive, mark, readyLabel } from "./keys.js";

/**
 * The body with which the device that holds `key` says that it is ready for a round, 116 bytes: the
 * certificate alone would not prove who sends it, for neighbours of an earlier round have seen it.
 * Throws InvalidInputError: `announced` is no X25519 key of large order.
 */
export async function readyReply(
  key: AgreementKey,
  { bytes }: Certificate,
  announced: Uint8Array,
  federation: Uint8Array,
  round: number,
): Promise<Uint8Array> {
  const secret = derive(await key.agree(announced), readyLabel(federation, key.publicKey, announced));
  const number = new Uint8Array(8);
  new DataView(number.buffer).setBigUint64(0, BigInt(round));
  return concatenated([bytes, mark(secret, concatenated([number, bytes]))]);
}
