/** List of the visitor's runs: search, sort, labels, pins, and deletion with ten seconds to undo. */

import {ApiError, deleteJson} from "../lib/api.js";
import {showTimes} from "../lib/format.js";
import {editLabels, toggleStar} from "../runs/list/labels.js";
import {showPins, wirePins} from "../runs/ghosts/ghosts.js";
import {Selection} from "../runs/list/selection.js";
import {Unfolded} from "../runs/list/unfolded.js";
import {UndoLines} from "../runs/list/undo.js";

const REFRESH_MS = 3000;
const TYPING_MS = 250;

const page = document.querySelector("[data-runs-page]");
const list = page.querySelector("[data-runs]");
const tools = page.querySelector("[data-run-tools]");
const undo = new UndoLines(page.querySelector("[data-undo-place]"), {
  onUndone: () => reload().then(() => say("Restored.")).then(toHeading),
  onError: fail,
  onGone: toHeading,
});
const selection = new Selection(list);
const unfolded = new Unfolded(list);
let requests = 0;
let typing;

showTimes(page);
wirePins(page, say);
page.addEventListener("click", (event) => {
  for (const [name, act] of Object.entries(ACTS)) {
    const part = event.target.closest(`[data-${name}]`);
    if (part) act(part, event);
  }
});
tools?.addEventListener("input", (event) => {
  if (event.target.matches("[data-sort-by]")) {
    tools.elements.sort.value = event.target.value;
    tools.elements.order.value = event.target.selectedOptions[0].dataset.order;
  }
  clearTimeout(typing);
  typing = setTimeout(find, event.target.type === "search" ? TYPING_MS : 0);
});
tools?.addEventListener("submit", (event) => {
  event.preventDefault();
  find();
});
addEventListener("pageshow", (event) => event.persisted && reload()); // after a return by the back button, the list is outdated
setTimeout(refresh, REFRESH_MS);

const ACTS = {
  delete: (button) => remove(button).catch(fail),
  star: (button) => toggleStar(button).catch(fail),
  edit: (button) => editLabels(button, button.closest("tr").querySelector("th"), reload),
  sort: (link, event) => {
    event.preventDefault();
    tools.elements.sort.value = link.dataset.sort;
    tools.elements.order.value = link.dataset.order;
    find().then(() => list.querySelector(`[data-sort="${link.dataset.sort}"]`)?.focus());
  },
};

async function remove(button) {
  button.disabled = true;
  await deleteJson(button.dataset.delete).finally(() => (button.disabled = false));
  await reload();
  undo.focus();
}

/** Show the runs that match the controls, and update the address. */
async function find() {
  const query = new URLSearchParams([...new FormData(tools)].filter(([, value]) => value));
  if (query.get("sort") === "date" && query.get("order") === "desc") {
    query.delete("sort");
    query.delete("order");
  }
  history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}`);
  await reload();
  say(`${list.querySelectorAll("[data-run]").length} runs shown.`);
}

function say(text) {
  page.querySelector("[data-said]").textContent = text;
}

function fail(error) {
  if (!(error instanceof ApiError)) throw error;
  say(error.message);
}

function toHeading() {
  page.querySelector("h1").focus();
}

/** Refresh the list unless a part of it is open or focused. */
async function refresh() {
  const busy = document.hidden || list.querySelector("details[open]") || list.contains(document.activeElement);
  if (!busy && list.querySelector("[data-active]")) await reload();
  setTimeout(refresh, REFRESH_MS);
}

/** Load the list; only the response to the latest request is used. */
async function reload() {
  requests += 1;
  const request = requests;
  const response = await fetch(location.href).catch(() => null);
  if (!response?.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  if (request !== requests) return;
  list.replaceChildren(...fresh.querySelector("[data-runs]").childNodes);
  undo.replace([...fresh.querySelector("[data-undo-place]").childNodes]);
  showTimes(list);
  showPins(list);
  selection.restore();
  unfolded.show();
}
