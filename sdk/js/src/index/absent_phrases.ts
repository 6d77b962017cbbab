/** What a search passed over in a query. */
import { checkText } from "../texts.js";
import type { Contents } from "./contents.js";

/**
 * How many phrases in quotes of `query` no document has: a search looks for their words alone.
 *
 *     if (await absentPhrases(index, query)) say("No text has the words in quotes as they stand.");
 *
 * @throws InvalidInputError no text
 */
export async function absentPhrases(index: { readonly state: Contents }, query: string): Promise<number> {
  const { state } = index;
  const asked = await state.analyzer.query(checkText(query, "the query"));
  return asked.phrases.length - (await state.withoutAbsent(asked)).phrases.length;
}
