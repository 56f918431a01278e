/** The visitor's runs: those that train move on by themselves, one can be deleted. */

import {ApiError, deleteJson} from "../lib/api.js";
import {showTimes} from "../lib/times.js";

const REFRESH_MS = 3000;

const page = document.querySelector("[data-runs-page]");
const list = page.querySelector("[data-runs]");

showTimes(page);
page.addEventListener("click", (event) => {
  const button = event.target.closest("[data-delete]");
  if (button) forget(button);
});
setTimeout(refresh, REFRESH_MS);

async function forget(button) {
  button.disabled = true;
  const title = button.closest("tr").querySelector("th a").textContent;
  try {
    await deleteJson(button.dataset.delete);
    say(`Deleted ${title}.`);
    await reload();
    page.querySelector("h1").focus();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    button.disabled = false;
    say(error.message);
  }
}

function say(text) {
  page.querySelector("[data-said]").textContent = text;
}

/** Nothing is replaced under the visitor's hand: not while a row is opened or focused. */
async function refresh() {
  const busy = document.hidden || list.querySelector("details[open]") || list.contains(document.activeElement);
  if (!busy && list.querySelector("[data-active]")) await reload();
  setTimeout(refresh, REFRESH_MS);
}

async function reload() {
  const response = await fetch(location.href).catch(() => null);
  if (!response?.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  list.replaceChildren(...fresh.querySelector("[data-runs]").childNodes);
  showTimes(list);
}
