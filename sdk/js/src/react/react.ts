/**
 * A search box in React: what is found for what was typed last.
 *
 *     const { hits, isLoading, isEmpty, error } = useSearch(index, query, { k: 5 });
 */
import { useEffect, useRef, useState } from "react";
import type { Hit, SearchOptions } from "../index/index.js";

/** An `Index` or a `WorkerIndex`. */
export interface Searchable {
  search(query: string, options?: SearchOptions): Promise<Hit[]>;
  onChange?(listener: () => void): () => void;
}

/** What to show. */
export interface Found<T> {
  /** Of the last query that was answered, also while another is searched for. */
  readonly hits: readonly T[];
  readonly isLoading: boolean;
  /** Nothing was found for what stands there now. */
  readonly isEmpty: boolean;
  readonly error: Error | null;
}

const NOTHING = { asked: "", hits: [], error: null };

/**
 * Search as somebody types. Answers to what was typed before are dropped, and of what was typed while something was
 * searched for only the last is searched for; so no time has to pass between letters. What is added or deleted, in
 * another tab too, is searched for again.
 *
 * @param index null until it is open
 * @param query as typed: its last word may be unfinished; blank or signs alone find nothing
 * @param options as `search`'s; may be made anew at each call
 * @param show what to show of the hits, with snippets for instance; by default the hits
 */
export function useSearch<T = Hit>(
  index: Searchable | null,
  query: string,
  options: SearchOptions = {},
  show: (hits: Hit[], query: string) => readonly T[] | Promise<readonly T[]> = (hits) => hits as T[],
): Found<T> {
  const [found, setFound] = useState<{ asked: string; hits: readonly T[]; error: Error | null }>(NOTHING);
  const [changes, setChanges] = useState(0);
  const before = useRef<Promise<void>>(Promise.resolve());
  const latest = useRef({ options, show });
  useEffect(() => void (latest.current = { options, show }));
  useEffect(() => index?.onChange?.(() => setChanges((count) => count + 1)), [index]);
  const asked = /[^\s+\-"“”„«»‹›]/.test(query) ? JSON.stringify([query, options]) : "";
  useEffect(() => {
    if (index === null || asked === "") return setFound(NOTHING);
    let isStale = false;
    const told = (hits: readonly T[], error: Error | null): void => {
      if (!isStale) setFound({ asked, hits, error });
    };
    const search = async (): Promise<void> => {
      if (isStale) return;
      const { options, show } = latest.current;
      told(await show(await index.search(query, { prefix: true, ...options }), query), null);
    };
    before.current = before.current.then(search).catch((error: Error) => told([], error));
    return () => void (isStale = true);
  }, [index, asked, changes]);
  const { hits, error } = found;
  const isLoading = asked !== found.asked;
  return { hits, isLoading, isEmpty: !isLoading && asked !== "" && error === null && hits.length === 0, error };
}
