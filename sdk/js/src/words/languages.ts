/** Where a language's stemmer comes from: a file of its own, so that a page loads those it needs. */
import { STEMMERS } from "./stemmers/stemmers.js";

/** What {@link LoadProgram} is asked for beside the languages: for each its common words. */
export const COMMON_WORDS = "common words";

/** Brings a stemmer's program, as JSON. */
export type LoadProgram = (language: string) => Promise<string>;

/** From this package. Throws what importing a module throws where its file is missing. */
export const loadProgram: LoadProgram = async (language) => {
  if (language === COMMON_WORDS) return JSON.stringify((await import("./common_words.js")).COMMON);
  return (await STEMMERS[language]!()).program;
};
