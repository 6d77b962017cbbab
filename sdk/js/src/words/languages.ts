/** Where a language's stemmer comes from: a file of its own, so that a page loads those it needs. */
import { STEMMERS } from "./stemmers/stemmers.js";

/** Brings a stemmer's program, as JSON. */
export type LoadProgram = (language: string) => Promise<string>;

/** From this package. Throws what importing a module throws where its file is missing. */
export const loadProgram: LoadProgram = async (language) => (await STEMMERS[language]!()).program;
