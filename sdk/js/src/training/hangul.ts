/**
 * Korean syllables as the keys that type them, and back: Python's `client/views/hangul.py`.
 *
 * Arithmetic of the blocks: The Unicode Standard, section 3.12, "Conjoining Jamo Behavior".
 */

const FIRST = 0xac00;
const INITIALS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ";
const VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ";
const FINALS = " ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ";
const PARTS: ReadonlyMap<string, string> = new Map(
  "ㅘㅗㅏ ㅙㅗㅐ ㅚㅗㅣ ㅝㅜㅓ ㅞㅜㅔ ㅟㅜㅣ ㅢㅡㅣ ㄳㄱㅅ ㄵㄴㅈ ㄶㄴㅎ ㄺㄹㄱ ㄻㄹㅁ ㄼㄹㅂ ㄽㄹㅅ ㄾㄹㅌ ㄿㄹㅍ ㅀㄹㅎ ㅄㅂㅅ"
    .split(" ")
    .map((entry) => [entry.charAt(0), entry.slice(1)]),
);
const WHOLES: ReadonlyMap<string, string> = new Map([...PARTS].map(([whole, keys]) => [keys, whole]));

/** Whether `character` is one of the 11,172 precomposed syllable blocks. */
export function isSyllable(character: string): boolean {
  return character >= "\uac00" && character <= "\ud7a3";
}

/** The letters typed for one syllable block: "\ud759" gives four. */
export function keystrokes(syllable: string): string[] {
  const code = syllable.charCodeAt(0) - FIRST;
  const rest = Math.floor(code / FINALS.length);
  const letters = [
    INITIALS.charAt(Math.floor(rest / VOWELS.length)),
    VOWELS.charAt(rest % VOWELS.length),
    FINALS.charAt(code % FINALS.length).trim(),
  ];
  return letters.flatMap((letter) => [...(PARTS.get(letter) ?? letter)]);
}

/** What an input method shows for `keys`: blocks, and the letters that fit in none. */
export function compose(keys: readonly string[]): string {
  let shown = "";
  let at = 0;
  while (at < keys.length) {
    const key = keys[at] as string;
    const next = keys[at + 1];
    if (!has(INITIALS, key) || next === undefined || !has(VOWELS, next)) {
      shown += key;
      at += 1;
      continue;
    }
    const pair = WHOLES.get(next + (keys[at + 2] ?? "")) ?? "";
    const vowel = pair !== "" && has(VOWELS, pair) ? pair : next;
    at += vowel === next ? 2 : 3;
    const [final, end] = finalAt(keys, at);
    at = end;
    const block = INITIALS.indexOf(key) * VOWELS.length + VOWELS.indexOf(vowel);
    shown += String.fromCharCode(FIRST + block * FINALS.length + FINALS.indexOf(final || " "));
  }
  return shown;
}

/** The closing consonants at `at`; one that a vowel follows opens the next block instead. */
function finalAt(keys: readonly string[], at: number): [string, number] {
  for (const length of [2, 1]) {
    const typed = keys.slice(at, at + length).join("");
    const letter = length === 2 ? (WHOLES.get(typed) ?? "") : typed;
    const following = keys[at + length];
    const beforeVowel = following !== undefined && has(VOWELS, following);
    if (letter && FINALS.includes(letter) && !beforeVowel) return [letter, at + length];
  }
  return ["", at];
}

function has(letters: string, letter: string): boolean {
  return letters.includes(letter);
}
