/**
 * The Porter stemmer as SQLite's FTS5 has it (fts5_tokenize.c), rule by rule.
 *
 * It works on the bytes of UTF-8, so that what the lengths mean beyond ASCII is the same. A word is
 * a text whose characters are those bytes.
 */
import { fromEnd } from "../platform/lists.js";

const SHORTEST = 3; // bytes; shorter and longer words are left as they are
const LONGEST = 64;

type Rule = readonly [suffix: string, replacement: string];

// By the last byte but one, as FTS5 looks them up; the first suffix that fits is the only one tried.
const STEP_2: Readonly<Record<string, readonly Rule[]>> = {
  a: [["ational", "ate"], ["tional", "tion"]],
  c: [["enci", "ence"], ["anci", "ance"]],
  e: [["izer", "ize"]],
  g: [["logi", "log"]],
  l: [["bli", "ble"], ["alli", "al"], ["entli", "ent"], ["eli", "e"], ["ousli", "ous"]],
  o: [["ization", "ize"], ["ation", "ate"], ["ator", "ate"]],
  s: [["alism", "al"], ["iveness", "ive"], ["fulness", "ful"], ["ousness", "ous"]],
  t: [["aliti", "al"], ["iviti", "ive"], ["biliti", "ble"]],
};
const STEP_3: Readonly<Record<string, readonly Rule[]>> = {
  a: [["ical", "ic"]],
  s: [["ness", ""]],
  t: [["icate", "ic"], ["iciti", "ic"]],
  u: [["ful", ""]],
  v: [["ative", ""]],
  z: [["alize", "al"]],
};
const STEP_4: Readonly<Record<string, readonly string[]>> = {
  a: ["al"],
  c: ["ance", "ence"],
  e: ["er"],
  i: ["ic"],
  l: ["able", "ible"],
  n: ["ant", "ement", "ment", "ent"],
  o: ["ion", "ou"],
  s: ["ism"],
  t: ["ate", "iti"],
  u: ["ous"],
  v: ["ive"],
  z: ["ize"],
};

/** The stem of `word`, a text of bytes. */
export function stem(word: string): string {
  if (word.length < SHORTEST || word.length > LONGEST) return word;
  let found = step1b(step1a(word));
  if (found.endsWith("y") && hasVowel(found.slice(0, -1))) found = `${found.slice(0, -1)}i`;
  found = replace(found, STEP_2);
  found = replace(found, STEP_3);
  found = step4(found);
  if (found.endsWith("e")) {
    const rest = found.slice(0, -1);
    const measured = measure(rest);
    if (measured > 1 || (measured === 1 && !endsShort(rest))) found = rest;
  }
  if (found.endsWith("ll") && measure(found.slice(0, -1)) > 1) found = found.slice(0, -1);
  return found;
}

function step1a(word: string): string {
  if (!word.endsWith("s")) return word;
  if (fromEnd(word, 2) === "e") {
    const twoGo = (word.length > 4 && word.endsWith("sses")) || (word.length > 3 && fromEnd(word, 3) === "i");
    return word.slice(0, twoGo ? -2 : -1);
  }
  return fromEnd(word, 2) === "s" ? word : word.slice(0, -1);
}

function step1b(word: string): string {
  let rest: string;
  if (longerEndsWith(word, "eed")) return measure(word.slice(0, -3)) ? word.slice(0, -1) : word;
  if (longerEndsWith(word, "ed")) rest = word.slice(0, -2);
  else if (longerEndsWith(word, "ing")) rest = word.slice(0, -3);
  else return word;
  if (!hasVowel(rest)) return word;
  if (["at", "bl", "iz"].some((suffix) => longerEndsWith(rest, suffix))) return `${rest}e`;
  const last = fromEnd(rest)!;
  if (!isVowel(last, false) && !"lsz".includes(last) && last === fromEnd(rest, 2)) {
    return rest.slice(0, -1);
  }
  return measure(rest) === 1 && endsShort(rest) ? `${rest}e` : rest;
}

function replace(word: string, rules: Readonly<Record<string, readonly Rule[]>>): string {
  for (const [suffix, replacement] of rules[fromEnd(word, 2) ?? ""] ?? []) {
    if (!longerEndsWith(word, suffix)) continue;
    const rest = word.slice(0, -suffix.length);
    return measure(rest) ? rest + replacement : word;
  }
  return word;
}

function step4(word: string): string {
  for (const suffix of STEP_4[fromEnd(word, 2) ?? ""] ?? []) {
    if (!longerEndsWith(word, suffix)) continue;
    const rest = word.slice(0, -suffix.length);
    const goes = measure(rest) > 1 && (suffix !== "ion" || "st".includes(fromEnd(rest)!));
    return goes ? rest : word;
  }
  return word;
}

function longerEndsWith(word: string, suffix: string): boolean {
  return word.length > suffix.length && word.endsWith(suffix);
}

function isVowel(letter: string, yIsVowel: boolean): boolean {
  switch (letter) {
    case "a":
    case "e":
    case "i":
    case "o":
    case "u":
      return true;
    default:
      return yIsVowel && letter === "y";
  }
}

/** Porter's *v*: whether there is a vowel. */
function hasVowel(word: string): boolean {
  for (let i = 0; i < word.length; i++) if (isVowel(word[i]!, i > 0)) return true;
  return false;
}

/** Porter's m, the number of vowel-consonant sequences: 0, 1 or 2 for 2 and more. */
function measure(word: string): number {
  let sequences = 0;
  let consonant = false;
  let vowelSeen = false;
  for (let i = 0; i < word.length; i++) {
    consonant = !isVowel(word[i]!, consonant);
    if (!consonant) vowelSeen = true;
    else if (vowelSeen) {
      if (++sequences === 2) return 2;
      vowelSeen = false;
    }
  }
  return sequences;
}

/** Porter's *o: the end is consonant, vowel, consonant, and the last none of w, x and y. */
function endsShort(word: string): boolean {
  if ("wxy".includes(fromEnd(word) ?? "")) return false;
  let pattern = 0;
  let consonant = false;
  for (let i = 0; i < word.length; i++) {
    consonant = !isVowel(word[i]!, consonant);
    pattern = (pattern << 1) | (consonant ? 1 : 0);
  }
  return (pattern & 7) === 5;
}
