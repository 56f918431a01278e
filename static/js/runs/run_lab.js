/** Lab that launches runs from its settings: form, buttons, error messages, and the live run. */

import {ApiError, Newest, postJson} from "../lib/api.js";
import {toQuery} from "../forms/query.js";
import {SettingsForm} from "../forms/settings_form.js";
import {LiveRun} from "./log/live_run.js";

const RUNS = "/api/v1/runs";

export class RunLab {
  /**
   * @param {ReturnType<typeof import("../lib/page.js").openPage>} opened the lab's page
   * @param {object} lab
   * @param {string} lab.kind of its runs
   * @param {{show: (content: object) => void, update: (change: object) => void}} [lab.panel] if missing, the run's
   *   page opens
   * @param {(answer: Record<string, any>) => object} [lab.content] returns the panel content of a run
   * @param {(live: LiveRun) => void} [lab.moved] called when a run's state changes
   */
  constructor({page, data, part}, {kind, panel, content, moved = () => {}}) {
    Object.assign(this, {data, part, kind, panel, content, moved});
    this.form = new SettingsForm(part("settings"), {fields: data.fields, switches: {}}, (_input, options = {}) =>
      this.newest.ask((signal) => this.check(signal), options),
    );
    this.newest = new Newest(page);
    /** @type {LiveRun | null} */
    this.live = null;
    this.showFaults(data.errors);
    part("run").addEventListener("click", () => this.launch());
    part("stop")?.addEventListener("click", () => this.live.stop().catch((error) => this.refused(error)));
    addEventListener("pagehide", () => this.live?.pause());
    addEventListener("pageshow", (event) => event.persisted && (this.panel ? this.live?.resume() : this.busy(false)));
  }

  /** Settings in the address: those that differ from the defaults. */
  get differing() {
    return this.form.differing;
  }

  /** Settings of the next run, as JSON values. */
  get settings() {
    return this.form.json;
  }

  /** Validate the settings as a new page load would. @returns {Promise<boolean>} true if the server answered */
  check(signal) {
    const address = toQuery(this.differing);
    history.replaceState(null, "", address ? `?${address}` : location.pathname);
    return this.load(location.href, signal);
  }

  /** Show what the page at an address says of the settings. @returns {Promise<boolean>} true if the server answered */
  async load(address, signal) {
    const response = await fetch(address, {signal}).catch(() => null);
    const text = response?.ok ? await response.text().catch(() => null) : null;
    if (text === null || signal.aborted) return false;
    this.take(new DOMParser().parseFromString(text, "text/html"));
    return true;
  }

  /** @param {Document} fresh the page of the settings */
  take(fresh) {
    this.data = JSON.parse(fresh.getElementById("page-data").textContent);
    this.showFaults(this.data.errors);
  }

  async launch() {
    this.showFaults({});
    this.busy(true);
    try {
      this.form.requireFilled();
      this.follow(await postJson(RUNS, {kind: this.kind, ...this.settings}));
    } catch (error) {
      this.busy(false);
      this.refused(error);
    }
  }

  follow(answer) {
    if (!this.panel) {
      location.assign(answer.links.page);
      return;
    }
    this.part("recorded").hidden = true;
    this.part("open").href = answer.links.page;
    this.part("open").hidden = false;
    this.live?.release();
    this.live = new LiveRun(answer, this.content(answer), this.panel, () => {
      if (this.live.log.isFinal) this.busy(false);
      this.moved(this.live);
    });
    this.live.resume();
  }

  busy(runs) {
    this.part("run").disabled = runs;
    if (!this.panel) return;
    this.part("run").hidden = runs;
    this.part("stop").hidden = !runs;
  }

  refused(error) {
    if (!(error instanceof ApiError)) throw error;
    const settings = Object.keys(error.fields).filter((name) => this.data.fields.some((field) => field.name === name));
    if (settings.length > 0) {
      this.showFaults(error.fields);
      this.form.focusError();
      return;
    }
    const line = this.part("run-error");
    line.textContent = error.message;
    line.hidden = false;
  }

  showFaults(errors) {
    this.part("run-error").hidden = true;
    this.form.showErrors(errors);
    this.part("to-correct").hidden = Object.keys(errors).length === 0;
  }
}
