/** The ghosts of the accuracy chart below it, each with a button that takes it away. */

import {looks} from "../../charts/ghosts.js";

export class GhostList {
  /**
   * @param {HTMLElement | null} list none on pages that show no ghosts
   * @param {(id: string) => void} onRemove
   */
  constructor(list, onRemove) {
    this.list = list;
    this.shown = "";
    this.focusAt = null;
    list?.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      this.focusAt = Math.max(0, [...list.children].indexOf(button.closest("li")) - 1); // its own button will be gone
      onRemove(button.dataset.remove);
    });
  }

  /** @param {import("../../charts/ghosts.js").Ghost[]} ghosts */
  update(ghosts) {
    const names = JSON.stringify(ghosts.map(({id, label}) => [id, label]));
    if (!this.list || names === this.shown) return; // what stands there may hold the focus
    this.shown = names;
    const drawn = looks(ghosts);
    this.list.replaceChildren(...ghosts.map((ghost, i) => item(ghost, drawn[i])));
    if (this.focusAt !== null) (this.list.querySelectorAll("button")[this.focusAt] ?? this.list).focus();
    this.focusAt = null;
  }
}

function item({id, label, look = "run"}, {dash}) {
  const line = document.createElement("li");
  const button = Object.assign(document.createElement("button"), {type: "button", textContent: "×"});
  button.dataset.remove = id;
  button.setAttribute("aria-label", `Remove ${label}`);
  const swatch = document.createElement("span");
  swatch.className = `ghost-line ${look} ${dash}`;
  const name = Object.assign(document.createElement("span"), {className: "ghost-name", textContent: label, title: label});
  line.append(swatch, name, button);
  return line;
}
