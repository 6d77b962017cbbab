/**
 * A device's part in rounds through a gateway: register, take an offer, send the result, fetch
 * the release in force; Python's `pocketquery_join/participation.py`. What the device does with an
 * offer is device.ts's.
 */

import { type AdapterRelease, LARGEST_RELEASE } from "../bundle/adapter.js";
import type { Manifest } from "../bundle/manifest.js";
import { sha256 } from "../platform/hashing.js";
import {
  ArtifactError,
  CorruptArtifactError,
  RollbackError,
  SignatureError,
  SpaceMismatchError,
  UnsupportedVersionError,
} from "../errors.js";
import { encodeUtf8 } from "../utf8.js";
import { type Asked, checkVerdict, type GatewayConnection, jsonOf, RefusedError } from "./connection.js";
import type { Answering, Declined } from "./device.js";
import { type Offer, readOfferMessage, UnusableOfferError } from "./offer.js";
import { type DevicePlace, RELEASE } from "./place.js";
import { isPrivate, noteOver, PrivateRound, unfinished } from "./private_round.js";
import { fromBase64 } from "../platform/base64.js";
import { checkText } from "../texts.js";
import type { TrustedReleases } from "./trusted_releases.js";

const OCTETS = { "content-type": "application/octet-stream" };
const PRIVATE = "a private round (a secure sum) was offered, and this device takes part in plain rounds alone";
const JSON_TYPE = { "content-type": "application/json" };
const UNTRUSTED = [CorruptArtifactError, SignatureError, RollbackError, SpaceMismatchError];

/** The reply to a request for an offer. */
export interface Outcome {
  /** "idle": there was none; "over": somebody else was faster, or the time was up. */
  readonly what: "idle" | "declined" | "accepted" | "left out" | "over";
  /** Why, in words; for this device's log alone. */
  readonly detail: string;
  /** The round, null where there was none. */
  readonly round: number | null;
  /** Seconds until asking again is of use. */
  readonly retryAfter: number;
}

/** What takes a release up: `(release) => encoder.swapAdapter(release)`. */
export type Take = (release: AdapterRelease) => unknown;

/** A device at its gateway; `place` gets the release to search with. */
export class Participation {
  readonly #connection: GatewayConnection;
  readonly #place: DevicePlace;
  #etag = ""; // of what the gateway last said of the release
  #given = ""; // SHA-256 of the release that was last handed out: the place is all tabs'

  constructor(connection: GatewayConnection, place: DevicePlace) {
    this.#connection = connection;
    this.#place = place;
  }

  /** What an app's attestation is made over, with the device's key: see docs/gateway.md. */
  async challenge(): Promise<string> {
    const answer = await this.#connection.ask("POST", "/v1/challenge", { signed: false });
    return jsonOf(answer, "the gateway's challenge").text("challenge", 200);
  }

  /**
   * Register this device's key; whether it is new there. Again changes nothing.
   *
   * Throws RefusedError (the gateway wants evidence, or has no room), CorruptArtifactError (what answers
   * is no gateway) or ArtifactError (it cannot be reached).
   */
  async register(evidence?: { readonly attestation: unknown; readonly challenge: string }): Promise<boolean> {
    const body = encodeUtf8(JSON.stringify(evidence ?? {}));
    const answer = await this.#connection.ask("PUT", "/v1/device", { body, headers: JSON_TYPE });
    if (new Map(jsonOf(answer, "the gateway's answer").entries()).get("registered") !== true) {
      throw new CorruptArtifactError("the gateway does not say that this device is registered");
    }
    return answer.status === 201;
  }

  /** Have the gateway forget this device's key. Throws as `register`. */
  async leave(): Promise<void> {
    await this.#connection.ask("DELETE", "/v1/device");
  }

  /**
   * Ask for an offer and, where there is one, let `device` answer it and send what it says; `device`
   * may be made only then. A key that the gateway does not know (any more) is registered first.
   *
   * In a private round this returns when the last stage is answered, minutes later. A page that is
   * closed in between goes on where it was with the next call.
   *
   * Throws RefusedError, CorruptArtifactError (what came is not of this version, or was changed) or
   * ArtifactError (the gateway cannot be reached).
   */
  async takePart(device: Answering | (() => Promise<Answering>)): Promise<Outcome> {
    const made = async (): Promise<Answering> => (typeof device === "function" ? device() : device);
    if (typeof device !== "function" && isPrivate(device)) await device.standing(); // forgets what is over
    const begun = await unfinished(this.#place);
    if (begun !== null) {
      const outcome = await this.#private(await made(), begun, (round) => round.goOn());
      if (outcome.what !== "over") return outcome; // else the gateway knows no more of it, and may have another
    }
    let asked: Awaited<ReturnType<typeof readOfferMessage>>;
    try {
      asked = await this.#ask();
    } catch (error) {
      if (!(error instanceof UnusableOfferError)) throw error;
      return this.#decline(error.round, error.message);
    }
    const { offer, retryAfter } = asked;
    if (offer === null) return { what: "idle", detail: "", round: null, retryAfter };
    const release = await this.#offered(offer);
    const answering = await made();
    if (offer.announcement.length > 0) {
      return this.#private(answering, offer.round, (round) => round.begin(offer, release));
    }
    const given = await answering.answer(offer, release);
    if ("declined" in given) return this.#decline(offer.round, given.declined);
    const figures = Object.keys(given.figures).length > 0 ? JSON.stringify(given.figures) : null;
    return this.#send(offer.round, "update", "accepted", "", {
      body: given.update,
      headers: OCTETS,
      figures,
    });
  }

  /**
   * The release to search with, where it is another than this object handed out last, by `kept` or
   * here: for `encoder.swapAdapter`; or null where nothing is new. Fetched where the place, which
   * several tabs may share, does not have it, and kept there. A question of a few bytes where the
   * gateway says what it said before.
   *
   * `take`: takes it up before it counts as handed out. What it throws is thrown, and the next call hands
   * the release out again.
   *
   * Throws RollbackError, SignatureError, SpaceMismatchError (it is not one to trust),
   * CorruptArtifactError (it was changed on the way), RefusedError (there is none yet), ArtifactError.
   */
  async refresh(manifest: Manifest, releases: TrustedReleases, take: Take = () => undefined): Promise<AdapterRelease | null> {
    const headers: Record<string, string> = this.#etag ? { "if-none-match": this.#etag } : {};
    const answer = await this.#connection.ask("GET", "/v1/releases/current", { signed: false, headers });
    if (answer.status === 304) return null;
    const said = jsonOf(answer, "the gateway's release");
    const lineage = lineageOf(new Map(said.entries()).get("lineage"));
    let wanted = said.text("sha256", 64);
    if (lineage.length > 0 && releases.publicKey !== null) {
      await releases.follow(lineage, manifest);
      // In a roll-out this device may be among those that keep the release before.
      wanted = (await releases.target(manifest))?.sha256 ?? wanted;
    }
    const here = await this.#place.read(RELEASE);
    const isHere = here !== null && (await sha256(here)) === wanted;
    let release: AdapterRelease | null = null;
    if (!isHere || this.#given !== wanted) {
      const data = isHere ? here : await this.#release(wanted);
      release = await releases.releaseForSearch(data, lineage, manifest);
      // Where another tab was faster, what it put there is the same, or newer and checked too.
      if (!isHere) await this.#place.replace(RELEASE, here, data);
    }
    if (release !== null) await take(release);
    [this.#given, this.#etag] = [wanted, answer.etag];
    return release;
  }

  /**
   * The release that `refresh` kept, for a page that is opened again; null where there is none, or
   * where it is not one to trust any more, which removes it, or a newer version's. Asks nobody. `take` as
   * of `refresh`.
   *
   * Throws ArtifactError (the place cannot be read or written); the release stays there.
   */
  async kept(manifest: Manifest, releases: TrustedReleases, take: Take = () => undefined): Promise<AdapterRelease | null> {
    const data = await this.#place.read(RELEASE);
    if (data === null) return null;
    let release: AdapterRelease;
    try {
      release = await releases.releaseForSearch(data, new Uint8Array(), manifest);
    } catch (error) {
      if (error instanceof UnsupportedVersionError) return null; // a newer tab's, which can read it
      if (!UNTRUSTED.some((untrusted) => error instanceof untrusted)) throw error;
      await this.#place.replace(RELEASE, data, null); // of a bundle since replaced, or replaced itself
      return null;
    }
    await take(release);
    this.#given = release.sha256;
    return release;
  }

  async #ask(): Promise<Awaited<ReturnType<typeof readOfferMessage>>> {
    const ask = async () => readOfferMessage((await this.#connection.ask("GET", "/v1/offer")).body);
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof RefusedError && error.code === "unknown_device")) throw error;
      await this.register();
      return ask();
    }
  }

  /** What comes of `work` in a private round. */
  async #private(
    device: Answering,
    number: number,
    work: (round: PrivateRound) => Promise<Declined | null>,
  ): Promise<Outcome> {
    const over = (): Promise<void> => noteOver(this.#place, number);
    if (!isPrivate(device)) {
      await over();
      return this.#decline(number, PRIVATE);
    }
    const round = new PrivateRound(this.#connection, this.#place, device, number);
    const told = async (): Promise<Outcome> => {
      const declined = await work(round);
      await over();
      if (declined !== null) return this.#decline(number, declined.declined);
      return { what: "accepted", detail: "", round: number, retryAfter: 0 };
    };
    return this.#told(number, told, async () => {
      await device.giveUp(number); // first: where it fails, the next call goes on to here
      await over();
    });
  }

  #decline(round: number, reason: string): Promise<Outcome> {
    return this.#send(round, "declined", "declined", reason, {});
  }

  async #send(
    round: number,
    path: "update" | "declined",
    what: Outcome["what"],
    detail: string,
    asked: Asked,
  ): Promise<Outcome> {
    return this.#told(round, async () => {
      const answer = await this.#connection.ask("PUT", `/v1/rounds/${round}/${path}`, asked);
      checkVerdict(answer, path === "update" ? "accepted" : null);
      return { what, detail, round, retryAfter: 0 };
    });
  }

  /** What comes of `work`; where the gateway takes no reply for this round any more, what it says. */
  async #told(round: number, work: () => Promise<Outcome>, over = async () => {}): Promise<Outcome> {
    try {
      return await work();
    } catch (error) {
      const said = error instanceof ArtifactError && error.cause instanceof RefusedError ? error.cause : error;
      if (!(said instanceof RefusedError)) throw error;
      // A buffered round's next step may never have begun.
      const isOver = said.code === "round_over" || said.code === "between_steps";
      const what = isOver ? "over" : said.status === 422 && said.code ? "left out" : null;
      if (what === null) throw error;
      await over();
      return { what, detail: said.message, round, retryAfter: 0 };
    }
  }

  /** The offered release: the one that is here, or the gateway's. */
  async #offered(offer: Offer): Promise<Uint8Array> {
    const here = await this.#place.read(RELEASE);
    if (here !== null && (await sha256(here)) === offer.releaseSha256) return here;
    return this.#release(offer.releaseSha256);
  }

  async #release(digest: string): Promise<Uint8Array> {
    if (!/^[0-9a-f]{64}$/.test(digest)) {
      const found = JSON.stringify(digest.slice(0, 80));
      throw new CorruptArtifactError(`a release is named ${found}, expected its SHA-256 in hexadecimal digits`);
    }
    const { body } = await this.#connection.ask("GET", `/v1/releases/${digest}`, { signed: false });
    if (body.length > LARGEST_RELEASE || (await sha256(body)) !== digest) {
      throw new CorruptArtifactError(
        `the release ${digest.slice(0, 16)} came as ${body.length} bytes with another SHA-256; fetch ` +
          "it again",
      );
    }
    return body;
  }
}

function lineageOf(found: unknown = ""): Uint8Array {
  try {
    return fromBase64(checkText(found, "the gateway's lineage"));
  } catch (error) {
    throw new CorruptArtifactError("the gateway's lineage is no base64", { cause: error });
  }
}
