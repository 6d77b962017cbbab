/**
 * Text as thumbs type it: letters dropped, doubled, swapped or hit on the key beside: Python's
 * `client/views/typing_noise.py`. Equal states of the generator give equal texts on both sides, as
 * far as both know the characters.
 */

import { fromEnd } from "../platform/lists.js";
import { InvalidInputError } from "../errors.js";
import { isBlank } from "../python_text.js";
import { checkText } from "../texts.js";
import { LETTERS, MARKS } from "../tokenizer/unicode_classes.js";
import { compose, isSyllable, keystrokes } from "./hangul.js";
import { neighbours } from "./keyboards.js";
import type { Random } from "./random.js";

/** A mistyped letter, and how many of the letter and the one after it that stands for. */
type Slip = readonly [typed: string, used: number];

/**
 * Mistype each letter of `text` with probability `rate`.
 *
 * A mistyped letter is dropped, doubled, swapped with the letter after it, or replaced by a neighbour
 * on the keyboard of its script, in equal shares among those that are possible there. A letter
 * carries its combining marks along, a Korean syllable is mistyped in one of its keystrokes, and
 * nothing but letters is touched. If nothing visible would be left, `text` comes back as it was.
 *
 * Throws InvalidInputError: `text` is no text, or `rate` no share.
 */
export function mistype(text: string, rate: number, random: Random): string {
  checkText(text);
  if (!(rate >= 0 && rate <= 1)) {
    throw new InvalidInputError(
      `rate is ${String(rate)}; expected a share of letters between 0 and 1`,
    );
  }
  const letters = lettersOf(text);
  let typed = "";
  let at = 0;
  while (at < letters.length) {
    const letter = letters[at] as string;
    if (!LETTERS.begins(letter) || random.random() >= rate) {
      typed += letter;
      at++;
      continue;
    }
    const [slip, used] = slipOf(letter, letters[at + 1] ?? "", random);
    typed += slip;
    at += used;
  }
  return isBlank(typed) ? text : typed;
}

/** `text` cut into characters, combining marks kept with the letter before them. */
function lettersOf(text: string): string[] {
  const letters: string[] = [];
  for (const character of text) {
    const before = fromEnd(letters);
    if (before !== undefined && MARKS.begins(character) && LETTERS.begins(before)) {
      letters[letters.length - 1] = before + character;
    } else {
      letters.push(character);
    }
  }
  return letters;
}

function slipOf(letter: string, following: string, random: Random): Slip {
  if (isSyllable(letter)) return [slipInSyllable(letter, random), 1];
  const slips: Slip[] = [
    ["", 1],
    [(Array.from(letter)[0] ?? "") + letter, 1],
  ];
  if (LETTERS.begins(following) && following !== letter) slips.push([following + letter, 2]);
  const replaced = beside(letter, random);
  if (replaced) slips.push([replaced, 1]);
  return random.choice(slips);
}

/** `letter` with its base or one of its marks hit on the key beside; "" if none can. */
function beside(letter: string, random: Random): string {
  const characters = Array.from(letter);
  const places = [...characters.keys()].filter((i) => neighbours(characters[i] ?? ""));
  if (!places.length) return "";
  const place = random.choice(places);
  characters[place] = random.choice(Array.from(neighbours(characters[place] ?? "")));
  return characters.join("");
}

/** A Korean syllable (and marks after it, which hardly occur) with one keystroke mistyped. */
function slipInSyllable(letter: string, random: Random): string {
  const keys = keystrokes(letter);
  const at = random.below(keys.length);
  const [slip, used] = slipOf(keys[at] as string, keys[at + 1] ?? "", random);
  return compose([...keys.slice(0, at), ...slip, ...keys.slice(at + used)]) + letter.slice(1);
}
