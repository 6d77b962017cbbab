/**
 * Views of a query for directional self-supervision: clean and noisy, or light and heavy pairs;
 * Python's `client/views/views.py`, with the augmenters that need no tables: typo, unfinished,
 * noise_case, dropout_view. An app brings others as objects.
 *
 * Two views are the query itself and a noisy one. Four are two light ones, which are targets as well,
 * and two heavy ones, each derived from its light one.
 */

import { fromEnd } from "../platform/lists.js";
import { InvalidInputError } from "../errors.js";
import { isBlank, repr, stripped } from "../python_text.js";
import { checkText } from "../texts.js";
import { compose, isSyllable, keystrokes } from "./hangul.js";
import type { Random } from "./random.js";
import { mistype } from "./typing_noise.js";
import { LETTERS, LOWERCASE, MARKS, NUMBERS, UPPERCASE } from "../tokenizer/unicode_classes.js";

/** What makes views of queries. Equal generators give equal views. */
export interface Augmenter {
  readonly name: string;
  /** A light view keeps the meaning, a heavy one may damage it; only light ones may be targets. */
  readonly strength: "light" | "heavy";
  /** `text` rewritten; a blank result is taken for "could not". */
  rewrite(text: string, random: Random): string;
}

/** Which views are made of a query, and how. */
export interface ViewPlan {
  readonly views: 2 | 4;
  readonly heavy: readonly Augmenter[];
  readonly light: readonly Augmenter[];
}

const JOINER = "\u200d";

/** Each letter mistyped with probability `rate`. */
export function typo(rate = 0.08): Augmenter {
  if (!(rate >= 0 && rate <= 1)) {
    throw new InvalidInputError(`rate is ${String(rate)}, expected a share between 0 and 1`);
  }
  return { name: "typo", strength: "heavy", rewrite: (text, random) => mistype(text, rate, random) };
}

/** The query as far as it was typed when somebody looked: at least the share `least` of its keys. */
export function unfinished(least = 0.4): Augmenter {
  if (!(least >= 0 && least <= 1)) {
    throw new InvalidInputError(`least is ${String(least)}, expected a share between 0 and 1`);
  }
  const rewrite = (text: string, random: Random): string => {
    const characters = pieces(stripped(text));
    const total = characters.reduce((sum, character) => sum + strokes(character).length, 0);
    if (total < 2) return text;
    const fewest = Math.min(Math.max(1, Math.ceil(least * total)), total - 1);
    let left = random.between(fewest, total - 1);
    let typed = "";
    for (const character of characters) {
      const keys = strokes(character);
      typed += left >= keys.length ? character : compose(keys.slice(0, left));
      left = Math.max(left - keys.length, 0);
    }
    return stripped(typed, "end");
  };
  return { name: "unfinished", strength: "heavy", rewrite };
}

/** Other letter case: all small, all capitals, first letter or first letters capital. */
export const noiseCase: Augmenter = {
  name: "noise_case",
  strength: "light",
  rewrite: (text, random) => {
    const characters = Array.from(text);
    const small = characters.map((character) => mapped(character, character.toLowerCase()));
    const capital = characters.map((character) => mapped(character, character.toUpperCase()));
    const first = characters.findIndex((_, i) => small[i] !== capital[i]);
    const starts = characters.map((_, i) => i === 0 || !isOfWord(characters[i - 1] ?? ""));
    const styles = [
      small.join(""),
      capital.join(""),
      small.map((character, i) => (i === first ? capital[i] : character)).join(""),
      small.map((character, i) => (starts[i] ? capital[i] : character)).join(""),
    ];
    const others = [...new Set(styles)].filter((style) => style !== text);
    return others.length ? random.choice(others) : text;
  },
};

function isOfWord(character: string): boolean {
  return LETTERS.begins(character) || NUMBERS.begins(character);
}

/** The query itself; the other network makes it a view. */
export const dropoutView: Augmenter = {
  name: "dropout_view",
  strength: "light",
  rewrite: (text) => text,
};

const BUILT_IN: Readonly<Record<string, (typoRate: number) => Augmenter>> = {
  typo: (rate) => typo(rate),
  unfinished: () => unfinished(),
  noise_case: () => noiseCase,
  dropout_view: () => dropoutView,
};

/** The augmenter that `choice` names; one that is given is taken as it is. */
export function chosen(choice: string | Augmenter, typoRate: number): Augmenter {
  if (typeof choice === "object" && choice !== null) return choice;
  if (!Object.hasOwn(BUILT_IN, choice)) {
    const shown = typeof choice === "string" ? repr(choice) : String(choice);
    throw new InvalidInputError(
      `found the augmenter ${shown}, expected one of ${Object.keys(BUILT_IN).sort().join(", ")}`,
    );
  }
  return (BUILT_IN[choice] as (rate: number) => Augmenter)(typoRate);
}

/** A plan whose light augmenters are light. Throws InvalidInputError. */
export function viewPlan(plan: ViewPlan): ViewPlan {
  for (const place of ["heavy", "light"] as const) {
    if (!plan[place].length) {
      throw new InvalidInputError(`${place} is empty, expected an augmenter or more`);
    }
  }
  const wrong = plan.light.find(({ strength }) => strength !== "light");
  if (wrong) {
    throw new InvalidInputError(
      `'${wrong.name}' is ${wrong.strength}, expected a light augmenter: light views are targets ` +
        "and must keep the meaning. Move it to heavy",
    );
  }
  return plan;
}

/** Views of a query: (clean, noisy), or (light 1, light 2, heavy of 1, heavy of 2). */
export function makeViews(text: string, random: Random, plan: ViewPlan): string[] {
  checkText(text, "the query");
  if (plan.views === 2) return [text, view(text, random, plan.heavy)];
  const light = [view(text, random, plan.light), view(text, random, plan.light)];
  return [...light, ...light.map((source) => view(source, random, plan.heavy))];
}

function view(text: string, random: Random, augmenters: readonly Augmenter[]): string {
  const made = random.choice(augmenters).rewrite(text, random);
  return isBlank(made) ? text : checkText(made, "a view");
}

/** `text` cut into characters, each with the marks on it and what a joiner ties to it. */
function pieces(text: string): string[] {
  const found: string[] = [];
  for (const character of text) {
    const before = fromEnd(found) ?? "";
    const tied =
      before !== "" && (MARKS.begins(character) || character === JOINER || before.endsWith(JOINER));
    if (tied && !isBlank(before) && !isBlank(character)) found[found.length - 1] = before + character;
    else found.push(character);
  }
  return found;
}

/** The keystrokes of a Korean syllable; anything else is one. */
function strokes(character: string): string[] {
  return character.length === 1 && isSyllable(character) ? keystrokes(character) : [character];
}

/** `changed`, another case of `character`, where that comes back from it. */
function mapped(character: string, changed: string): string {
  if (Array.from(changed).length !== 1) return character;
  const swapped = UPPERCASE.begins(changed)
    ? changed.toLowerCase()
    : LOWERCASE.begins(changed)
      ? changed.toUpperCase()
      : changed;
  return swapped === character ? changed : character;
}
