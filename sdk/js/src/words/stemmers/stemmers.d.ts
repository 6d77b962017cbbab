/** Snowball's stemmers by language, each in a file of its own; written by scripts/words/stemmers.py. */
export declare const STEMMERS: Readonly<Record<string, () => Promise<{ readonly program: string }>>>;
