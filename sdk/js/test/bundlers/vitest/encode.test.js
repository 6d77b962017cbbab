import { MemoryChanges, openIndex } from "pocketquery/index";
import { load } from "pocketquery/node";
import { expect, test } from "vitest";

test("in Vitest", async () => {
  const encoder = await load();
  const index = await openIndex(null, { encoder, changes: new MemoryChanges() });
  await index.add([{ id: "sea", text: "The sea was calm." }, { id: "refund", text: "Money back within thirty days." }]);
  expect((await index.search("how do I get a refund"))[0].id).toBe("refund");
});
