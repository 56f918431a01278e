/** Making a class. */

import {postJson} from "../../../static/js/lib/api.js";
import {showTimes} from "../../../static/js/lib/format.js";
import {wireForm} from "./forms.js";

const form = document.querySelector("[data-make]");

showTimes(document.querySelector("[data-classes-page]"));
wireForm(form, () => postJson("/api/v1/classes", body()));

/** What was typed; a box left empty is as usual, and what is no number is for the server to refuse. */
function body() {
  const filled = [...form.elements].filter(({name, type, value}) => name && type !== "checkbox" && value.trim() !== "");
  const values = filled.map((box) => [box.name, "integer" in box.dataset && Number.isInteger(Number(box.value)) ? Number(box.value) : box.value.trim()]);
  return {name: "", ...Object.fromEntries(values), shares_runs: !form.elements.shares_runs.checked};
}
