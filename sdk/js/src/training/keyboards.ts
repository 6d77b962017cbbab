/**
 * Which keys lie beside a key, for the keyboards of several scripts: Python's
 * `client/views/keyboards.py`.
 *
 * A layout is three rows of keys; a blank is a key that types nothing we use. Keys are one unit wide
 * and the rows are shifted as on a physical board, so two keys are neighbours when they touch.
 */

import { MARKS } from "../tokenizer/unicode_classes.js";

const ROW_SHIFTS = [0, 0.25, 0.75];

// The first layout that has a character decides; the national variants stand after their script's
// common board and so only add letters it lacks. Shift levels are layouts of their own.
const LAYOUTS: readonly (readonly string[])[] = [
  ["qwertyuiop", "asdfghjkl", "zxcvbnm"],
  ["qwertzuiopü", "asdfghjklöä", "yxcvbnmß"], // German
  ["qwertyuiopå", "asdfghjkløæ", "zxcvbnm"], // Nordic
  ["qwertyuıopğü", "asdfghjklşi", "zxcvbnmöç"], // Turkish
  ["qwertyuiop", "asdfghjklñç", "zxcvbnm"], // Spanish, Portuguese
  ["йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю"], // Russian
  ["йцукенгшщзхї", "фівапролджєґ", "ячсмитьбю"], // Ukrainian
  [" ςερτυθιοπ", "ασδφγηξκλ", "ζχψωβνμ"], // Greek
  ["  קראטוןםפ", "שדגכעיחלךף", "זסבהנמצתץ"], // Hebrew
  ["ضصثقفغعهخحجد", "شسيبلاتنمكط", "ئءؤر ىةوزظ"], // Arabic
  ["ضصثقفغعهخحجچ", "شسیبلاتنمکگ", "ظطزرذدپو"], // Persian
  ["ौैाीूबहगदजड", "ोे्िुपरकतचट", " ंमनवलस  य"], // Devanagari, InScript
  ["औऐआईऊभङघधझढञ", "ओएअइउफऱखथछठ", " ँणऩऴळशष"], // the same with shift
  ["ㅂㅈㄷㄱㅅㅛㅕㅑㅐㅔ", "ㅁㄴㅇㄹㅎㅗㅓㅏㅣ", "ㅋㅌㅊㅍㅠㅜㅡ"], // Korean, two-set
  ["ㅃㅉㄸㄲㅆㅛㅕㅑㅒㅖ", "ㅁㄴㅇㄹㅎㅗㅓㅏㅣ", "ㅋㅌㅊㅍㅠㅜㅡ"], // the same with shift
];

let board: ReadonlyMap<string, string> | null = null;

/**
 * The characters on the keys around `character`'s key, in its case; "" if it has no key.
 *
 * An accented letter without a key of its own stands where its base letter stands. Letters have
 * letters as neighbours and combining marks marks, so a replacement never leaves a mark alone.
 */
export function neighbours(character: string): string {
  board ??= made();
  const lower = character.toLowerCase();
  const base = Array.from(lower.normalize("NFD"))[0] ?? "";
  const found = board.get(lower) || (board.get(base) ?? "");
  if (character === lower) return found;
  const capitals = Array.from(found, (key) => key.toUpperCase());
  return capitals.filter((key) => Array.from(key).length === 1).join("");
}

function made(): Map<string, string> {
  const keys = new Map<string, string>();
  for (const layout of LAYOUTS) {
    const placed = layout.flatMap((row, y) =>
      Array.from(row, (key, column) => ({ key, x: column + (ROW_SHIFTS[y] ?? 0), y })),
    ).filter(({ key }) => key !== " ");
    for (const { key, x, y } of placed) {
      if (keys.has(key)) continue;
      const near = placed.filter(
        (other) => other.key !== key && touch(x - other.x, y - other.y) && isMark(other.key) === isMark(key),
      );
      keys.set(key, near.map((other) => other.key).join(""));
    }
  }
  return keys;
}

function touch(across: number, down: number): boolean {
  return down === 0 ? Math.abs(across) <= 1 : Math.abs(down) === 1 && Math.abs(across) < 1;
}

/** Every key is a letter or a combining mark. */
function isMark(key: string): boolean {
  return Array.from(key).some((character) => MARKS.begins(character));
}
