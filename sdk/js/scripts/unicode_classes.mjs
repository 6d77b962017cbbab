/**
 * `node scripts/unicode_classes.mjs`: src/tokenizer/unicode_classes.ts, the classes of characters that this Node
 * knows. Written down, because Hermes cannot read \p{...} and each engine has a Unicode of its own.
 */

import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const CLASSES = {
  LETTERS: ["L", "Letters of all scripts"],
  MARKS: ["M", "Accents and vowel signs that belong to the letter before"],
  NUMBERS: ["N", "Digits, and what else counts"],
  DIGITS: ["Nd", "Decimal digits: each script's ten in a row, from zero"],
  UPPERCASE: ["Uppercase", "Capitals"],
  LOWERCASE: ["Lowercase", "Small letters"],
};

/** Where the class begins and ends by turns, each bound as its distance from the one before, in base 36. */
export function steps(name) {
  const pattern = new RegExp(`\\p{${name}}`, "u");
  const bounds = [];
  for (let point = 0, before = false; point <= 0x110000; point++) {
    const now = point < 0x110000 && pattern.test(String.fromCodePoint(point));
    if (now !== before) bounds.push(point);
    before = now;
  }
  return bounds.map((bound, i) => (bound - (bounds[i - 1] ?? 0)).toString(36)).join(" ");
}

/** The content of the file. */
export function classesModule() {
  const head =
    `/** Classes of characters in Unicode ${process.versions.unicode}; written by scripts/unicode_classes.mjs. */\n\n` +
    'import { CharacterClass } from "./character_class.js";\n';
  const parts = Object.entries(CLASSES).map(([constant, [name, meaning]]) => {
    const lines = steps(name).match(/.{1,92}(?: |$)/g).map((line) => `    "${line}"`);
    return `\n/** ${meaning}. */\nexport const ${constant} = /* @__PURE__ */ CharacterClass.ofSteps(\n${lines.join(" +\n")},\n);\n`;
  });
  return head + parts.join("");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(fileURLToPath(new URL("../src/tokenizer/unicode_classes.ts", import.meta.url)), classesModule());
}
