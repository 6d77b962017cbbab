/** What engines without Array.prototype.at (Hermes) lack. */

/** The last item of a list or text, or the `place`th from its end; undefined where there is none. */
export function fromEnd<T>(list: ArrayLike<T>, place = 1): T | undefined {
  return list[list.length - place];
}
