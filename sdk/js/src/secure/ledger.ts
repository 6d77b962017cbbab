/**
 * The device's own privacy ledger: what private rounds have cost its user; the file `privacy.json` of
 * Python's `client/private/ledger.py`.
 *
 * A round is charged before anything of it is kept or sent, and nothing is ever refunded: a page that
 * is closed in between has paid for a round it was not in. The ledger holds no query, so erasing
 * queries leaves it. A ledger that cannot be read is not begun anew: that would be a refund.
 */

import { hexadecimal, sha256 } from "../platform/hashing.js";
import { ArtifactError, CorruptArtifactError, InvalidInputError, PocketQueryError } from "../errors.js";
import { Fields } from "../fields.js";
import { canonicalText } from "../gateway/canonical.js";
import { type DevicePlace, LEDGER } from "../gateway/place.js";
import { type Json, parseJson } from "../json.js";
import { byCodePoint } from "../python_text.js";
import { encodeUtf8 } from "../utf8.js";
import type { Binding, Privacy } from "./binding.js";
import type { Encoding } from "./encoding.js";
import { rhoOf } from "./noise.js";

const FORMAT = "pocketquery-privacy-ledger";
const VERSION = 1;
const UNIT = 1_000_000;
const LARGEST = 1 << 20;
const ATTEMPTS = 8; // of another tab that writes meanwhile
/** Orders of Renyi divergence that epsilon is the least over: 1 + 10^-3 ... 1 + 10^6. */
const ORDERS = Array.from({ length: 901 }, (_, i) => 1 + 10 ** ((i - 300) / 100));

/** What the ledger knows of one federation. */
export interface Account {
  /** The last round that a secret was drawn for; null before the first. No older one is answered. */
  readonly lastRound: number | null;
  /** Hexadecimal digest of its binding: the same round is answered under the same binding alone. */
  readonly binding: string;
  /** The last round that was charged; null before the first. */
  readonly lastMasked: number | null;
  /** The season that it was in. */
  readonly season: string;
  /** How many there were. */
  readonly seasons: number;
  /** In this season. */
  readonly participations: number;
  /** Zero-concentrated differential privacy, rho, of this season, in millionths. */
  readonly spent: number;
  /** Of all seasons. */
  readonly spentEver: number;
}

const EMPTY: Account = {
  lastRound: null, binding: "", lastMasked: null, season: "", seasons: 0, participations: 0, spent: 0, spentEver: 0,
};

/** `account` after a masked change in `round`, at `cost`; another season begins at nothing. */
export function charged(account: Account, round: number, privacy: Privacy, cost: number): Account {
  if (privacy.mode === "off") return { ...account, lastMasked: round };
  const isNew = account.season !== privacy.season || account.seasons === 0;
  const begun = isNew
    ? { ...account, season: privacy.season, seasons: account.seasons + 1, participations: 0, spent: 0 }
    : account;
  return {
    ...begun,
    lastMasked: round,
    participations: begun.participations + 1,
    spent: begun.spent + cost,
    spentEver: begun.spentEver + cost,
  };
}

/** What one masked change costs, rho in millionths, rounded up. */
export function costOf(privacy: Privacy, encoding: Encoding | null): number {
  const { mode, noiseMultiplier, countedOn } = privacy;
  if (mode === "off") return 0;
  if (encoding === null) return Math.ceil(UNIT / (2 * (noiseMultiplier * noiseMultiplier)));
  return Math.ceil(UNIT * rhoOf(noiseMultiplier, encoding, countedOn));
}

/**
 * The epsilon of `rho`-zCDP at `delta`: the least over orders of Renyi divergence of Canonne, Kamath
 * and Steinke, NeurIPS 2020, proposition 12.
 */
export function epsilonOf(rho: number, delta: number): number {
  if (rho <= 0) return 0;
  const found = ORDERS.map((order) => {
    return rho * order + Math.log1p(-1 / order) - (Math.log(delta) + Math.log(order)) / (order - 1);
  });
  return Math.max(0, Math.min(...found));
}

/** The accounts of a device by federation, in one small file at its place. */
export class Ledger {
  readonly #place: DevicePlace;

  constructor(place: DevicePlace) {
    this.#place = place;
  }

  /** That of a federation; an empty one where there is none yet. Throws CorruptArtifactError: damaged. */
  async account(federation: Uint8Array): Promise<Account> {
    return (await this.accounts()).get(hexadecimal(federation)) ?? EMPTY;
  }

  /** All accounts, by hexadecimal id of the federation. Throws as `account`. */
  async accounts(): Promise<ReadonlyMap<string, Account>> {
    return accountsOf(await this.#place.read(LEDGER), this.#place.name);
  }

  /**
   * Remember that a secret is drawn for this round under this binding; it is kept when this returns.
   * Throws InvalidInputError: the round, or a later one, had another. ArtifactError: no space.
   */
  async begin({ federation, round, digest }: Binding): Promise<void> {
    const beta = hexadecimal(digest);
    await this.#change(federation, (account) => {
      const last = account.lastRound ?? -1;
      if (round === last && beta === account.binding) return account;
      if (round <= last) {
        throw new InvalidInputError(
          `round ${round} is offered, but this device took part in round ${last} under another binding; ` +
            "expected a later one",
        );
      }
      return { ...account, lastRound: round, binding: beta };
    });
  }

  /** Charge the round; it is kept when this returns. Charged twice, it is charged once. */
  async charge({ federation, round, privacy, encoding }: Binding): Promise<void> {
    const cost = costOf(privacy, encoding);
    await this.#change(federation, (account) => {
      return account.lastMasked !== null && account.lastMasked >= round
        ? account
        : charged(account, round, privacy, cost);
    });
  }

  async #change(federation: Uint8Array, work: (account: Account) => Account): Promise<void> {
    const name = hexadecimal(federation);
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const data = await this.#place.read(LEDGER);
      const accounts = await accountsOf(data, this.#place.name);
      const before = accounts.get(name) ?? EMPTY;
      const after = work(before);
      if (after === before) return;
      const next = await packAccounts(new Map([...accounts, [name, after]]));
      if (await this.#place.replace(LEDGER, data, next)) return;
    }
    throw new ArtifactError(`${this.#place.name}: others write it all the time; try again`);
  }
}

async function packAccounts(accounts: ReadonlyMap<string, Account>): Promise<Uint8Array> {
  const sorted = [...accounts].sort(([a], [b]) => byCodePoint(a, b));
  const body = Object.fromEntries(
    sorted.map(([name, one]) => [
      name,
      {
        last_round: one.lastRound,
        binding: one.binding,
        last_masked: one.lastMasked,
        season: one.season,
        seasons: one.seasons,
        participations: one.participations,
        spent: one.spent,
        spent_ever: one.spentEver,
      },
    ]),
  );
  const digest = await digestOf(parseJson(JSON.stringify(body)));
  const file = { format: FORMAT, version: VERSION, sha256: digest, accounts: body };
  return encodeUtf8(`${JSON.stringify(file, null, 1)}\n`);
}

async function accountsOf(data: Uint8Array | null, place: string): Promise<Map<string, Account>> {
  if (data === null) return new Map();
  const name = `${place}: ${LEDGER}`;
  try {
    const fields = Fields.ofJson(data, name, LARGEST);
    fields.choice("format", [FORMAT]);
    fields.integer("version", VERSION, VERSION);
    const body = fields.child("accounts");
    if (fields.text("sha256") !== (await digestOf(new Map(body.entries())))) throw new InvalidInputError("another digest");
    return new Map(body.names().map((one) => [one, accountOf(body.child(one))]));
  } catch (error) {
    if (!(error instanceof PocketQueryError)) throw error;
    throw new CorruptArtifactError(
      `${name} is no ledger of this version, or was changed (${error.message.slice(0, 200)}). Private rounds ` +
        "are declined while it lies there; remove it, and what was spent is forgotten",
      { cause: error },
    );
  }
}

function accountOf(fields: Fields): Account {
  const found = new Map(fields.entries());
  const text = (name: string): string => (found.get(name) === "" ? "" : fields.text(name, 64));
  const round = (name: string): number | null => (found.get(name) === null ? null : fields.integer(name, 0));
  return {
    lastRound: round("last_round"),
    binding: text("binding"),
    lastMasked: round("last_masked"),
    season: text("season"),
    seasons: fields.integer("seasons", 0),
    participations: fields.integer("participations", 0),
    spent: fields.integer("spent", 0),
    spentEver: fields.integer("spent_ever", 0),
  };
}

/** As Python takes it: of JSON with sorted keys and blanks after commas and colons. */
function digestOf(body: Json): Promise<string> {
  return sha256(encodeUtf8(canonicalText(body, " ")));
}
