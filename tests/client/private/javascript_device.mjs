/**
 * A device in JavaScript in a private round, with a change that is given; test_javascript_devices.py
 * starts it.
 *
 *     node javascript_device.mjs '{"package": ..., "gateway": ..., "state": ..., "authority": ...,
 *         "certificate": ..., "secret": ..., "change": {...}, "rules": {...}, "now": ...,
 *         "dies": ["GET", 3]}'
 *
 * Where "dies" is given, it ends as a phone does that runs out of power: when it got the message of
 * that stage ("GET"), or when its reply is there ("PUT"). It prints what came of the round.
 */

import { join } from "node:path";
import { pathToFileURL } from "node:url";

const settings = JSON.parse(process.argv[2]);
const imported = (name) => import(pathToFileURL(join(settings.package, "dist", name)).href);
const { FileBackend, FolderPlace } = await imported("node.js");
const { GatewayConnection, Participation } = await imported("gateway.js");
const { Participant } = await imported("secure/secure.js");
const { QueryStore } = await imported("store.js");
const fromHex = (digits) => Uint8Array.from(Buffer.from(digits, "hex"));

const store = await QueryStore.open(new FileBackend(join(settings.state, "queries.json")));
await store.giveConsent();
const change = new Map(
  Object.entries(settings.change).map(([name, values]) => {
    return [name, { shape: [values.length], data: Float32Array.from(values) }];
  }),
);
const device = {
  train: async () => ({ epoch: await store.epoch(), change }),
  forgotten: async (epoch) => ((await store.epoch()) === epoch ? null : "the user erased queries"),
};
const place = new FolderPlace(settings.state);
const participant = await Participant.open({
  device,
  store,
  place,
  certificate: fromHex(settings.certificate),
  authority: settings.authority,
  rules: settings.rules,
  clock: () => settings.now,
  drawSecret: () => fromHex(settings.secret),
});
const [method, stage] = settings.dies ?? [];
const connection = new GatewayConnection(settings.gateway, await place.signer(), {
  fetch: async (address, init) => {
    const response = await fetch(address, init);
    const isReply = init.method === "PUT" && String(address).endsWith(`/secure/${stage}`);
    const isMessage = init.method === "GET" && response.headers.get("pocketquery-stage") === String(stage);
    if ((method === "PUT" && isReply) || (method === "GET" && isMessage)) process.kill(process.pid, "SIGKILL");
    return response;
  },
  sleep: () => new Promise((done) => setTimeout(done, 20)),
});
const participation = new Participation(connection, place);
let outcome = await participation.takePart(participant);
while (outcome.what === "idle") {
  await new Promise((done) => setTimeout(done, 20));
  outcome = await participation.takePart(participant);
}
console.log(JSON.stringify(outcome));
