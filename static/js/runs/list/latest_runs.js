/** The table of the latest runs on Train; the server makes it, what differed included. */

import {showTimes} from "../../lib/format.js";

/** @param {HTMLElement} box holds the table and says where it comes from */
export async function refreshLatest(box) {
  const response = await fetch(box.dataset.latestRuns).catch(() => null);
  if (!response?.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  box.replaceChildren(...fresh.body.children);
  showTimes(box);
}
