/**
 * One device's private rounds in Node: node secure_round.mjs PACKAGE FILE REPEAT. FILE holds what the
 * server says to it in each stage (private_rounds/javascript.py); printed are the milliseconds of
 * processor time of each round, all threads, and the SHA-256 of its masked change.
 */

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [, , folder, file, repeat] = process.argv;
const from = (path) => import(pathToFileURL(join(folder, "dist", path)).href);
const { MemoryPlace } = await from("gateway.js");
const { agreementKeyOfBytes } = await from("gateway/agreement.js");
const { Participant } = await from("secure/secure.js");
const { QueryStore } = await from("store.js");
const given = JSON.parse(readFileSync(file, "utf8"));
const bytesOf = (text) => Uint8Array.from(Buffer.from(text, "base64"));
const [COLLECT, LAST] = [3, 5];

async function opened() {
  const store = await QueryStore.open();
  await store.giveConsent();
  const data = new Float32Array(bytesOf(given.change).buffer);
  const change = new Map([["adapter", { shape: [data.length], data }]]);
  const place = new MemoryPlace();
  place.deviceKey = () => agreementKeyOfBytes(bytesOf(given.key));
  return Participant.open({
    device: {
      train: async () => ({ epoch: await store.epoch(), change }),
      forgotten: async (epoch) => ((await store.epoch()) === epoch ? null : "erased"),
    },
    store,
    place,
    certificate: bytesOf(given.certificate),
    authority: given.authority,
    rules: given.rules,
    clock: () => given.now,
    drawSecret: () => bytesOf(given.secret),
  });
}

const milliseconds = [];
let masked = "";
for (let number = 0; number < Number(repeat); number++) {
  const participant = await opened();
  const start = process.cpuUsage();
  for (let stage = 1; stage <= LAST; stage++) {
    const offered = stage === 1 ? { offer: given.offer, release: bytesOf(given.release) } : null;
    const reply = await participant.answerStage(stage, bytesOf(given.bodies[stage]), offered);
    if (!(reply instanceof Uint8Array)) throw new Error(`stage ${stage}: ${reply.declined}`);
    if (stage === COLLECT) masked = createHash("sha256").update(reply).digest("hex");
  }
  const { user, system } = process.cpuUsage(start);
  milliseconds.push((user + system) / 1000);
}
console.log(JSON.stringify({ milliseconds, masked }));
