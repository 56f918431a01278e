/** Page of one run of any kind: live while it runs, with a replay after its end. */

import {ApiError, deleteJson, getJson, postJson} from "../lib/api.js";
import {wireLabels} from "./list/label_bar.js";
import {LiveRun} from "./log/live_run.js";
import {replay} from "./log/replay.js";
import {FINAL_STATES, RunLog} from "./log/run_log.js";
import {status} from "./panel/base_panel.js";
import {showTimes} from "../lib/format.js";
import {copyText} from "../lib/page.js";

const PAGE = 5000;
const FETCH_MS = 2000;

export class RunPage {
  /**
   * @param {(root: HTMLElement, data: Record<string, any>) => {panel: object, content: object, atEnd?: (log: RunLog) => void} | null} make creates the panel, its content, and a function for the end of the run; null if the server
   *   draws the run: then the page is reloaded until the run ends
   */
  constructor(make) {
    this.page = document.querySelector("[data-run-page]");
    const data = JSON.parse(document.getElementById("page-data").textContent);
    this.run = {...data.run, config: data.config};
    showTimes(this.page);
    wireLabels(this.part("label-bar"));
    this.part("copy-run").addEventListener("click", () => copyText(location.origin + location.pathname, this.part("copied")));
    this.part("delete")?.addEventListener("click", () => this.forget());
    if (!make) {
      if (!FINAL_STATES.has(this.run.state)) this.followPage();
      return;
    }
    Object.assign(this, make(this.part("panel"), {...data, run: this.run}));
    if (FINAL_STATES.has(this.run.state)) this.loadAndReplay();
    else this.follow();
  }

  part(name) {
    return this.page.querySelector(`[data-${name}]`);
  }

  async loadAndReplay() {
    const log = new RunLog();
    let last = 0;
    do {
      const answer = await getJson(`${this.run.links.log}?after=${log.seq}&limit=${PAGE}`);
      for (const event of answer.events) log.add(event);
      last = answer.events.length ? answer.last_seq : log.seq;
    } while (log.seq < last);
    this.replay(log);
  }

  replay(log) {
    this.panel.show({...this.content, log, whole: log, activity: {replaying: true}});
    this.atEnd?.(log);
    if (log.latest.step === 0 || this.content.hasNoReplay) return;
    const goToEnd = replay(this.part("replay"), log, (past) => this.panel.update({log: past}));
    addEventListener("beforeprint", () => {
      goToEnd();
      this.panel.paintForPaper();
    });
    if (location.hash === "#replay") this.part("replay").querySelector('[data-part="play"]').click(); // the link requests a replay
  }

  follow() {
    const live = new LiveRun(this.run, this.content, this.panel, () => this.moved(live), () => this.showState(live));
    addEventListener("pagehide", () => live.pause());
    addEventListener("pageshow", (event) => event.persisted && live.resume());
    this.part("stop")?.addEventListener("click", () => this.stop(live));
    live.resume();
  }

  followPage() {
    this.part("stop")?.addEventListener("click", () => postJson(this.run.links.cancel).catch((error) => this.showError(error)));
    setTimeout(() => this.fetchPage(), FETCH_MS);
  }

  async fetchPage() {
    const page = await this.refresh(["run-state", "panel", "spent", "take-along"]);
    const isFinal = page && FINAL_STATES.has(JSON.parse(page.getElementById("page-data").textContent).run.state);
    if (isFinal) this.part("stop")?.remove();
    else setTimeout(() => this.fetchPage(), FETCH_MS);
  }

  /** Show the status bar's state under the title. */
  showState({log, activity}) {
    const {word, mark} = status(log, this.content.plan, activity);
    const mentioned = this.part("run-state").firstElementChild;
    mentioned.textContent = word;
    mentioned.className = `state ${mark}`;
  }

  moved({log}) {
    if (!log.isFinal) return;
    this.part("stop")?.remove();
    this.replay(log);
    this.refresh(["spent", "audit"]);
  }

  /**
   * Replace elements with the server's current ones, such as the privacy spent and the audit's result.
   * @returns the whole page, null if the request failed
   */
  async refresh(names) {
    const response = await fetch(location.pathname).catch(() => null);
    if (!response?.ok) return null;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const name of names) {
      const [fresh, shown] = [page.querySelector(`[data-${name}]`), this.part(name)];
      if (fresh && shown && !fresh.isEqualNode(shown)) shown.replaceWith(fresh);
    }
    return page;
  }

  async stop(live) {
    if (!live.stopping) await live.stop().catch((error) => this.showError(error));
  }

  async forget() {
    try {
      await deleteJson(this.run.links.self);
      location.assign(this.part("delete").dataset.delete);
    } catch (error) {
      this.showError(error);
    }
  }

  showError(error) {
    if (!(error instanceof ApiError)) throw error;
    const line = this.part("run-error");
    line.textContent = error.message;
    line.hidden = false;
  }
}
