/**
 * In the worker: this browser's part in rounds with other devices, through the gateway that the site
 * names, where the user agreed.
 *
 * A round is trained with an encoder of its own, loaded for it: the one that searches may have
 * another adapter. Of several tabs one takes part.
 */

import {
  Device,
  GatewayConnection,
  IndexedDbPlace,
  OFFER_LIMITS,
  PageReadings,
  Participation,
  RefusedError,
  TrustedReleases,
} from "./sdk/gateway.js";
import { distinct } from "./sdk/training.js";
import { load } from "./sdk/web.js";

const HERE = new URL(".", import.meta.url).pathname.slice(0, -1); // other pages of the origin are other devices
const JOINED = "joined"; // a file that is there where the user agreed
const TAB = `pocketquery-rounds${HERE}`; // the lock of the tab that takes part
const UNKNOWN = 60; // seconds
// The user is here, and a page is told of its charger at the most; rounds are short.
const POLICY = { idle: false, maxSeconds: 300, allowUnknown: ["charging", "unmetered", "temperatureC"] };

export class Participant {
  #gateway;
  #learner;
  #index;
  #key;
  #place;
  #participation;
  #releases;
  #moved = null; // how far the release moved texts of all kinds; null: it is the publisher's first

  /** `rounds`: the gateway's address, and the PEM of the key that signs releases, or null. */
  static async open({ gateway, publicKey }, learner, index, key) {
    const participant = new Participant();
    participant.#gateway = gateway;
    participant.#learner = learner;
    participant.#index = index;
    participant.#key = key;
    const place = new IndexedDbPlace(`pocketquery-device${HERE}`);
    participant.#place = place;
    participant.#releases = await TrustedReleases.open(place, publicKey === null ? {} : { publicKey });
    participant.#participation = new Participation(new GatewayConnection(gateway, await place.signer()), place);
    const { manifest } = learner.bundle;
    await participant.#participation.kept(manifest, participant.#releases, (release) => participant.#takeUp(release));
    return participant;
  }

  /** What the page shows. */
  async state() {
    const { store, version } = this.#learner;
    return {
      available: true,
      gateway: new URL(this.#gateway).host,
      consent: await store.consent(),
      joined: await this.#joined(),
      missing: Math.max(0, OFFER_LIMITS.leastQueries - distinct(await store.examples()).length),
      version,
      moved: this.#moved,
    };
  }

  async join() {
    await this.#participation.register();
    await this.#place.replace(JOINED, null, Uint8Array.of(1));
  }

  /** What was released stays in use; the gateway forgets this browser's key. Where it cannot be told, nothing changes. */
  async leave() {
    try {
      await this.#participation.leave();
    } catch (error) {
      if (!(error instanceof RefusedError && error.code === "unknown_device")) throw error; // else it is forgotten
    }
    await this.#place.replace(JOINED, Uint8Array.of(1), null);
  }

  /** Ask for an offer, take part where there is one, and use what was released. */
  once(onStep) {
    return navigator.locks.request(TAB, { ifAvailable: true }, async (lock) => {
      const idle = { what: "idle", detail: "", round: null, retryAfter: UNKNOWN, isNew: false };
      if (lock === null || !(await this.#joined())) return idle;
      const closing = [];
      try {
        const outcome = await this.#participation.takePart(() => this.#device(closing, onStep));
        return { ...outcome, isNew: await this.#refresh() };
      } finally {
        for (const one of closing) await one.close();
      }
    });
  }

  async #device(closing, onStep) {
    const { bundle, store } = this.#learner;
    const encoder = await load("bundle/", this.#key);
    closing.push(encoder);
    const step = await this.#learner.openStep();
    closing.push(step);
    return new Device({
      encoder,
      step,
      documents: this.#index.vectors(),
      manifest: bundle.manifest,
      store,
      releases: this.#releases,
      policy: POLICY,
      readings: new PageReadings(),
      onStep,
    });
  }

  /** Whether there is a newer release, which is in use then. */
  async #refresh() {
    try {
      const { manifest } = this.#learner.bundle;
      const take = (release) => this.#takeUp(release); // where that fails, the next time again
      return (await this.#participation.refresh(manifest, this.#releases, take)) !== null;
    } catch (error) {
      if (error instanceof RefusedError && error.code === "no_release") return false;
      throw error;
    }
  }

  async #takeUp(release) {
    const moved = await this.#learner.rebase(release);
    this.#moved = release.version === this.#learner.bundle.manifest.encoderVersion ? null : moved;
  }

  async #joined() {
    return (await this.#place.read(JOINED)) !== null;
  }
}
