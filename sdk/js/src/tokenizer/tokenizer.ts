/** What every tokenizer does. */

/** Text to ids. */
export interface Tokenizer {
  /** The rows an embedding table needs. */
  readonly vocabularySize: number;
  /** The id of what cannot be spelled. */
  readonly unknownId: number;
  /** The ids of `text`, special tokens added, cut to the maximum length. */
  encode(text: string): number[];
  /** The pieces with these ids; throws InvalidInputError where an id is not in the vocabulary. */
  tokens(ids: Iterable<number>): string[];
}
