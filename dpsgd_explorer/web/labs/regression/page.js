/**
 * Lab of private linear regression, and the page of one descent. The server computes and draws all results of the lab;
 * this script puts them into the page. Without it, each change loads a new page.
 */

import {DescentPanel, descentContent} from "./panel.js";
import {ApiError} from "../../../../static/js/lib/api.js";
import {openPage} from "../../../../static/js/lib/page.js";
import {RunLab} from "../../../../static/js/runs/run_lab.js";
import {RunPage} from "../../../../static/js/runs/run_page.js";

const RETRY_MS = 2000;
const SOLVABLE = ["steps", "noise_multiplier", "target_epsilon"];
const ANSWERS = ["results", "presets", "summary"]; // parts of the page that follow from the settings

class RegressionLab extends RunLab {
  constructor(opened) {
    super(opened, {kind: "regression"});
    this.part("new-seed").addEventListener("click", () => this.form.set("seed", Math.floor(Math.random() * 2 ** 31)));
    this.part("settings").elements.solve.addEventListener("input", () => this.form.lock(SOLVABLE, this.solved));
    opened.page.addEventListener("click", (event) => {
      if (!event.target.matches("[data-wait]")) return;
      event.preventDefault();
      const {href} = event.target;
      this.newest.ask((signal) => this.load(href, signal));
    });
    this.form.lock(SOLVABLE, this.solved);
    this.newest.ask((signal) => this.awaitDescent(signal));
  }

  get solved() {
    return this.part("settings").elements.solve.value;
  }

  /** Settings that differ from the defaults, without the solved one. */
  get differing() {
    const {[this.solved]: _follows, ...query} = this.form.differing;
    return query;
  }

  /** Settings of the run, as the server derived them from those on the page. */
  get settings() {
    return this.data.run;
  }

  async load(address, signal) {
    const isShown = await super.load(address, signal);
    if (isShown) this.awaitDescent(signal, address);
    else if (!signal.aborted) this.refused(new ApiError(0, {message: "The server did not answer; the charts show the earlier results."}));
    return isShown;
  }

  /** Load a long descent, while the other results are visible; again if the server was busy. */
  awaitDescent(signal, loaded = "") {
    const long = this.part("results").querySelector('[data-wait="descent"]');
    if (!long) return;
    const {href} = long;
    setTimeout(() => signal.aborted || this.load(href, signal), href === loaded ? RETRY_MS : 0);
  }

  /** Show the answers; open tables stay open, and the focus is kept. */
  take(fresh) {
    super.take(fresh);
    const focused = document.activeElement.closest("[data-results] > [id]")?.id;
    for (const table of this.part("results").querySelectorAll(".chart details[open]")) {
      fresh.querySelector(`#${table.closest(".chart").id} details`)?.setAttribute("open", "");
    }
    for (const name of ANSWERS) this.part(name).replaceWith(fresh.querySelector(`[data-${name}]`));
    if (focused) document.getElementById(focused)?.querySelector("summary, a")?.focus();
    if (this.settings) this.form.set(this.solved, fresh.getElementById(this.solved).value, {quietly: true});
    this.part("announce").textContent = this.part("results").querySelector("h3")?.textContent ?? "Correct the marked setting.";
  }

  async launch() {
    const asked = new AbortController();
    const isCurrent = await this.check(asked.signal);
    asked.abort(); // no long descent follows
    if (isCurrent && this.settings) await super.launch();
    else this.form.focusError();
  }
}

if (document.querySelector("[data-run-page]")) new RunPage((root, {run, plan}) => ({panel: new DescentPanel(root), content: descentContent(run, plan)}));
else new RegressionLab(openPage("lab"));
