/** A device in private rounds: what it keeps, forgets and charges, wherever it is stopped. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { CorruptArtifactError, InvalidInputError } from "pocketquery";
import { DEVICE_RULES, deviceRules, Ledger, Participant } from "pocketquery/secure";
import { parseBinding } from "../../dist/secure/binding.js";
import { exclusively } from "../../dist/secure/exclusively.js";
import { STAGE } from "../../dist/secure/messages.js";
import { StateFile } from "../../dist/secure/state.js";
import { FOUND, fromHex, type Member, memberOf, offerOf, packed, unpacked } from "./data.js";

const ROUND = (FOUND["rounds"] ?? [])[1] ?? assert.fail("no round");

/** Lead a device through the stages before `stage`. */
async function upTo(stage: number, member: Member): Promise<void> {
  const offered = offerOf(ROUND);
  if (stage > 1) sent(await member.participant.answerStage(1, offered.offer.announcement, offered));
  for (const one of ROUND.stages) if (one.stage < stage) sent(await member.participant.answerStage(one.stage, bodyOf(one.stage)));
}

const bodyOf = (stage: number): Uint8Array =>
  stage === 1 ? unpacked(ROUND.announcement) : unpacked(ROUND.stages[stage - 2].down[0]);

function answer(stage: number, { participant }: Member): Promise<Uint8Array | { declined: string }> {
  return participant.answerStage(stage, bodyOf(stage), stage === 1 ? offerOf(ROUND) : null);
}

function sent(reply: Uint8Array | { declined: string }): Uint8Array {
  if ("declined" in reply) assert.fail(reply.declined);
  return reply;
}

async function declined(reply: Promise<Uint8Array | { declined: string }>, reason: RegExp): Promise<void> {
  const found = await reply;
  assert.ok("declined" in found, "it answered");
  assert.match(found.declined, reason);
}

test("what is erased in any stage is not answered any more, and nothing of it is kept", async () => {
  for (let stage = 1; stage <= STAGE.unmask; stage++) {
    for (const erase of ["eraseAll", "withdrawConsent"] as const) {
      const member = await memberOf(ROUND, 0);
      await upTo(stage, member);
      await member.store[erase]();
      if (stage > 1) await declined(answer(stage, member), /^(this device is in no round|the user erased queries)/);
      assert.equal(await member.store.kept("secure"), null);
      assert.equal(await member.participant.standing(), null);
    }
    // While the answer is worked out, too.
    const member = await memberOf(ROUND, 0);
    await upTo(stage, member);
    const { forgotten } = member.trainer;
    let asked = 0;
    member.trainer.forgotten = async (epoch) => {
      if (++asked === (stage === 1 ? 1 : 2)) await member.store.eraseAll();
      return forgotten.call(member.trainer, epoch);
    };
    await declined(answer(stage, member), /^the user erased queries/);
    assert.equal(await member.store.kept("secure"), null);
  }
});

test("a device that is stopped anywhere goes on with the same bytes, and is charged once", async () => {
  for (let stage = 1; stage <= STAGE.unmask; stage++) {
    // As often as it writes in this stage, it is stopped at one of the writes.
    for (let writes = 1, over = false; !over; writes++) {
      const member = await memberOf(ROUND, 0);
      await upTo(stage, member);
      let left = writes;
      const dying = <T extends unknown[], R>(work: (...given: T) => Promise<R>) => async (...given: T): Promise<R> => {
        if (--left === 0) throw new Error("stopped");
        return work(...given);
      };
      const { store, place } = member;
      const [keep, replace] = [store.keep.bind(store), place.replace.bind(place)];
      store.keep = dying(keep);
      place.replace = dying(replace);
      const stopped = await answer(stage, member).then(() => false, () => true);
      Object.assign(store, { keep });
      Object.assign(place, { replace });
      const again = { ...member, participant: await Participant.open(member.options) };
      const reply = sent(await answer(stage, again));
      if (stage > 1) assert.equal(packed(reply), ROUND.stages[stage - 2].up[0], `stage ${stage}, write ${writes}`);
      const account = await new Ledger(place).account(parseBinding(Buffer.from(ROUND.binding)).federation);
      assert.deepEqual([account.participations, account.lastMasked !== null], stage >= STAGE.collect ? [1, true] : [0, false]);
      over = !stopped;
    }
  }
});

test("the ledger is charged before a masked change is kept or sent, and is never refunded", async () => {
  const member = await memberOf(ROUND, 0);
  await upTo(STAGE.collect, member);
  member.store.keep = async () => Promise.reject(new Error("stopped"));
  await assert.rejects(answer(STAGE.collect, member), /stopped/);
  const { federation } = parseBinding(Buffer.from(ROUND.binding));
  assert.equal((await new Ledger(member.place).account(federation)).lastMasked, ROUND.round);
  await member.store.eraseAll();
  const later = offerOf(ROUND, { round: ROUND.round + 1, digest: "e".repeat(64) });
  await declined(member.participant.answerStage(1, later.offer.announcement, later), /took part in round 7 and rests for 8/);
});

test("two tabs that answer at once say the same, and are charged once", async () => {
  const member = await memberOf(ROUND, 0);
  await upTo(STAGE.collect, member);
  const other = { ...member, participant: await Participant.open(member.options) };
  const [one, two] = await Promise.all([answer(STAGE.collect, member), answer(STAGE.collect, other)]);
  assert.deepEqual(sent(one), sent(two));
  const { federation } = parseBinding(Buffer.from(ROUND.binding));
  assert.equal((await new Ledger(member.place).account(federation)).participations, 1);
});

test("a round that is given up goes, and another one stays, also where it begins meanwhile", async () => {
  const member = await memberOf(ROUND, 0);
  await upTo(2, member);
  await member.participant.giveUp(ROUND.round - 1);
  assert.equal((await member.participant.standing())?.round, ROUND.round);
  await member.participant.giveUp(ROUND.round);
  assert.equal(await member.store.kept("secure"), null);
  await member.participant.giveUp(ROUND.round);
  // One tab finds the round expired, while another keeps where it is in the next one.
  await upTo(2, member);
  const late = await Participant.open({ ...member.options, clock: () => ROUND.now + 86_400 });
  const { store, place } = member;
  const [kept, epoch, next] = [store.kept.bind(store), await store.epoch(), Uint8Array.of(1)];
  let keeping: Promise<unknown> = Promise.resolve();
  store.kept = async (name) => {
    const found = await kept(name);
    keeping = exclusively(place.name, () => store.keep({ secure: next }, epoch));
    await new Promise(setImmediate);
    return found;
  };
  assert.equal(await late.standing(), null);
  await keeping;
  assert.deepEqual(await kept("secure"), next);
});

test("it declines what is of another round, stage or time", async () => {
  const member = await memberOf(ROUND, 0);
  await declined(answer(2, member), /^this device is in no round/);
  await declined(member.participant.answerStage(7, bodyOf(2)), /^this device is in no round/);
  await declined(member.participant.answerStage(1, bodyOf(1)), /there is no offer/);
  await upTo(2, member);
  await declined(member.participant.answerStage(7, bodyOf(2)), /^stage 7 came/);
  await declined(answer(3, member), /^stage 3 came, but this device is ready/);
  sent(await answer(2, member));
  await declined(member.participant.answerStage(2, bodyOf(2).map((byte, i) => (i === 3 ? byte ^ 1 : byte))), /answered before/);
  const earlier = offerOf(ROUND, { round: ROUND.round - 1, digest: "f".repeat(64) });
  await declined(member.participant.answerStage(1, earlier.offer.announcement, earlier), /of another round/);
  const same = offerOf(ROUND, { digest: "e".repeat(64) });
  await declined(member.participant.answerStage(1, same.offer.announcement, same), /this device was in round 7/);
  const late = { ...member, participant: await Participant.open({ ...member.options, clock: () => ROUND.now + 3600 }) };
  await declined(answer(3, late), /^the round expired at/);
  assert.equal(await member.store.kept("secure"), null);
});

test("what the offer says is held to the rules before anything is trained", async () => {
  for (const [more, changes, reason] of [
    [{ rules: { ...memberRules(), noiseLeast: 3 } }, {}, /the noise multiplier is 2.4/],
    [{ rules: { ...memberRules(), epsilon: 1 } }, {}, /would have cost epsilon 1.98/],
    [{ rules: { ...memberRules(), largestGroup: 2 } }, {}, /its largest-group is 2/],
    [{ clock: () => 4e9 }, {}, /^the certificate of the device key [0-9a-f]{64} expired/],
    [{ authority: "ab".repeat(32) }, {}, /is not by this authority/],
    [{}, { config: { ...offerOf(ROUND).offer.config, clientInit: "ema" } }, /client_init is 'ema'/],
  ] as const) {
    const member = await memberOf(ROUND, 0, more);
    const offered = offerOf(ROUND, changes);
    await declined(member.participant.answerStage(1, offered.offer.announcement, offered), reason);
    assert.equal(member.trainer.trained, 0);
  }
  const member = await memberOf(ROUND, 0);
  member.trainer.gone = "no consent";
  await declined(answer(1, member), /^no consent/);
});

test("it is ready for the key that was announced, and for none that everybody agrees with", async () => {
  const member = await memberOf(ROUND, 0);
  const offered = offerOf(ROUND);
  const withKey = (key: Uint8Array): Uint8Array => {
    const body = Uint8Array.from(offered.offer.announcement);
    body.set(key, 16);
    return body;
  };
  for (const key of [new Uint8Array(32), new Uint8Array(32).fill(255)]) {
    await declined(member.participant.answerStage(1, withKey(key), offered), /^an announcement holds the public key [0-9a-f]{64}/);
    assert.equal(member.trainer.trained, 0);
  }
  const other = fromHex(ROUND.devices[1].certificate).slice(0, 32);
  const replies = [];
  for (const body of [offered.offer.announcement, offered.offer.announcement, withKey(other)]) {
    replies.push(packed(sent(await member.participant.answerStage(1, body, offered))));
  }
  assert.deepEqual(replies.slice(0, 2), [ROUND.devices[0].ready, ROUND.devices[0].ready]);
  assert.notEqual(replies[2], replies[0]);
});

const memberRules = () => ({ least: 3, leastNoisy: 3, neighbours: 4, privacy: "any" }) as const;

test("a plain round is for those who allow it; a certificate is of the device's own key", async () => {
  const { offer, release } = offerOf(ROUND);
  const member = await memberOf(ROUND, 0);
  assert.match(JSON.stringify(await member.participant.answer(offer, release)), /private rounds alone/);
  const both = await memberOf(ROUND, 0, { rules: { secure: "allowed" } });
  assert.match(JSON.stringify(await both.participant.answer(offer, release)), /no plain round/);
  const other = fromHex(ROUND.devices[1].certificate);
  await assert.rejects(memberOf(ROUND, 0, { certificate: other }), /have this one certified/);
  await assert.rejects(memberOf(ROUND, 0, { certificate: other.slice(1) }), InvalidInputError);
  assert.deepEqual(deviceRules(), DEVICE_RULES);
  for (const wrong of [{ least: 1 }, { secure: "no" }, { collusion: 1 }, { epsilon: Infinity }, { revoked: ["x"] }, { more: 1 }]) {
    assert.throws(() => deviceRules(wrong as never), InvalidInputError);
  }
});

test("a damaged state is dropped, a damaged ledger is not", async () => {
  const member = await memberOf(ROUND, 0);
  await upTo(2, member);
  await member.store.keep({ secure: new Uint8Array(100) }, await member.store.epoch());
  await declined(answer(2, member), /^this device is in no round/);
  assert.equal(await new StateFile(member.store).load(), null);
  await member.place.replace("privacy.json", null, Uint8Array.of(1));
  await declined(answer(1, member), /is no ledger of this version/);
  await assert.rejects(new Ledger(member.place).accounts(), CorruptArtifactError);
});
