/** SHA-256 by the platform's WebCrypto, and what else of it is used. */

import { MissingExtraError } from "../errors.js";

let plainly: ((data: Uint8Array) => Uint8Array) | undefined;

/** From now on, where there is no WebCrypto, `hash` takes the place of its SHA-256. */
export function hashPlainly(hash: (data: Uint8Array) => Uint8Array): void {
  plainly = hash;
}

/** The SHA-256 of `data`, hexadecimal. Throws MissingExtraError without WebCrypto. */
export async function sha256(data: Uint8Array): Promise<string> {
  if (plainly && !globalThis.crypto?.subtle) return hexadecimal(plainly(data));
  return hexadecimal(new Uint8Array(await subtle().digest("SHA-256", shared(data))));
}

/** `bytes` in hexadecimal digits. */
export function hexadecimal(bytes: Uint8Array): string {
  let digits = "";
  for (const byte of bytes) digits += byte.toString(16).padStart(2, "0");
  return digits;
}

/** The platform's WebCrypto. Throws MissingExtraError: there is none. */
export function subtle(): SubtleCrypto {
  const found = globalThis.crypto?.subtle;
  if (found === undefined) {
    throw new MissingExtraError(
      "WebCrypto (crypto.subtle) is needed here and is not there; a page needs https or localhost, " +
        "React Native a package such as react-native-quick-crypto",
    );
  }
  return found;
}

/** WebCrypto takes no SharedArrayBuffer, and TypeScript wants that said. */
export function shared(data: Uint8Array): Uint8Array<ArrayBuffer> {
  return data.buffer instanceof ArrayBuffer ? (data as Uint8Array<ArrayBuffer>) : Uint8Array.from(data);
}
