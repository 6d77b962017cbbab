/** Nothing that answers in a gateway's place ends a device, or is put in force; Python's test_odd_answers.py. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import { InvalidInputError } from "pocketquery";
import {
  GatewayConnection,
  join,
  type JoinOptions,
  MemoryPlace,
  type Outcome,
  Participation,
  RefusedError,
  RELEASE,
  TrustedReleases,
} from "pocketquery/gateway";
import { Bundle, FolderSource } from "pocketquery/node";
import { packAdapter } from "pocketquery/training";
import { TINY } from "../fixtures.js";

type Reply = (request: IncomingMessage, response: ServerResponse) => void;

const { manifest } = await Bundle.open(new FolderSource(TINY));
const tensors = new Map([["t", { shape: [1], data: Float32Array.of(1) }]]);
const release = await packAdapter(tensors, { manifest, version: "1" });
const digest = createHash("sha256").update(release).digest("hex");
const [OFFER, DEVICE, CURRENT, FILE] = ["/v1/offer", "/v1/device", "/v1/releases/current", `/v1/releases/${digest}`];

function said(status: number, body: unknown = "", headers: Record<string, string> = {}): Reply {
  const data = typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body);
  return (_, response) => response.writeHead(status, headers).end(data);
}

/** These bytes, and no more. */
function raw(data: string): Reply {
  return (_, response) => void response.socket?.end(data, "latin1");
}

const current = { version: "1", sha256: digest, bytes: release.length, path: "", lineage: "" };
const GOOD: Record<string, Reply> = {
  [OFFER]: said(200, { offer: null, retry_after: 7 }),
  [DEVICE]: said(200, { registered: true }),
  [CURRENT]: said(200, current, { etag: '"1"' }),
  [FILE]: said(200, Buffer.from(release)),
};
const HTML = "<html>Sign in to the hotel's network</html>";

// Without 421, which fetch sends again by itself.
const ANYWHERE: Record<string, Reply> = {
  ...Object.fromEntries([202, 206, 226, 299, 300, 304].map((status) => [`status ${status}`, said(status)])),
  ...Object.fromEntries([301, 302, 303, 307, 308].map((status) => [`redirect ${status}`, said(status, "", { location: "/" })])),
  ...Object.fromEntries(
    [400, 401, 403, 404, 405, 409, 418, 422, 451, 500, 501, 511, 599].map((status) => [`refusal ${status}`, said(status, HTML)]),
  ),
  "codes that are none": said(500, { code: ["x"], detail: { a: 1 } }),
  "a portal": said(200, HTML, { "content-type": "text/html" }),
  oversized: said(200, Buffer.alloc(3 << 20)),
  truncated: raw("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{"),
  reset: (request) => request.socket.resetAndDestroy(),
  "no HTTP": raw("SSH-2.0-OpenSSH_9.6\r\n"),
  "many headers": raw(`HTTP/1.1 200 OK\r\n${"a: b\r\n".repeat(10_000)}\r\n`),
  "a bad chunk": raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n"),
};
const OF_JSON: Record<string, Reply> = {
  empty: said(200),
  204: said(204),
  "a list": said(200, []),
  null: said(200, null),
  gzip: said(200, gzipSync("{}")),
  "another gzip": said(200, "{}", { "content-encoding": "gzip" }),
  "UTF-16": said(200, Buffer.from('{"offer": null, "retry_after": 0}', "utf16le")),
  "no UTF-8": said(200, Buffer.from([123, 34, 255, 34, 58, 49, 125])),
  deep: said(200, '{"a":'.repeat(5000)),
  NaN: said(200, '{"offer": null, "retry_after": NaN}'),
  "a long number": said(200, `{"offer": null, "retry_after": ${"9".repeat(5000)}}`),
};
const OFFERS: Record<string, Reply> = Object.fromEntries(
  [
    {},
    { offer: null },
    { offer: null, retry_after: -1 },
    { offer: null, retry_after: "soon" },
    { offer: null, retry_after: 1e9 },
    { offer: [], retry_after: 0 },
    { offer: {}, retry_after: 0 },
    { offer: "none", retry_after: 0 },
    { offer: { round: "3", release: [] }, retry_after: 0 },
  ].map((found) => [`offer ${JSON.stringify(found)}`, said(200, found)]),
);
const RELEASES: Record<string, Reply> = Object.fromEntries(
  ["é".repeat(10), "٣".repeat(64), "../../secret", digest.toUpperCase(), "", 7, null, []]
    .map((sha256) => [`named ${JSON.stringify(sha256)}`, said(200, { ...current, sha256 })]),
);
const CASES = [
  ...Object.entries({ ...ANYWHERE, ...OF_JSON, ...OFFERS }).map((one) => [OFFER, ...one] as const),
  ...Object.entries({ ...ANYWHERE, ...OF_JSON }).map((one) => [DEVICE, ...one] as const),
  ...Object.entries({ ...ANYWHERE, ...OF_JSON, ...RELEASES }).map((one) => [CURRENT, ...one] as const),
  ...Object.entries({ ...ANYWHERE, 204: said(204), "half a file": said(200, Buffer.from(release.slice(9))) })
    .map((one) => [FILE, ...one] as const),
  [CURRENT, "a lineage that is none", said(200, { ...current, lineage: "!!!" })] as const,
  [CURRENT, "a lineage of another kind", said(200, { ...current, lineage: 7 })] as const,
];

const forgotten = said(403, { code: "unknown_device", detail: "" });
let odd: { path: string; reply: Reply; left: number } | null = null;
let isForgotten = false;
const server = createServer((request, response) => {
  request.resume().on("end", () => {
    const path = request.url ?? "";
    const isOdd = odd !== null && odd.path === path && odd.left-- > 0;
    if (isForgotten && path === OFFER) forgotten(request, response);
    else if (isOdd) odd?.reply(request, response);
    else GOOD[path]?.(request, response);
    if (path === DEVICE && !isOdd) isForgotten = false;
  });
});
before(() => new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve)));
after(() => {
  server.closeAllConnections();
  server.close();
});

interface Ran {
  readonly pauses: number[];
  readonly failures: unknown[];
  readonly outcomes: Outcome[];
  readonly place: MemoryPlace;
}

/** Join for so many pauses. */
async function ran(count: number, options: Partial<JoinOptions> = {}): Promise<Ran> {
  const [place, stop] = [new MemoryPlace(), new AbortController()];
  const found: Ran = { pauses: [], failures: [], outcomes: [], place };
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const connection = new GatewayConnection(address, await place.signer(), { attempts: 1, sleep: async () => {} });
  await join(new Participation(connection, place), {
    device: async () => assert.fail("it was trained"),
    manifest,
    releases: await TrustedReleases.open(place),
    signal: stop.signal,
    random: () => 0,
    sleep: async (seconds) => {
      if (found.pauses.push(seconds) >= count) stop.abort();
    },
    onFailure: (error) => void found.failures.push(error),
    onOutcome: (outcome) => void found.outcomes.push(outcome),
    ...options,
  });
  return found;
}

test("an odd answer is told, and asked for again", async (context) => {
  for (const [path, name, reply] of CASES) {
    await context.test(`${path} ${name}`, async () => {
      isForgotten = path === DEVICE;
      odd = { path, reply, left: 3 };
      const taken: string[] = [];
      const { pauses, failures, place } = await ran(4, { take: ({ version }) => taken.push(version) });
      assert.deepEqual(pauses, [30, 60, 120, 7]);
      assert.equal(failures.length, 3);
      for (const error of failures) assert.ok(error instanceof Error);
      assert.deepEqual(taken, ["1"]);
      assert.deepEqual(Buffer.from((await place.read(RELEASE)) ?? []), Buffer.from(release));
    });
  }
});

test("a gateway that wants evidence is asked again", async () => {
  for (const code of ["attestation", "attestation_needed"]) {
    isForgotten = true;
    odd = { path: DEVICE, reply: said(403, { code, detail: "" }), left: 3 };
    const { pauses, failures } = await ran(4);
    assert.deepEqual(pauses, [30, 60, 120, 7]);
    for (const error of failures) assert.ok(error instanceof RefusedError && error.code === code);
  }
  isForgotten = false;
});

test("a device that cannot be made as the app says ends it, and one that fails does not", async () => {
  const local = { limits: {} };
  const offer = {
    format: "pocketquery-offer", version: "1", round: 7, release: digest, clip_norm: 1, largest_weight: 1,
    compress: true, local, lineage: "", announcement: "",
  };
  const offered = { path: OFFER, reply: said(200, { offer, retry_after: 0 }), left: 3 };
  odd = { ...offered };
  const wrong = async (): Promise<never> => {
    throw new InvalidInputError("there is no such policy");
  };
  await assert.rejects(ran(4, { device: wrong }), /there is no such policy/);
  odd = { ...offered };
  const fails = async (): Promise<never> => {
    throw new RangeError("out of memory");
  };
  const { pauses, failures } = await ran(4, { device: fails });
  assert.deepEqual(pauses, [30, 60, 120, 7]);
  assert.deepEqual(failures.map(String), Array(3).fill("RangeError: out of memory"));
});

test("it ends where it is stopped, also while it waits", async () => {
  const stop = new AbortController();
  odd = null;
  const sleep = () => {
    setTimeout(() => stop.abort());
    return new Promise<never>(() => {});
  };
  const { outcomes } = await ran(9, { signal: stop.signal, sleep });
  assert.deepEqual(outcomes.map(({ what }) => what), ["idle"]);
});
