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

  /** Validate the settings as a new page load would. The address contains only settings that differ from the defaults. */
  async check(signal) {
    const address = toQuery(this.form.differing);
    history.replaceState(null, "", address ? `?${address}` : location.pathname);
    const response = await fetch(location.href, {signal}).catch(() => null);
    if (!response?.ok) return;
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    if (!signal.aborted) this.showFaults(JSON.parse(fresh.getElementById("page-data").textContent).errors);
  }

  async launch() {
    this.showFaults({});
    this.busy(true);
    try {
      this.form.requireFilled();
      this.follow(await postJson(RUNS, {kind: this.kind, ...this.form.json}));
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
