/** A WebAssembly module as a module of TypeScript, in which it lies as base64. */

/**
 * @param {string} said how it was made, for who opens the file
 * @param {string} name of the constant
 * @param {Uint8Array} bytes of the module
 */
export function packedModule(said, name, bytes) {
  const lines = Buffer.from(bytes).toString("base64").match(/.{1,90}/g).map((line) => `  "${line}"`);
  return `/** ${said}; base64. */\nexport const ${name} =\n${lines.join(" +\n")};\n`;
}
