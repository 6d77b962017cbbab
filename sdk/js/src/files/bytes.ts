/** 32 hexadecimal digits drawn at random: a name unlike any other. No secret: Hermes draws by itself no better. */
export function randomName(): string {
  const bytes = new Uint8Array(16);
  if (typeof globalThis.crypto?.getRandomValues === "function") crypto.getRandomValues(bytes);
  else for (let i = 0; i < bytes.length; i++) bytes[i] = 256 * Math.random();
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The bytes from `begin` to before `end` in a buffer of their own, also of a Buffer, whose `slice` copies nothing. */
export function copied(bytes: Uint8Array, begin = 0, end = bytes.length): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes.subarray(begin, end));
}

/** `pieces` one after the other; a single one is returned as it is. */
export function concatenated(pieces: readonly Uint8Array[]): Uint8Array {
  if (pieces.length === 1) return pieces[0] as Uint8Array;
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.byteLength, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.byteLength;
  }
  return whole;
}
