/** Forms that create a class and join a class. */

import {ApiError, postJson} from "../../../static/js/lib/api.js";
import {showTimes} from "../../../static/js/lib/format.js";

const form = document.querySelector("[data-create], [data-join]");
const boxes = form.elements;
let isSending = false;

showTimes(document.querySelector("main"));
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (isSending) return;
  isSending = true;
  showErrors({});
  try {
    const {links} = "create" in form.dataset ? await create() : await join();
    location.assign(links.page);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const {fields} = error;
    showErrors(Object.keys(fields).some((name) => boxes[name]) ? fields : {"": error.message});
  } finally {
    isSending = false;
  }
});

function create() {
  return postJson("/api/v1/classes", {name: boxes.name.value.trim(), setup: boxes.setup.value.trim(), shares_runs: !boxes.shares_runs.checked});
}

function join() {
  const {code} = JSON.parse(document.getElementById("page-data").textContent);
  return postJson("/api/v1/classes/join", {code, nickname: boxes.nickname?.value ?? ""});
}

/** Show one message per field, and focus the first invalid field. */
function showErrors(messages) {
  for (const line of form.querySelectorAll("[data-error]")) {
    const name = line.dataset.error;
    line.textContent = messages[name] ?? "";
    line.hidden = !messages[name];
    if (!name) continue;
    if (messages[name]) boxes[name].setAttribute("aria-invalid", "true");
    else boxes[name].removeAttribute("aria-invalid");
  }
  form.querySelector("[aria-invalid]")?.focus();
}
