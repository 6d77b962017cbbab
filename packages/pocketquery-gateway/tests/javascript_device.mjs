/**
 * A device in JavaScript that takes part in rounds through a gateway; test_javascript.py starts it.
 *
 *     node javascript_device.mjs '{"package": ..., "gateway": ..., "bundle": ..., "index": ...,
 *         "state": ..., "queries": [...], "publicKey": ..., "rounds": 2, "dies": "before the update"}'
 *
 * It prints a JSON object: what came of the rounds, and vectors before and after. Where "dies" is
 * given, it ends at that moment as a phone does that runs out of power; "diesAt" is another request
 * than "/update". With "private" ("certificate", "authority", "rules", "now") it is enrolled.
 */

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const settings = JSON.parse(process.argv[2]);
const imported = (name) => import(pathToFileURL(join(settings.package, "dist", name)).href);
const { FileBackend, FolderPlace, FolderSource, load } = await imported("node.js");
const { ALWAYS_POLICY, Device, GatewayConnection, Participation, TrustedReleases } = await imported("gateway.js");
const { openIndex } = await imported("index/index.js");
const { Bundle, LocalStep } = await imported("training.js");
const { QueryStore } = await imported("store.js");
const onnxruntime = createRequire(join(settings.package, "package.json"))("onnxruntime-node");

const { publicKey } = settings;
const bundle = await Bundle.open(new FolderSource(settings.bundle));
const encoder = await load(settings.bundle); // with the publisher's adapter, whatever is released
const searching = await load(settings.bundle);
const index = await openIndex(new FolderSource(settings.index), { encoder });
const step = await LocalStep.open(bundle, { onnxruntime });
const store = await QueryStore.open(new FileBackend(join(settings.state, "queries.json")));
if ((await store.size()) === 0) {
  await store.giveConsent();
  for (const query of settings.queries) await store.add(query);
}

const place = new FolderPlace(settings.state);
const { diesAt = "/update" } = settings;
const died = (init, path) => init.method === "PUT" && path.endsWith(diesAt);
const connection = new GatewayConnection(settings.gateway, await place.signer(), {
  fetch: async (address, init) => {
    if (settings.dies === "before the update" && died(init, address)) process.kill(process.pid, "SIGKILL");
    const response = await fetch(address, init);
    if (settings.dies === "after the update" && died(init, address)) process.kill(process.pid, "SIGKILL");
    return response;
  },
  ...(settings.private && { sleep: () => new Promise((done) => setTimeout(done, 50)), attempts: 200 }),
});
const releases = await TrustedReleases.open(place, { publicKey });
const participation = new Participation(connection, place);
const device = new Device({
  encoder,
  step,
  documents: index.vectors(),
  manifest: bundle.manifest,
  store,
  releases,
  policy: ALWAYS_POLICY,
  limits: settings.limits,
});

async function participantOf({ certificate, authority, rules, now }) {
  const { Participant } = await imported("secure/secure.js");
  const bytes = Uint8Array.from(Buffer.from(certificate, "hex"));
  return Participant.open({ device, store, place, certificate: bytes, authority, rules, clock: () => now });
}

const answering = settings.private ? await participantOf(settings.private) : device;
const outcomes = [];
const before = await searching.encodeQuery(settings.queries[0]);
const last = settings.rounds - 1;
while (!outcomes.some(({ what, round }) => ["accepted", "declined"].includes(what) && round === last)) {
  const { what, detail, round } = await participation.takePart(answering);
  if (what === "idle") await new Promise((done) => setTimeout(done, 50));
  else outcomes.push({ what, detail, round });
}
let release = await participation.kept(bundle.manifest, releases);
while (release?.version !== settings.version) {
  release = (await participation.refresh(bundle.manifest, releases)) ?? release;
  await new Promise((done) => setTimeout(done, 50));
}
await searching.swapAdapter(release);
const again = await participation.refresh(bundle.manifest, releases); // nothing is new
const after = await searching.encodeQuery(settings.queries[0]);
const told = { outcomes, sha256: release.sha256, signedBy: release.signedBy, version: searching.version };
console.log(JSON.stringify({ ...told, again, before: [...before], after: [...after], key: [...connection.publicKey] }));
