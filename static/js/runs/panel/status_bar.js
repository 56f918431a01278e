/** Puts the status of a run on the page, and says it aloud, seldom. */

import {exponential} from "../../lib/format.js";
import {announcement, outage, status} from "./status.js";

const OWN = new Set(["title", "delta", "state"]); // cells that are no plain text of the status
const SPOKEN_EVERY_MS = 12_000;

export class StatusBar {
  /**
   * @param {HTMLElement} root holds [data-status], [data-progress], [data-announce], [data-failure]
   * @param {(log: import("../log/run_log.js").RunLog | null) => Record<string, string>} more
   *   texts of the cells that only this kind of run has
   */
  constructor(root, more = () => ({})) {
    this.more = more;
    this.cells = Object.fromEntries(
      [...root.querySelectorAll("[data-status]")].map((cell) => [cell.dataset.status, cell]),
    );
    this.progress = root.querySelector("[data-progress]");
    this.spoken = root.querySelector("[data-announce]");
    this.failure = root.querySelector("[data-failure]");
    this.spokenAt = -Infinity;
    this.spokenState = "";
  }

  /** @param {import("./run_panel.js").PanelContent} content */
  update({log, plan, title, activity}) {
    const now = status(log, plan, activity);
    const {cells} = this;
    const texts = {...now, ...this.more(log)};
    for (const [name, cell] of Object.entries(cells)) {
      if (!OWN.has(name)) setText(cell, texts[name]);
    }
    setText(cells.title, title);
    if (cells.delta) setText(cells.delta, plan.private ? `, δ = ${exponential(plan.delta)}` : "");
    setText(cells.state, now.word);
    cells.state.className = `state ${now.mark}`;
    this.progress.max = now.steps;
    this.progress.value = now.step;
    this.showFailure(log, activity);
    this.speak(log, now, announcement(log, plan, activity));
  }

  showFailure(log, activity) {
    const text = sentence(log?.error?.message ?? "") || (log?.isFinal ? "" : outage(activity));
    setText(this.failure, text);
    this.failure.hidden = text === "";
  }

  speak(log, {word}, sentence) {
    const due = performance.now() - this.spokenAt > SPOKEN_EVERY_MS;
    if (!log || (word === this.spokenState && !(due && !log.isFinal))) return;
    this.spokenState = word;
    this.spokenAt = performance.now();
    setText(this.spoken, sentence);
  }
}

/** Messages begin with their subject in small letters; on a page they stand alone. */
function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
