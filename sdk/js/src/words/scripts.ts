/** Which scripts a text is in, and whether languages are written in them; Python's `languages/scripts.py`. */
import { chunksOf } from "../python_text.js";

// First and last code points of each script's letters, signs and digits (ISO 15924). "Viet" are the
// Latin letters of Vietnamese that hardly another language has: every second word has one.
export const RANGES = `
Latn 41-5A 61-7A AA-AA BA-BA C0-D6 D8-F6 F8-19F 1A2-1AE 1B1-24F 1E00-1E9F 1EFA-1EFF 2C60-2C7F
Latn A720-A7FF AB30-AB64 FF21-FF3A FF41-FF5A
Viet 1A0-1A1 1AF-1B0 1EA0-1EF9
Grek 370-373 376-377 37B-37D 37F-37F 386-386 388-3E1 3F0-3FF 1F00-1FFF
Cyrl 400-52F 1C80-1C8F 2DE0-2DFF A640-A69F
Armn 531-556 560-588 FB13-FB17
Hebr 591-5F4 FB1D-FB4F
Arab 610-61A 620-6FF 750-77F 870-8FF FB50-FDFF FE70-FEFC
Syrc 700-74F
Thaa 780-7BF
Deva 900-963 966-97F A8E0-A8FF
Beng 980-9FF
Guru A00-A7F
Gujr A80-AFF
Orya B00-B7F
Taml B80-BFF
Telu C00-C7F
Knda C80-CFF
Mlym D00-D7F
Sinh D80-DFF
Thai E01-E3A E40-E4E E50-E59
Laoo E80-EFF
Tibt F00-FFF
Mymr 1000-109F A9E0-A9FE AA60-AA7F
Geor 10A0-10FF 1C90-1CBF 2D00-2D2F
Hang 1100-11FF 3130-318F A960-A97F AC00-D7FF FFA0-FFDC
Ethi 1200-139F 2D80-2DDF AB00-AB2F
Cher 13A0-13FF AB70-ABBF
Khmr 1780-17FF 19E0-19FF
Mong 1800-18AF
Kana 3041-3096 309D-309F 30A1-30FA 30FC-30FF 31F0-31FF FF66-FF9F 1B000-1B16F
Hani 2E80-2FDF 3005-3007 3021-3029 3038-303B 3400-4DBF 4E00-9FFF F900-FAFF 20000-3FFFF
`;
// Languages by script; all read Latin letters, so no row is for these.
export const WRITTEN = `
Viet vi yo ig
Grek el
Cyrl ab ba be bg ce cv kk ky mk mn os ru sah sr tg tt uk
Armn hy
Hebr he yi
Arab ar ckb fa ps sd ug ur
Syrc syr
Thaa dv
Deva bho hi mai mr ne sa
Beng as bn
Guru pa
Gujr gu
Orya or
Taml ta
Telu te
Knda kn
Mlym ml
Sinh si
Thai th
Laoo lo
Tibt bo dz
Mymr my
Geor ka
Hang ko
Ethi am ti
Cher chr
Khmr km
Kana ja
Hani ja yue zh
`;
const UNREAD_SHARE = 4; // of a text's letters one in so many
const MOST_READ = 1000; // characters of a text

const rows = (table: string): string[][] => table.trim().split("\n").map((row) => row.split(" "));

let table: { readonly first: number; readonly last: number; readonly name: string }[] | undefined;
const scriptsByPoint = new Map<number, string>();

function scriptOf(point: number): string {
  const known = scriptsByPoint.get(point);
  if (known !== undefined) return known;
  table ??= rows(RANGES).flatMap(([name, ...ranges]) =>
    ranges.map((range) => {
      const [first, last] = range.split("-").map((hex) => parseInt(hex, 16));
      return { first: first!, last: last!, name: name! };
    }),
  );
  const name = table.find(({ first, last }) => first <= point && point <= last)?.name ?? "";
  if (scriptsByPoint.size < 1 << 14) scriptsByPoint.set(point, name);
  return name;
}

/** The scripts that an encoder of these languages reads: theirs, and Latin letters, which every tokenizer has. */
export function scriptsOf(languages: readonly string[]): Set<string> {
  const codes = languages.map(baseOf);
  const read = rows(WRITTEN).filter(([, ...written]) => written.some((code) => codes.includes(code)));
  return new Set(["Latn", ...read.map(([name]) => name!)]);
}

function baseOf(code: string): string {
  const base = code.toLowerCase().split(/[-_]/)[0]!;
  return base === "nb" || base === "nn" ? "no" : base;
}

/**
 * Whether a quarter of the letters of `text` are in words that no language of these writes.
 *
 * Such a word, between blanks, has more than half of its letters in scripts of others, or one that only
 * Vietnamese has.
 */
export function hasUnreadLetters(text: string, languages: readonly string[]): boolean {
  const scripts = scriptsOf(languages);
  let [letters, unread] = [0, 0];
  for (const word of chunksOf(Array.from(text).slice(0, MOST_READ).join("").normalize("NFC"))) {
    let [count, strange, isVietnamese] = [0, 0, false];
    for (const character of word) {
      const name = scriptOf(character.codePointAt(0)!);
      if (name === "") continue;
      count++;
      if (!scripts.has(name)) strange++;
      if (name === "Viet") isVietnamese = true;
    }
    letters += count;
    if (2 * strange > count || (isVietnamese && !scripts.has("Viet"))) unread += count;
  }
  return letters > 0 && UNREAD_SHARE * unread >= letters;
}
