/** The page's side of learning: asked for plainly, shown whole, undone with one click. */

const $ = (id) => document.getElementById(id);

let call = null;
let changed = () => undefined;
let busy = false; // while what a button asked for is done

/** Show what is kept, and wire the buttons; `onChange` is told when results may differ. */
export async function startLearning(caller, onChange) {
  call = (method, ...args) => caller.call(method, args);
  changed = onChange;
  $("consent").addEventListener("click", () => during("consent", "Loading what learning needs…", consented));
  $("improve").addEventListener("click", () => during("improve", "Improving…", improved(caller)));
  for (const [id, method, said] of [
    ["undo", "undo", "The improvement is undone: the publisher's encoder is in use."],
    ["erase", "erase", "Everything that was kept is erased, and the improvement with it."],
    ["withdraw", "withdraw", "Erased. Nothing is kept any more."],
  ]) {
    $(id).addEventListener("click", () => during(id, "", async () => (await call(method), said)));
  }
  $("save").addEventListener("click", save);
  await refresh();
}

/** Keep that `opened` was opened among the results `shown` of `query`, where the user agreed. */
export async function keepOpened(query, shown, opened) {
  if (await call?.("opened", query, shown, opened)) await refresh();
}

async function consented() {
  await call("consent");
  return "From now on, what you open is kept in this browser.";
}

function improved(caller) {
  return async () => {
    const bar = $("training");
    bar.hidden = false;
    const onMessage = ({ done, steps }) => (bar.value = done / steps);
    try {
      const { kept, reason } = await caller.call("improve", [], { onMessage });
      return kept ? "Improved, and in use from now on." : `Nothing was changed: ${reason}.`;
    } finally {
      bar.hidden = true;
      bar.removeAttribute("value");
    }
  };
}

/** Do what a button asks for; say the result, and leave the focus where one can go on. */
async function during(id, begun, work) {
  const buttons = [...$("learning").querySelectorAll("button")];
  const hadFocus = $("learning").contains(document.activeElement);
  busy = true;
  for (const button of buttons) button.disabled = true;
  say(begun);
  let said;
  try {
    said = await work();
    changed();
  } catch (error) {
    said = `That did not work: ${error.message}`;
  }
  busy = false;
  for (const button of buttons) button.disabled = false;
  await refresh();
  say(said);
  const button = $(id);
  if (hadFocus) (button.checkVisibility?.() && !button.disabled ? button : $("learn-title")).focus();
}

function say(text) {
  $("taught").textContent = text;
}

/** Of what is loaded once the user wants to learn. */
function laterBytes() {
  return Object.values(self.SITE.files).reduce((sum, { bytes, later }) => sum + (later ? bytes : 0), 0);
}

async function refresh() {
  const state = await call("learning");
  $("learning").hidden = !state.available && !state.reason;
  if (!state.available) {
    $("ask").hidden = true;
    if (state.reason) say(`Not available: ${state.reason}`);
    return;
  }
  const { consent, searches, usable, least, improved: figures } = state;
  $("ask").hidden = consent;
  $("learn").hidden = !consent;
  $("bytes").textContent = `${(laterBytes() / 1e6).toFixed(1)} MB`;
  $("kept-count").textContent = searches === 1 ? "1 opened result" : `${searches} opened results`;
  const missing = least - usable;
  $("needed").textContent =
    missing > 0 ? `${missing} more different searches with an opened result are needed.` : "";
  $("improve").disabled = busy || missing > 0;
  $("undo").hidden = figures === null;
  $("improvement").className = figures === null ? "" : "good";
  $("improvement").textContent = figures === null ? "none" : told(figures);
  await list();
}

function told({ opened, before, after, time }) {
  const day = new Date(time).toLocaleDateString("en", { day: "numeric", month: "long" });
  return (
    `from ${opened} opened results, ${day}: by meaning they stood at place ${before.toFixed(1)} ` +
    `on average, now at ${after.toFixed(1)}`
  );
}

/** Everything that is kept, each to be forgotten by itself. */
async function list() {
  const rows = (await call("exported")).reverse();
  $("kept-list").replaceChildren(
    ...rows.map(({ query, title, time }) => {
      const [item, button] = [document.createElement("li"), document.createElement("button")];
      const when = time === null ? "" : `, ${new Date(1000 * time).toLocaleDateString("en")}`;
      const text = document.createElement("span");
      text.textContent = `“${query}” → ${title ?? "nothing"}${when} `;
      button.type = "button";
      button.disabled = busy;
      button.textContent = "Forget";
      button.setAttribute("aria-label", `Forget “${query}”`);
      button.addEventListener("click", () =>
        during("save", "", async () => {
          await call("forget", query);
          return "Forgotten, and the improvement that was made of it, too.";
        }),
      );
      item.append(text, button);
      return item;
    }),
  );
}

async function save() {
  const text = JSON.stringify(await call("exported"), null, 2);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "what-this-page-keeps.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
