/** One answer at a time: of all tabs of a site where it has locks, else of this program. */

const turns = new Map<string, Promise<unknown>>();

/** Do `work` while nobody else does any under this `name`: two answers could charge a ledger once. */
export async function exclusively<T>(name: string, work: () => Promise<T>): Promise<T> {
  const locks = globalThis.navigator?.locks as LockManager | undefined;
  if (locks !== undefined) return locks.request(`pocketquery ${name}`, work);
  const turn = (turns.get(name) ?? Promise.resolve()).then(work);
  const over = turn.catch(() => undefined);
  turns.set(name, over);
  void over.then(() => turns.get(name) === over && turns.delete(name));
  return turn;
}
