/** An enrolment authority's word that a device key belongs to a federation until some time. */

import { checkSignature, type Key } from "../bundle/signature.js";
import { hexadecimal } from "../platform/hashing.js";
import { InvalidInputError, SignatureError } from "../errors.js";
import { concatenated } from "../files/bytes.js";
import { type AgreementKey, checkAgreementKey, KEY_BYTES } from "../gateway/agreement.js";
import { encodeUtf8 } from "../utf8.js";
import { numberIn, numberOf } from "./layout.js";

export const CERTIFICATE_BYTES = 100;
const ENROLMENT = encodeUtf8("pocketquery-enrolment-1\n");
const EXPIRY_BYTES = 4;
const REQUEST = "pocketquery-enrolment-request-1";

export interface Certificate {
  /** The device's public key, 32 bytes. */
  readonly key: Uint8Array;
  /** Unix seconds, from which on it counts no more. */
  readonly expiry: number;
  readonly signature: Uint8Array;
  /** All of it, 100 bytes. */
  readonly bytes: Uint8Array;
}

/** What the authority is sent to certify a device key: the file that `pocketquery enrol sign` reads. */
export function enrolmentRequest({ publicKey }: AgreementKey): string {
  return `${JSON.stringify({ schema: REQUEST, key: hexadecimal(publicKey) })}\n`;
}

/** The certificate in `data`, not checked yet. Throws InvalidInputError: not of 100 bytes. */
export function parseCertificate(data: Uint8Array): Certificate {
  if (data.length !== CERTIFICATE_BYTES) {
    throw new InvalidInputError(`a certificate has ${CERTIFICATE_BYTES} bytes, found ${data.length}`);
  }
  const bytes = Uint8Array.from(data);
  const end = KEY_BYTES + EXPIRY_BYTES;
  return { key: bytes.slice(0, KEY_BYTES), expiry: numberIn(bytes, KEY_BYTES), signature: bytes.slice(end), bytes };
}

/**
 * Returns where the authority certified this key for this federation and the time `now`, in Unix
 * seconds. Throws InvalidInputError: it did not, the certificate has expired, or its key is none.
 */
export async function checkCertificate(
  { key, expiry, signature }: Certificate,
  authority: Key,
  federation: Uint8Array,
  now: number,
): Promise<void> {
  checkAgreementKey(key);
  if (now >= expiry) {
    throw new InvalidInputError(
      `the certificate of the device key ${hexadecimal(key)} expired at ${expiry} (Unix seconds), and it ` +
        `is ${Math.floor(now)}; have a new one signed`,
    );
  }
  const message = concatenated([ENROLMENT, federation, key, numberOf(expiry)]);
  try {
    await checkSignature(message, signature, authority, "certificate");
  } catch (error) {
    if (!(error instanceof SignatureError)) throw error;
    throw new InvalidInputError(
      `the certificate of the device key ${hexadecimal(key)} is not by this authority for the federation ` +
        `${hexadecimal(federation)}: ${error.message}`,
      { cause: error },
    );
  }
}
