/** Star, name, note and pin on a run's page. */

import {ApiError} from "../../lib/api.js";
import {editLabels, toggleStar} from "./labels.js";
import {wirePins} from "../ghosts/ghosts.js";

/** @param {HTMLElement} bar [data-label-bar] */
export function wireLabels(bar) {
  const say = (words) => (bar.querySelector("[data-label-said]").textContent = words);
  wirePins(bar, say);
  bar.addEventListener("click", (event) => {
    const star = event.target.closest("[data-star]");
    const edit = event.target.closest("[data-edit]");
    if (star) toggleStar(star).catch((error) => fail(error, say));
    if (edit) editLabels(edit, bar, () => location.reload());
  });
}

function fail(error, say) {
  if (!(error instanceof ApiError)) throw error;
  say(error.message);
}
