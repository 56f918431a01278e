/** Visitor's labels of a run: star, name and note. */

import {patchJson} from "../../lib/api.js";

const LONGEST_NAME = 60;
const LONGEST_NOTE = 500;

/** Turn a star on or off. @param {HTMLElement} button with the run's address */
export async function toggleStar(button) {
  const starred = button.getAttribute("aria-pressed") !== "true";
  await patchJson(button.dataset.star, {starred});
  button.setAttribute("aria-pressed", String(starred));
}

/**
 * Opens fields for name and note after the button. They are not in a form element: the list is a form, and forms
 * cannot be nested.
 * @param {HTMLElement} button with address, name, title and note of the run
 * @param {HTMLElement} place parent of the fields
 * @param {() => void} onSaved
 */
export function editLabels(button, place, onSaved) {
  if (button.getAttribute("aria-expanded") === "true") return;
  const {name, title, note} = button.dataset;
  const box = document.createElement("div");
  box.className = "label-form";
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", `Name and note of ${title}`);
  const nameBox = entry("input", "Name", name, LONGEST_NAME);
  nameBox.input.placeholder = title;
  const noteBox = entry("textarea", "Note, for you alone", note, LONGEST_NOTE);
  const fault = Object.assign(document.createElement("p"), {className: "error", hidden: true});
  fault.setAttribute("role", "alert");
  const save = press("Save", "button small", () => send());
  const cancel = press("Cancel", "text-button", () => close());
  const row = document.createElement("div");
  row.className = "button-row";
  row.append(save, cancel);
  box.append(nameBox.label, noteBox.label, fault, row);
  place.append(box);
  button.setAttribute("aria-expanded", "true");
  nameBox.input.focus();
  nameBox.input.select();

  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    if (event.key === "Enter" && event.target === nameBox.input) {
      event.preventDefault();
      send();
    }
  });

  function close() {
    box.remove();
    button.setAttribute("aria-expanded", "false");
    button.focus();
  }

  async function send() {
    save.disabled = true;
    try {
      await patchJson(button.dataset.edit, {name: nameBox.input.value.trim(), note: noteBox.input.value.trim()});
      close();
      onSaved();
    } catch (error) {
      save.disabled = false;
      fault.textContent = error.message;
      fault.hidden = false;
    }
  }
}

function entry(kind, words, value, longest) {
  const label = document.createElement("label");
  const input = Object.assign(document.createElement(kind), {value, maxLength: longest});
  if (kind === "textarea") input.rows = 2;
  label.append(words, input);
  return {label, input};
}

function press(words, css, act) {
  const button = Object.assign(document.createElement("button"), {type: "button", className: css, textContent: words});
  button.addEventListener("click", act);
  return button;
}
