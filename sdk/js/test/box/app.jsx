/** A search box over an index on the device; its answers wait for the test where it says so. */
import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";
import { MemoryChanges, openIndex, snippet } from "pocketquery/index";
import { useSearch } from "pocketquery/react";

const encoder = { spaceId: "space", dimension: 4, encodeQuery: () => new Float32Array(4).fill(1) };
const notes = await openIndex(null, { encoder, changes: new MemoryChanges() });
const add = (id, text) => notes.add([{ id, text }], [new Float32Array(4).fill(1)]);
const [asked, shown, waiting] = [[], [], []];
let isHeld = false;

/** The index, whose searches are noted, and wait. */
const index = {
  async search(query, options) {
    asked.push(query);
    if (query === "broken") options = { k: 0 };
    if (isHeld) await new Promise((resolve) => waiting.push(resolve));
    return notes.search(query, options);
  },
  onChange: (listener) => notes.onChange(listener),
};

/** What is shown of the hits: their snippets. */
const snippets = (hits, query) =>
  Promise.all(hits.map(async (hit) => ({ id: hit.id, ...(await snippet(notes, hit, query, { prefix: true })) })));

function Marked({ text, marks }) {
  let done = 0;
  const parts = marks.flatMap(([start, stop]) => {
    const before = text.slice(done, start);
    done = stop;
    return [before, <mark key={start}>{text.slice(start, stop)}</mark>];
  });
  return <>{parts}{text.slice(done)}</>;
}

function Box() {
  const [query, setQuery] = useState("");
  const [opened, setOpened] = useState(null);
  window.page = { add, asked, shown, hold: (is) => (isHeld = is), release: () => waiting.splice(0).forEach((go) => go()), open: () => setOpened(index) };
  const { hits, isLoading, isEmpty, error } = useSearch(opened, query, { mode: "lexical", k: 5 }, snippets);
  shown.push(`${query}: ${hits.map(({ id }) => id)}${isLoading ? " loading" : ""}${isEmpty ? " empty" : ""}`);
  return (
    <>
      <input value={query} onChange={(event) => setQuery(event.target.value)} />
      <p id="status">{isLoading ? "loading" : error ? `error: ${error.message}` : isEmpty ? "nothing found" : `${hits.length} found`}</p>
      <ul>{hits.map((hit) => <li key={hit.id}><Marked {...hit} /></li>)}</ul>
    </>
  );
}

await add("oslo", "The train to Oslo leaves at eight.");
await add("tram", "The tram stops here.");
createRoot(document.getElementById("root")).render(<StrictMode><Box /></StrictMode>);
