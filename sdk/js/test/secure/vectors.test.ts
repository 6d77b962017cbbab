/** Byte for byte what Python's devices say in private rounds: conformance/secure, which Python wrote. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { InvalidInputError, PocketQueryError } from "pocketquery";
import { agreementKeyOfBytes, checkAgreementKey } from "../../dist/gateway/agreement.js";
import { canonicalText } from "../../dist/gateway/canonical.js";
import { MemoryPlace } from "../../dist/gateway/place.js";
import { parseJson } from "../../dist/json.js";
import { parseBinding } from "../../dist/secure/binding.js";
import { checkCertificate, enrolmentRequest, parseCertificate } from "../../dist/secure/certificate.js";
import { Keystream, open, seal } from "../../dist/secure/chacha20.js";
import { commitments } from "../../dist/secure/commitments.js";
import { encode, largestNorm } from "../../dist/secure/encoding.js";
import { derive, isMark, mark, maskLabel, pairLabel, RoundSecret } from "../../dist/secure/keys.js";
import { costOf, epsilonOf, Ledger } from "../../dist/secure/ledger.js";
import { parseAnnouncement, STAGE } from "../../dist/secure/messages.js";
import { draw, rhoOf, sigmaOf, tableOf } from "../../dist/secure/noise.js";
import { neighboursOf } from "../../dist/secure/ring.js";
import { readyReply } from "../../dist/secure/ready.js";
import { split } from "../../dist/secure/sharing.js";
import { packState, parseState, StateFile } from "../../dist/secure/state.js";
import { camel, floats, FOUND, fromHex, memberOf, offerOf, packed, snake, toHex, unpacked } from "./data.js";

const sha256 = (data: Uint8Array): string => createHash("sha256").update(data).digest("hex");
const part = (name: string): any[] => FOUND[name] ?? assert.fail(`nothing of ${name}`);

/** What `work` returns, or the class of its error, as the file has them. */
async function outcome(work: () => unknown): Promise<object> {
  try {
    return { found: (await work()) ?? null };
  } catch (error) {
    if (!(error instanceof PocketQueryError)) throw error;
    return { error: error.name };
  }
}

/** What the file says came of a case. */
const wanted = (one: any): object => ("error" in one ? { error: one.error } : { found: one.found });

test("keystreams and boxes are those of RFC 8439, as Python reads them", () => {
  for (const one of part("keystreams")) {
    const stream = new Keystream(fromHex(one.key));
    const bytes = Buffer.concat((one.reads as number[]).map((size) => stream.read(size)));
    assert.equal(sha256(bytes), one.sha256);
    if (one.bytes) assert.equal(toHex(bytes), one.bytes);
  }
  assert.match(part("keystreams")[0].bytes, /^76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7/);
  for (const one of part("boxes")) {
    const [key, beside, box] = [fromHex(one.key), fromHex(one.beside), fromHex(one.box)];
    if (one.error) {
      assert.throws(() => open(key, box, beside, "no box"), { name: one.error, message: "no box" });
      continue;
    }
    assert.equal(toHex(seal(key, fromHex(one.content), beside)), one.box);
    assert.equal(toHex(open(key, box, beside, "no box")), one.content);
  }
});

test("keys agree, derive and mark as Python's", async () => {
  for (const one of part("agreements")) {
    const key = await agreementKeyOfBytes(fromHex(one.private));
    assert.equal(toHex(key.publicKey), one.public);
    const found = await outcome(async () => toHex(await key.agree(fromHex(one.other))));
    assert.deepEqual(found, wanted(one), one.other);
    assert.deepEqual(await outcome(() => checkAgreementKey(fromHex(one.other))), one.error ? wanted(one) : { found: null });
  }
  for (const one of part("keys")) {
    const [secret, beta] = [fromHex(one.secret), fromHex(one.beta)];
    const label = pairLabel("box", beta, fromHex(one.sender), fromHex(one.receiver));
    assert.equal(toHex(derive(secret, label)), one.box);
    assert.equal(toHex(derive(secret, maskLabel("mask", beta))), one.mask);
    const made = mark(fromHex(one.secret), beta);
    assert.equal(toHex(made), one.mark);
    assert.ok(isMark(fromHex(one.secret), beta, made));
    for (const other of [made.map((byte, i) => (i === 15 ? byte ^ 1 : byte)), made.slice(1), new Uint8Array()]) {
      assert.ok(!isMark(fromHex(one.secret), beta, other));
    }
  }
  for (const one of part("secrets")) {
    const [secret, beta] = [new RoundSecret(fromHex(one.secret)), fromHex(one.beta)];
    const { key, privateKey } = await secret.maskKey(beta);
    assert.equal(toHex(secret.selfSeed(beta)), one.self_seed);
    assert.deepEqual([toHex(privateKey), toHex(key.publicKey)], [one.mask_private, one.mask_public]);
    assert.deepEqual(secret.coefficients(beta, "self", 5).map(String), one.self);
    assert.deepEqual(secret.coefficients(beta, "mask", 5).map(String), one.mask);
    assert.equal(toHex(secret.coins(beta).read(40)), one.coins);
    assert.equal(toHex(secret.noiseStream(beta).read(40)), one.noise);
  }
  assert.throws(() => new RoundSecret(new Uint8Array(31)), { name: "InvalidInputError" });
});

test("shares, commitments to them and rings are Python's", async () => {
  for (const one of part("shares")) {
    const coefficients = (one.coefficients as string[]).map(BigInt);
    const found = await outcome(() => split(fromHex(one.secret), one.threshold, coefficients, one.count).map(toHex));
    assert.deepEqual(found, wanted(one));
  }
  for (const one of part("commitments")) {
    const [beta, self, mask] = [one.beta, one.self, one.mask].map(fromHex) as [Uint8Array, Uint8Array, Uint8Array];
    assert.equal(toHex(commitments(beta, one.dealer, one.neighbour, self, mask)), one.commitments);
  }
  for (const one of part("rings")) {
    assert.deepEqual(neighboursOf(fromHex(one.seed), one.size, one.degree, one.position), one.near);
  }
});

test("bindings and announcements are read, or refused, as strictly", async () => {
  const others: string[] = [];
  for (const one of part("bindings")) {
    const found = await outcome(() => {
      const binding = parseBinding(unpacked(one.data));
      const { digest, round, size, neighbours, threshold, encoding, privacy, expiry } = binding;
      assert.equal(binding.text, Buffer.from(one.data, "base64").toString());
      return { digest: toHex(digest), round, size, neighbours, threshold, encoding, privacy: snake(privacy), expiry };
    });
    if (!same(found, wanted(one))) others.push(`${JSON.stringify(found)} of ${Buffer.from(one.data, "base64")}`);
  }
  for (const one of part("announcements")) {
    const found = await outcome(() => {
      const { federation, key, privacy } = parseAnnouncement(fromHex(one.data));
      return { federation: toHex(federation), key: toHex(key), privacy: snake(privacy) };
    });
    if (!same(found, wanted(one))) others.push(`${JSON.stringify(found)} of ${one.data}`);
  }
  assert.deepEqual(others, []);
});

test("a device that is ready says what convinces Python's server, and nothing that it refuses", async () => {
  for (const one of part("ready")) {
    const [key, data] = [await agreementKeyOfBytes(fromHex(one.key)), fromHex(one.body).slice(0, 100)];
    if (data.length < 100) continue;
    const [certificate, federation] = [parseCertificate(data), fromHex(one.federation)];
    const said = await readyReply(key, certificate, fromHex(one.announced), federation, one.round);
    // With another key than the certified one it convinces nobody, whatever it says.
    const isOwn = toHex(key.publicKey) === toHex(certificate.key);
    assert.equal(isOwn && toHex(said) === one.body, one.found === true, JSON.stringify(one));
    await assert.rejects(readyReply(key, certificate, new Uint8Array(32), federation, one.round), InvalidInputError);
  }
});

function same(found: object, expected: object): boolean {
  try {
    assert.deepEqual(found, expected);
    return true;
  } catch {
    return false;
  }
}

test("changes become the codes that Python makes of them", async () => {
  for (const one of part("encodings")) {
    const [values, coins] = [floats(one.values), new Keystream(fromHex(one.key))];
    const noise = one.noise && Int32Array.from(one.noise);
    if (one.error) {
      assert.throws(() => encode(values, one.encoding, coins, noise), { name: one.error });
      continue;
    }
    const codes = encode(values, one.encoding, coins, noise);
    assert.equal(packed(new Uint8Array(codes.buffer)), one.codes);
    assert.equal(largestNorm(one.encoding), one.delta);
  }
});

test("tables of noise, and draws of them, are Python's to the last bit; costs are", async () => {
  for (const one of part("tables")) {
    if (one.error) {
      assert.throws(() => tableOf(one.sigma), { name: one.error });
      continue;
    }
    const table = tableOf(one.sigma);
    const entries = Buffer.from(table.entries.map((entry) => entry.toString(16).padStart(32, "0")).join(""), "hex");
    assert.deepEqual([table.reach, sha256(entries)], [one.reach, one.sha256], `${one.sigma}`);
    assert.deepEqual([...draw(table, new Keystream(fromHex(one.key)), one.draws.length)], one.draws);
  }
  for (const one of part("costs")) {
    const privacy = camel(one.privacy) as Parameters<typeof costOf>[0];
    assert.equal(costOf(privacy, one.encoding), one.cost);
    if (one.sigma === undefined) continue;
    assert.equal(sigmaOf(privacy.noiseMultiplier, one.encoding, privacy.countedOn), one.sigma);
    const spent = rhoOf(privacy.noiseMultiplier, one.encoding, privacy.countedOn);
    assert.ok(Math.abs(spent - one.rho) <= 1e-12 * one.rho, `${spent} ${one.rho}`);
    assert.ok(Math.abs(epsilonOf(one.rho, 1e-6) - one.epsilon) <= 1e-9 * one.epsilon);
  }
});

test("certificates hold, and settings have the digest, as in Python", async () => {
  const { authority } = part("rounds")[0];
  for (const one of part("certificates")) {
    const found = await outcome(() => {
      return checkCertificate(parseCertificate(fromHex(one.data)), authority, Uint8Array.from({ length: 16 }, (_, i) => i), one.now);
    });
    assert.deepEqual(found, wanted(one));
  }
  const request = JSON.parse(enrolmentRequest(await new MemoryPlace().deviceKey())) as { schema: string; key: string };
  assert.equal(request.schema, "pocketquery-enrolment-request-1");
  assert.match(request.key, /^[0-9a-f]{64}$/);
  for (const one of part("settings")) assert.equal(sha256(Buffer.from(canonicalText(parseJson(one.local)))), one.sha256);
});

test("a ledger is the file that Python keeps, and a damaged one is refused", async () => {
  const place = new MemoryPlace();
  const ledger = new Ledger(place);
  const kept = async (): Promise<string> => Buffer.from((await place.read("privacy.json")) ?? []).toString();
  for (const one of part("ledgers")) {
    if (one.error) {
      const damaged = new MemoryPlace();
      await damaged.replace("privacy.json", null, unpacked(one.file));
      await assert.rejects(new Ledger(damaged).accounts(), { name: one.error });
      continue;
    }
    const binding = parseBinding(Buffer.from(one.binding));
    await ledger.begin(binding);
    assert.equal(await kept(), one.begun);
    await ledger.begin(binding); // under the same binding, as often as it likes
    await ledger.charge(binding);
    assert.equal(await kept(), one.charged);
    await ledger.charge(binding);
    assert.equal(await kept(), one.charged);
    await assert.rejects(ledger.begin({ ...binding, digest: new Uint8Array(32) }), /took part in round \d+ under another binding/);
    await assert.rejects(ledger.begin({ ...binding, round: binding.round - 1 }), /expected a later one/);
  }
});

test("in whole rounds every reply is Python's", async () => {
  for (const round of part("rounds")) {
    for (const number of round.devices.keys()) {
      const { participant, store, place } = await memberOf(round, number);
      const { offer, release } = offerOf(round);
      const ready = await participant.answerStage(STAGE.offer, offer.announcement, { offer, release });
      if ("declined" in ready) assert.fail(ready.declined);
      assert.equal(packed(ready), round.devices[number].ready);
      for (const { stage, down, up } of round.stages) {
        if (!(number in down)) continue;
        // A Buffer, which begins anywhere in a larger one.
        const reply = await participant.answerStage(stage, Buffer.from(`AAAA${down[number]}`, "base64").subarray(3));
        if ("declined" in reply) assert.fail(reply.declined);
        assert.equal(packed(reply), up[number], `stage ${stage} of ${number}`);
        // Asked again, also after the page was closed, it says the same.
        assert.deepEqual(await participant.answerStage(stage, unpacked(down[number])), reply);
        assert.deepEqual(await participant.standing(), { round: round.round, stage, reply });
      }
      const account = await new Ledger(place).account(parseBinding(Buffer.from(round.binding)).federation);
      assert.deepEqual([account.lastRound, account.lastMasked], [round.round, number === round.gone ? null : round.round]);
      const state = await new StateFile(store).load();
      assert.equal(state?.progress, number === round.gone ? STAGE.invite : STAGE.unmask);
    }
  }
});

test("what a device makes of a body, sound or damaged, and what it forgets, is what Python's does", async () => {
  const round = part("rounds")[1];
  const others: string[] = [];
  for (const { stage, state, bodies } of part("answers")) {
    const before = await parseState(unpacked(state));
    assert.equal(before.progress, stage - 1);
    for (const one of bodies) {
      const { participant, store } = await memberOf(round, 0);
      const file = new StateFile(store);
      assert.ok(await file.keep({ ...before, epoch: await store.epoch() }));
      const found = await participant.answerStage(stage, unpacked(one.body));
      const reply = "declined" in found ? null : sha256(found);
      const forgotten = (await file.load()) === null;
      if (reply !== one.reply || forgotten !== one.forgotten) {
        others.push(`stage ${stage}, ${one.name}: ${"declined" in found ? found.declined : "answered"}, ${forgotten}`);
      }
    }
  }
  assert.deepEqual(others, []);
});

test("a state is read as Python keeps it, and again as it is kept here", async () => {
  for (const { state } of part("answers")) {
    const found = await parseState(unpacked(state));
    assert.deepEqual(await parseState(await packState(found)), found);
    const whole = unpacked(state);
    for (let at = 0; at < whole.length; at += 97) {
      const damaged = whole.map((byte, i) => (i === at ? byte ^ 1 : byte));
      await assert.rejects(parseState(damaged), { name: "CorruptArtifactError" });
    }
  }
});
