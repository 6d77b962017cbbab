/** Requests to a gateway that is busy, far off in time, gone, or not one at all. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { getEventListeners } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { ArtifactError, CorruptArtifactError, InvalidInputError } from "pocketquery";
import { type ConnectionOptions, GatewayConnection, MemoryPlace, Participation, RefusedError } from "pocketquery/gateway";

type Reply = (request: IncomingMessage, response: ServerResponse) => void;

function problem(status: number, code: string, headers: Record<string, string> = {}): Reply {
  return (_, response) => response.writeHead(status, headers).end(JSON.stringify({ code, detail: "why" }));
}

/** Call `work` with a connection to a server that replies in turn; then the requests that came. */
async function against(
  replies: Reply[],
  work: (connection: GatewayConnection, place: MemoryPlace) => Promise<void>,
  options: ConnectionOptions = {},
): Promise<{ requests: IncomingMessage[]; pauses: number[] }> {
  const [requests, pauses]: [IncomingMessage[], number[]] = [[], []];
  const server = createServer((request, response) => {
    requests.push(request);
    request.resume().on("end", () => (replies.shift() ?? problem(500, "no_more"))(request, response));
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const place = new MemoryPlace();
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const sleep = async (seconds: number) => void pauses.push(seconds);
  try {
    await work(new GatewayConnection(address, await place.signer(), { sleep, ...options }), place);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  return { requests, pauses };
}

const fine: Reply = (_, response) => response.writeHead(200, { etag: '"x"' }).end("{}");

test("what is busy is asked again, later each time, and signed anew", async () => {
  const busy = [problem(503, "busy"), problem(429, "device_rate", { "retry-after": "30" }), problem(503, "journal")];
  const { requests, pauses } = await against([...busy, fine], async (connection) => {
    assert.equal((await connection.ask("GET", "/v1/offer")).etag, '"x"');
  });
  assert.equal(new Set(requests.map(({ headers }) => headers.signature)).size, 4);
  const [first = 0, second = 0, third = 0] = pauses;
  assert.ok(first >= 1 && first <= 1.5 && second >= 30 && second <= 45 && third >= 4 && third <= 6);
});

test("an answer that is too large is refused, also where the platform has no streams", async () => {
  const large = new ArrayBuffer((2 << 20) + 1);
  const whole = { status: 200, headers: new Headers(), body: null, arrayBuffer: async () => large } as Response;
  for (const answer of [new Response(large), whole]) {
    const asked = against([], async (connection) => void (await connection.ask("GET", "/v1/offer")), { fetch: async () => answer });
    await assert.rejects(asked, /^CorruptArtifactError: the gateway answered more than 2097152 bytes/);
  }
});

test("a device whose clock is off goes by the gateway's", async () => {
  const there = "Thu, 01 Jan 2026 00:00:00 GMT";
  const { requests } = await against(
    [problem(401, "not_in_time", { date: there }), fine],
    async (connection) => void (await connection.ask("GET", "/v1/offer")),
    { clock: () => 1000 },
  );
  const created = requests.map(({ headers }) => /created=(\d+)/.exec(String(headers["signature-input"]))?.[1]);
  assert.deepEqual(created, ["1000", String(Date.parse(there) / 1000)]);
});

test("a refusal is told at once, with the gateway's word for it", async () => {
  for (const [status, code] of [[422, "duplicate"], [403, "attestation_needed"], [409, "round_over"]] as const) {
    const { requests } = await against([problem(status, code)], async (connection) => {
      await assert.rejects(connection.ask("PUT", "/v1/device"), (error: RefusedError) => {
        return error instanceof RefusedError && error.status === status && error.code === code;
      });
    });
    assert.equal(requests.length, 1);
  }
  const strange: Reply = (_, response) => response.writeHead(404).end("<html>");
  await against([strange], async (connection) => {
    await assert.rejects(connection.ask("GET", "/"), /^RefusedError: the gateway refuses \(404 \): it does not say why/);
  });
});

test("what is too long, redirected or gone is an error", async () => {
  const long: Reply = (_, response) => response.end(new Uint8Array(3 << 20));
  await against([long], (connection) => assert.rejects(connection.ask("GET", "/"), CorruptArtifactError));
  const elsewhere: Reply = (_, response) => response.writeHead(302, { location: "/else" }).end();
  const { requests } = await against([elsewhere], (connection) => assert.rejects(connection.ask("GET", "/"), ArtifactError), {
    attempts: 1,
  });
  assert.equal(requests.length, 1);
  const signal = AbortSignal.abort();
  await against([fine], (connection) => assert.rejects(connection.ask("GET", "/"), { name: "AbortError" }), { signal });
  const place = new MemoryPlace();
  const gone = new GatewayConnection("http://127.0.0.1:9", await place.signer(), { attempts: 2, sleep: async () => {} });
  await assert.rejects(gone.ask("GET", "/"), /did not answer 2 times/);
});

test("a signal ends a pause at once, and no request leaves a listener on it", async () => {
  const controller = new AbortController();
  const { signal } = controller;
  const listeners = (): number => getEventListeners(signal, "abort").length;
  let asleep = false;
  const sleep = (): Promise<void> => {
    if (!asleep) return Promise.resolve();
    queueMicrotask(() => controller.abort(new Error("the page is closed")));
    return new Promise(() => undefined); // no end of its own
  };
  const busy = problem(503, "busy");
  const replies = [fine, busy, fine, problem(422, "duplicate"), fine, busy];
  await against(
    replies,
    async (connection) => {
      await connection.ask("GET", "/");
      await connection.ask("GET", "/");
      await assert.rejects(connection.ask("GET", "/"), RefusedError);
      await connection.ask("GET", "/");
      await connection.wait(1);
      assert.equal(listeners(), 0);
      asleep = true;
      await assert.rejects(connection.ask("GET", "/"), /^Error: the page is closed/);
    },
    { signal, sleep },
  );
});

test("an address is of https, or of this machine", async () => {
  const signer = await new MemoryPlace().signer();
  for (const address of ["http://gateway.example.org", "gateway", "ftp://a", "https://a/path", "https://a?b", "https://u@a"]) {
    assert.throws(() => new GatewayConnection(address, signer), InvalidInputError, address);
  }
  for (const options of [{ seconds: Infinity }, { seconds: 0 }, { attempts: 0 }, { attempt: 3 }] as never[]) {
    assert.throws(() => new GatewayConnection("https://a", signer, options), InvalidInputError);
  }
  for (const address of ["https://a", "https://a:8443/", "http://localhost:1", "http://[::1]:1"]) {
    assert.ok(new GatewayConnection(address, signer), address);
  }
});

test("a key that is not known is registered; an offer that cannot be trained with is declined", async () => {
  const local = { steps: 0, limits: {} };
  const given = {
    format: "pocketquery-offer", version: "1", round: 7, release: "0".repeat(64), clip_norm: 1, largest_weight: 1,
    compress: true, local, lineage: "", announcement: "",
  };
  const offered: Reply = (_, response) => response.end(JSON.stringify({ offer: given, retry_after: 0 }));
  const nothing: Reply = (_, response) => response.writeHead(204).end();
  const registered: Reply = (_, response) => response.end('{"registered": true}');
  const replies = [problem(403, "unknown_device"), registered, offered, nothing];
  const { requests } = await against(replies, async (connection, place) => {
    const outcome = await new Participation(connection, place).takePart(async () => assert.fail("it was trained"));
    assert.deepEqual([outcome.what, outcome.round], ["declined", 7]);
    assert.match(outcome.detail, /^steps is 0, expected a whole number from 1 to 10000/);
  });
  assert.deepEqual(requests.map(({ method, url }) => `${method} ${url}`), [
    "GET /v1/offer", "PUT /v1/device", "GET /v1/offer", "PUT /v1/rounds/7/declined",
  ]);
});

test("an update between two steps of a buffered round is kept and sent again", async () => {
  const release = Buffer.from("a release");
  const offer = {
    format: "pocketquery-offer",
    version: "1",
    round: 7,
    release: createHash("sha256").update(release).digest("hex"),
    clip_norm: 1.25,
    largest_weight: 256,
    compress: true,
    local: { limits: {} },
    lineage: "",
    announcement: "",
  };
  const said = (body: string | Buffer): Reply => (_, response) => response.writeHead(200).end(body);
  for (const [code, times, what] of [["between_steps", 1, "accepted"], ["between_steps", 2, "over"], ["journal", 2, null]] as const) {
    const refusals = Array.from({ length: times }, () => problem(503, code));
    const replies = [said(JSON.stringify({ offer, retry_after: 0 })), said(release), ...refusals, said('{"verdict": "accepted"}')];
    const { requests } = await against(
      replies,
      async (connection, place) => {
        const answer = async () => ({ update: new Uint8Array([1]), figures: {} });
        const turn = new Participation(connection, place).takePart({ answer });
        if (what === null) await assert.rejects(turn, ArtifactError);
        else assert.equal((await turn).what, what);
      },
      { attempts: 2 },
    );
    assert.deepEqual(requests.slice(2).map(({ url }) => url), Array(2).fill("/v1/rounds/7/update"), code);
  }
});
