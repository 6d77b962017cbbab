/** A private round over HTTP, against a gateway that says what Python's server said. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { GatewayConnection, MemoryPlace, Participation } from "pocketquery/gateway";
import { Participant } from "pocketquery/secure";
import { FOUND, type Member, memberOf, offerOf, packed, unpacked } from "./data.js";

const ROUND = (FOUND["rounds"] ?? [])[1] ?? assert.fail("no round");
const RELEASE = unpacked(ROUND.release);
const SHA256 = createHash("sha256").update(RELEASE).digest("hex");

/** The gateway of one device, the first of the round. */
class Scripted {
  readonly replies = new Map<number, string>();
  readonly asked: string[] = [];
  /** The stage that is open; the next one when it is answered and asked for twice. */
  stage = 1;
  #empty = false;
  /** Answers that come first, whatever is asked: status and code. */
  readonly trouble = new Map<string, [status: number, code: string]>();
  onAsk: (request: string) => void | Promise<void> = () => {};

  async fetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const request = `${init?.method} ${new URL(String(input)).pathname}`;
    this.asked.push(request);
    await this.onAsk(request);
    const trouble = this.trouble.get(request);
    if (trouble) {
      this.trouble.delete(request);
      return Response.json({ code: trouble[1], detail: "why" }, { status: trouble[0] });
    }
    const body = init?.body as Uint8Array<ArrayBuffer> | undefined;
    const reply = /^PUT \/v1\/rounds\/7\/secure\/(\d)$/.exec(request);
    if (reply?.[1] && body) return this.#reply(Number(reply[1]), packed(body));
    switch (request) {
      case "GET /v1/offer":
        return new Response(`{"offer": ${this.stage === 1 ? OFFER : null}, "retry_after": 9}`);
      case `GET /v1/releases/${SHA256}`:
        return new Response(RELEASE);
      case "GET /v1/rounds/7/secure":
        return this.#message();
      case "PUT /v1/rounds/7/declined":
        return new Response(null, { status: 204 });
      default:
        return Response.json({ code: "no_path", detail: request }, { status: 404 });
    }
  }

  #reply(stage: number, body: string): Response {
    const before = this.replies.get(stage);
    if (before !== undefined && before !== body) return Response.json({ code: "duplicate", detail: "" }, { status: 422 });
    if (stage !== this.stage) return Response.json({ code: "round_over", detail: "" }, { status: 409 });
    this.replies.set(stage, body);
    return Response.json({ verdict: "received" });
  }

  #message(): Response {
    if (this.replies.has(this.stage) && this.stage < 5) {
      this.#empty = !this.#empty;
      if (this.#empty) return new Response(null, { status: 204, headers: { "retry-after": "3" } });
      this.stage++;
    }
    const headers = { "pocketquery-stage": String(this.stage) };
    return new Response(unpacked(ROUND.stages[this.stage - 2].down[0]), { headers });
  }
}

// The settings as Python wrote them: 0.0 is not 0, and has another digest.
const OFFER = JSON.stringify({
  format: "pocketquery-offer",
  version: "1",
  round: ROUND.round,
  release: SHA256,
  clip_norm: ROUND.clip_norm,
  largest_weight: 256,
  compress: true,
  local: "LOCAL",
  lineage: "",
  announcement: ROUND.announcement as string,
}).replace('"LOCAL"', (FOUND["settings"] ?? [])[0].local as string);

async function device(gateway: Scripted) {
  const place = new MemoryPlace();
  const pauses: number[] = [];
  const options = { fetch: gateway.fetch.bind(gateway), sleep: async (seconds: number) => void pauses.push(seconds) };
  const connection = new GatewayConnection("http://127.0.0.1:1", await place.signer(), options);
  return { participation: new Participation(connection, place), pauses, place };
}

/** The device of `member`, later. */
async function memberAt({ options }: Member, now: number) {
  return { participant: await Participant.open({ ...options, clock: () => now }) };
}

function wholeRound({ replies }: Scripted): void {
  assert.deepEqual([...replies.keys()], [1, 2, 3, 4, 5]);
  assert.equal(replies.get(1), ROUND.devices[0].ready);
  for (const { stage, up } of ROUND.stages) assert.equal(replies.get(stage), up[0], `stage ${stage}`);
}

test("a round is answered stage by stage, with Python's bytes", async () => {
  const gateway = new Scripted();
  const { participation, pauses } = await device(gateway);
  const { participant, place } = await memberOf(ROUND, 0);
  let made = 0;
  const outcome = await participation.takePart(async () => (made++, participant));
  assert.deepEqual(outcome, { what: "accepted", detail: "", round: 7, retryAfter: 0 });
  wholeRound(gateway);
  assert.equal(made, 1);
  assert.equal(pauses.length, 4);
  assert.ok(pauses.every((seconds) => seconds >= 3 && seconds <= 4.5));
  assert.equal(await place.read("private-round.json"), null);
  assert.equal((await participation.takePart(participant)).what, "idle"); // and the next time a new offer is asked for
});

test("a page that is closed at any request goes on where it was", async () => {
  for (let requests = 1, over = false; !over; requests++) {
    const gateway = new Scripted();
    const { participation, place } = await device(gateway);
    const member = await memberOf(ROUND, 0);
    let left = requests;
    gateway.onAsk = () => {
      if (--left === 0) throw Object.assign(new Error("closed"), { name: "Closed" });
    };
    const connection = new GatewayConnection("http://127.0.0.1:1", await place.signer(), {
      fetch: gateway.fetch.bind(gateway), sleep: async () => {}, attempts: 1,
    });
    const first = await new Participation(connection, place).takePart(member.participant).then(
      ({ what }) => what,
      () => "closed",
    );
    over = first === "accepted";
    assert.equal(first, over ? "accepted" : "closed");
    if (!over) assert.equal((await participation.takePart(member.participant)).what, "accepted", `${requests}`);
    wholeRound(gateway);
  }
});

test("it stops where the round is over, where its reply does not count, and where it declines", async () => {
  for (const [request, status, code, what] of [
    ["PUT /v1/rounds/7/secure/1", 409, "round_over", "over"],
    ["GET /v1/rounds/7/secure", 409, "round_over", "over"],
    ["PUT /v1/rounds/7/secure/3", 409, "round_over", "over"],
    ["PUT /v1/rounds/7/secure/2", 422, "duplicate", "left out"],
  ] as const) {
    const gateway = new Scripted();
    gateway.trouble.set(request, [status, code]);
    const { participation, place } = await device(gateway);
    const { participant, store } = await memberOf(ROUND, 0);
    const epoch = await store.epoch();
    assert.equal((await participation.takePart(participant)).what, what, request);
    assert.equal(await place.read("private-round.json"), null);
    assert.deepEqual([await store.kept("secure"), await store.epoch()], [null, epoch], request);
  }
  // A rule is broken; it says so, and not why.
  const gateway = new Scripted();
  const { participation } = await device(gateway);
  const { participant, store } = await memberOf(ROUND, 0, { rules: { privacy: "any", least: 3, leastNoisy: 8, neighbours: 4 } });
  const outcome = await participation.takePart(participant);
  assert.equal(await store.kept("secure"), null);
  assert.deepEqual([outcome.what, outcome.detail], ["declined", "the group has 7 devices, expected at least 8"]);
  assert.equal(gateway.asked.at(-1), "PUT /v1/rounds/7/declined");
  // A stage is left out, which it keeps its state in: nothing of the round comes any more.
  const hasty = new Scripted();
  hasty.onAsk = () => void (hasty.replies.has(2) && (hasty.stage = 4));
  const other = await memberOf(ROUND, 0);
  const { what, detail } = await (await device(hasty)).participation.takePart(other.participant);
  assert.deepEqual([what, detail], ["declined", "stage 4 came, but this device is shared"]);
  assert.equal(await other.store.kept("secure"), null);
});

test("a tab that is late with the end of a round leaves the one that another tab is in", async () => {
  const gateway = new Scripted();
  const { participation, place } = await device(gateway);
  const { participant } = await memberOf(ROUND, 0);
  const next = new TextEncoder().encode('{"round":8}');
  gateway.trouble.set("PUT /v1/rounds/7/secure/2", [409, "round_over"]);
  gateway.onAsk = async (request) => {
    if (request !== "PUT /v1/rounds/7/secure/2") return;
    assert.ok(await place.replace("private-round.json", await place.read("private-round.json"), next));
  };
  assert.equal((await participation.takePart(participant)).what, "over");
  assert.deepEqual(await place.read("private-round.json"), next);
});

test("a round that was over while the page was closed leaves nothing, without another message", async () => {
  for (const end of ["over", "expired"] as const) {
    const gateway = new Scripted();
    const { participation, place } = await device(gateway);
    const member = await memberOf(ROUND, 0);
    gateway.onAsk = (request) => {
      if (request === "PUT /v1/rounds/7/secure/2") throw Object.assign(new Error("closed"), { name: "Closed" });
    };
    const connection = new GatewayConnection("http://127.0.0.1:1", await place.signer(), {
      fetch: gateway.fetch.bind(gateway), sleep: async () => {}, attempts: 1,
    });
    await assert.rejects(new Participation(connection, place).takePart(member.participant));
    assert.notEqual(await member.store.kept("secure"), null);
    gateway.onAsk = () => {};
    if (end === "over") gateway.trouble.set("PUT /v1/rounds/7/secure/2", [409, "round_over"]);
    if (end === "over") gateway.trouble.set("GET /v1/rounds/7/secure", [409, "round_over"]);
    const { participant } = end === "over" ? member : await memberAt(member, ROUND.now + 86_400);
    assert.equal((await participation.takePart(participant)).what, end === "over" ? "idle" : "declined");
    assert.equal(await member.store.kept("secure"), null);
    assert.equal(await place.read("private-round.json"), null);
  }
  // One that the page knows nothing of any more goes by the device's own clock.
  const { participation } = await device(Object.assign(new Scripted(), { stage: 2 }));
  const member = await memberOf(ROUND, 0);
  const offered = offerOf(ROUND);
  await member.participant.answerStage(1, offered.offer.announcement, offered);
  const { participant } = await memberAt(member, ROUND.now + 86_400);
  assert.equal((await participation.takePart(participant)).what, "idle");
  assert.equal(await member.store.kept("secure"), null);
});

test("what is erased while it waits is not waited for", async () => {
  const gateway = new Scripted();
  const { participation } = await device(gateway);
  const { participant, store } = await memberOf(ROUND, 0);
  gateway.onAsk = (request) => void (request === "PUT /v1/rounds/7/secure/2" && store.eraseAll());
  const outcome = await participation.takePart(participant);
  assert.deepEqual([outcome.what, outcome.detail], ["declined", "the round is over for this device: its queries were erased, or it is too old"]);
});

test("a device of plain rounds declines a private one", async () => {
  const gateway = new Scripted();
  const { participation } = await device(gateway);
  const plain = { answer: async () => assert.fail("asked") };
  const outcome = await participation.takePart(plain);
  assert.equal(outcome.what, "declined");
  assert.match(outcome.detail, /^a private round \(a secure sum\) was offered/);
});
