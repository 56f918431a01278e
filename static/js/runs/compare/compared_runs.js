/** Logs of several runs, polled while some of the runs are live. */

import {getJson} from "../../lib/api.js";
import {FINAL_STATES} from "../log/run_log.js";

const PAGE = 5000;
const LIVE_MS = 400; // ms between polls; a browser has at most six connections per host, so runs are polled, not streamed
const WAITING_MS = 2000;
const GONE = 404;
const stateOf = ({state, begun, steps}) => `${state}, ${begun || steps.length > 0 ? "begun" : "waits"}`;
const KINDS = {evaluation: "evaluations", step: "steps"};

/**
 * @typedef {object} ComparedRun
 * @property {string} key letter of the run
 * @property {string} state
 * @property {boolean} begun if true, the run had taken a step when the server sent it
 * @property {string} log URL of its log
 * @property {object[]} evaluations data of the events received so far
 * @property {object[]} steps
 */

export class ComparedRuns {
  /**
   * @param {object[]} runs from the server
   * @param {{onPoints: () => void, onState: () => void}} options `onState`: called when a run changes its state or
   *   takes its first step
   */
  constructor(runs, {onPoints, onState}) {
    this.runs = runs.map((run) => ({...run, evaluations: [], steps: [], after: {evaluation: 0, step: 0}, complete: false}));
    this.onPoints = onPoints;
    this.onState = onState;
    this.open = true;
    addEventListener("pagehide", () => this.pause());
    addEventListener("pageshow", (event) => event.persisted && this.resume());
    this.poll();
  }

  pause() {
    this.open = false;
    clearTimeout(this.timer);
  }

  resume() {
    this.open = true;
    this.poll();
  }

  /** Fetch new events of every incomplete run. */
  async poll() {
    const waiting = this.runs.filter(({complete}) => !complete);
    const before = waiting.map(stateOf);
    const news = await Promise.all(waiting.map((run) => this.fetch(run).catch((error) => this.miss(run, error))));
    if (news.some(Boolean)) this.onPoints();
    if (waiting.some((run, i) => stateOf(run) !== before[i])) this.onState();
    if (this.open && this.runs.some(({complete}) => !complete)) {
      const live = this.runs.some(({state, complete}) => state === "running" && !complete);
      this.timer = setTimeout(() => this.poll(), live ? LIVE_MS : WAITING_MS);
    }
  }

  /** A deleted run is not polled again; other errors can be temporary. */
  miss(run, {status}) {
    run.complete = status === GONE;
    return false;
  }

  /** Fetch new events of one run; resolves to true if there were any. */
  async fetch(run) {
    let count = 0;
    let full = false;
    let state = run.state;
    for (const [kind, name] of Object.entries(KINDS)) {
      const answer = await getJson(`${run.log}?kind=${kind}&after=${run.after[kind]}&limit=${PAGE}`);
      run[name].push(...answer.events.map(({data}) => data));
      run.after[kind] = answer.events.at(-1)?.seq ?? run.after[kind];
      count += answer.events.length;
      full ||= answer.events.length === PAGE;
      state = answer.state;
    }
    // A run is complete if it had ended before this request.
    run.complete = !full && FINAL_STATES.has(run.state) && FINAL_STATES.has(state);
    run.state = state;
    return count > 0;
  }
}
