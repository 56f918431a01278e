/** Forms of classes: one message a field, the first at fault gets the keyboard. */

import {ApiError} from "../../../static/js/lib/api.js";

/**
 * Send a form and go where the answer leads.
 * @param {HTMLFormElement} form
 * @param {() => Promise<{links: {page: string}}>} send
 */
export function wireForm(form, send) {
  let sending = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (sending) return; // a second press while the first is on its way
    sending = true;
    showErrors(form, {});
    try {
      location.assign((await send()).links.page);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const {fields} = error;
      showErrors(form, Object.keys(fields).some((name) => form.elements[name]) ? fields : {"": error.message});
    } finally {
      sending = false;
    }
  });
}

function showErrors(form, messages) {
  for (const line of form.querySelectorAll("[data-error]")) {
    const name = line.dataset.error;
    line.textContent = messages[name] ?? "";
    line.hidden = !messages[name];
    if (!name) continue;
    if (messages[name]) form.elements[name].setAttribute("aria-invalid", "true");
    else form.elements[name].removeAttribute("aria-invalid");
  }
  form.querySelector("[aria-invalid]")?.focus();
}
