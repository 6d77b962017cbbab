/** conformance/secure, which Python wrote, and devices of it. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { localConfigOf } from "../../dist/training/local_config.js";
import { parseJson, type JsonObject } from "../../dist/json.js";
import { agreementKeyOfBytes } from "../../dist/gateway/agreement.js";
import type { Offer } from "../../dist/gateway/offer.js";
import { MemoryPlace } from "../../dist/gateway/place.js";
import { Participant, type ParticipantOptions, type Trainer } from "../../dist/secure/participant.js";
import { QueryStore } from "pocketquery/store";
import { CONFORMANCE } from "../fixtures.js";

export const FOUND = JSON.parse(
  gunzipSync(readFileSync(join(CONFORMANCE, "secure", "secure.json.gz"))).toString("utf8"),
) as Record<string, any[]>;

export const fromHex = (digits: string): Uint8Array => Uint8Array.from(Buffer.from(digits, "hex"));
export const toHex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
export const unpacked = (text: string): Uint8Array<ArrayBuffer> => Uint8Array.from(Buffer.from(text, "base64"));
export const packed = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64");
export const floats = (text: string): Float32Array => new Float32Array(unpacked(text).buffer);

/** Names as Python writes them. */
export function snake(values: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value]),
  );
}

/** Names as JavaScript writes them. */
export function camel(values: object): Record<string, any> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()), value]),
  );
}

/** A place whose device key is given. */
export class KeyPlace extends MemoryPlace {
  readonly #private: Uint8Array;

  constructor(privateKey: Uint8Array) {
    super();
    this.#private = privateKey;
  }

  override deviceKey() {
    return agreementKeyOfBytes(this.#private);
  }
}

/** A trainer that trains nothing: its change is given. */
export class Given implements Trainer {
  gone: string | null = null;
  trained = 0;
  readonly #store: QueryStore;
  readonly #change: ReadonlyMap<string, Float32Array>;

  constructor(store: QueryStore, change: ReadonlyMap<string, Float32Array>) {
    this.#store = store;
    this.#change = change;
  }

  async answer() {
    return { declined: "no plain round" };
  }

  async train() {
    this.trained++;
    if (this.gone !== null) return { declined: this.gone };
    const change = new Map([...this.#change].map(([name, data]) => [name, { shape: [data.length], data }]));
    return { epoch: await this.#store.epoch(), change } as never;
  }

  async forgotten(epoch: string) {
    if (this.gone !== null) return this.gone;
    return (await this.#store.epoch()) === epoch ? null : "the user erased queries";
  }
}

export interface Member {
  readonly participant: Participant;
  readonly store: QueryStore;
  readonly place: MemoryPlace;
  readonly trainer: Given;
  readonly options: ParticipantOptions;
}

/** A device of a round in FOUND. */
export async function memberOf(round: any, number: number, more: Partial<ParticipantOptions> = {}): Promise<Member> {
  const one = round.devices[number];
  const store = await QueryStore.open();
  await store.giveConsent();
  const place = new KeyPlace(fromHex(one.key));
  const change = Object.entries(one.change as Record<string, string>).map(([name, data]): [string, Float32Array] => [name, floats(data)]);
  const trainer = new Given(store, new Map(change));
  const options: ParticipantOptions = {
    device: trainer,
    store,
    place,
    certificate: fromHex(one.certificate),
    authority: round.authority,
    rules: camel(round.rules),
    clock: () => round.now,
    drawSecret: () => fromHex(one.secret),
    ...more,
  };
  return { participant: await Participant.open(options), store, place, trainer, options };
}

/** What was offered in a round in FOUND. */
export function offerOf(round: any, changes: Partial<Offer> = {}): { offer: Offer; release: Uint8Array } {
  const release = unpacked(round.release);
  const config = localConfigOf(parseJson((FOUND["settings"] as any[])[0].local) as JsonObject, "local");
  const offer: Offer = {
    round: round.round,
    releaseSha256: "0".repeat(64),
    config,
    clipNorm: round.clip_norm,
    largestWeight: 256,
    compress: true,
    lineage: new Uint8Array(),
    announcement: unpacked(round.announcement),
    settingsSha256: round.settings,
    digest: "d".repeat(64),
    ...changes,
  };
  return { offer, release };
}
