/**
 * What the user searched for and opened, kept by consent, for local training:
 *
 *     const store = await QueryStore.open(new IndexedDbBackend());
 *     await store.giveConsent(); // when the user says so
 *     await store.add(query, hits.map(({ id }) => id), opened);
 *
 * In Node, `FileBackend` of `pocketquery/node` keeps it in a file.
 */

export {
  type Change,
  type Kept,
  MemoryBackend,
  type Row,
  type StoreBackend,
  type StoreState,
} from "./store/backend.js";
export { distinct, type Example } from "./store/example.js";
export { IndexedDbBackend } from "./store/indexed_db.js";
export { type Exported, QueryStore, type StoreOptions } from "./store/store.js";
