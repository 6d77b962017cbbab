/** The page's side of rounds with others: asked for plainly, shown whole, ended with one click. */

const $ = (id) => document.getElementById(id);
const LEAST_WAIT = 1; // seconds between two questions
const [FIRST_PAUSE, LONGEST_PAUSE] = [30, 900]; // seconds, where the gateway gives no usable answer

let call = null;
let changed = () => undefined;
let running = false;

/** Show how it stands, and wire the buttons; `onChange` is told when results may differ. */
export async function startRounds(caller, onChange) {
  call = (method, ...args) => caller.call(method, args);
  changed = onChange;
  $("join").addEventListener("click", () => during("Registering…", "join", "This browser takes part."));
  $("leave").addEventListener("click", () =>
    during("Leaving…", "leave", "This browser takes part no more. What was released stays in use."),
  );
  // The user may agree to keep searches, or withdraw that, at any time.
  new MutationObserver(() => refresh(caller)).observe($("ask"), { attributeFilter: ["hidden"] });
  new MutationObserver(() => refresh(caller)).observe($("kept-count"), { childList: true });
  await refresh(caller);

  async function during(begun, method, ended) {
    for (const id of ["join", "leave"]) $(id).disabled = true;
    say(begun);
    try {
      await call(method);
      say(ended);
    } catch (error) {
      say(`That did not work: ${error.message}`);
    }
    for (const id of ["join", "leave"]) $(id).disabled = false;
    await refresh(caller);
    $("rounds-title").focus();
  }
}

function say(text) {
  $("rounds-said").textContent = text;
}

async function refresh(caller) {
  const state = await call("rounds");
  $("rounds").hidden = !state.available || !state.consent;
  if (!state.available) return;
  const { joined, gateway, missing, version, moved } = state;
  $("gateway").textContent = gateway;
  $("rounds-ask").hidden = joined;
  $("rounds-joined").hidden = !joined;
  $("rounds-version").textContent =
    moved === null
      ? `version ${version}, the publisher's first`
      : `version ${version}, released by rounds; texts of all kinds moved by ${moved.toPrecision(2)} (1 − cosine)`;
  Object.assign($("rounds-version").dataset, { version, moved: moved ?? 0 });
  $("rounds-needed").textContent =
    missing > 0 ? `${missing} more different searches with an opened result are needed to take part.` : "";
  if (joined && state.consent) run(caller);
}

/** Ask, train, send and fetch, until the user has enough of it. */
async function run(caller) {
  if (running) return;
  running = true;
  const bar = $("rounds-training");
  const onMessage = ({ done, steps }) => {
    bar.hidden = false;
    bar.value = done / steps;
  };
  try {
    for (let missed = 0; ; ) {
      let wait = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** missed) * (1 + Math.random() / 2);
      try {
        const { what, detail, round, retryAfter, isNew } = await caller.call("takePart", [], { onMessage });
        [wait, missed] = [retryAfter, 0];
        if (what !== "idle") tell(what, detail, round);
        if (isNew) changed();
      } catch (error) {
        missed++;
        say(`The gateway did not answer as it should: ${error.message}`);
      }
      bar.hidden = true;
      const { joined, consent } = await call("rounds");
      if (!joined || !consent) break;
      await refresh(caller);
      await new Promise((done) => setTimeout(done, 1000 * Math.max(LEAST_WAIT, wait)));
    }
  } finally {
    running = false;
  }
}

function tell(what, detail, round) {
  const said = {
    accepted: "a change was sent and counts",
    declined: `nothing was sent: ${detail}`,
    "left out": `what was sent does not count: ${detail}`,
    over: "it was over before a change was there",
  };
  $("rounds-last").textContent = `round ${round + 1}: ${said[what]}`;
  $("rounds-last").dataset.what = what;
}
