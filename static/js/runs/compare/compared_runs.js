/** The logs of several runs, fetched, and asked for again while some of them go on. */

import {getJson} from "../../lib/api.js";
import {FINAL_STATES} from "../log/run_log.js";

const PAGE = 5000;
const LIVE_MS = 400; // a browser holds six connections to a host, so runs are polled and not streamed
const WAITING_MS = 2000;
const GONE = 404;
const stateOf = ({state, begun, steps}) => `${state}, ${begun || steps.length > 0 ? "begun" : "waits"}`;
const KINDS = {evaluation: "evaluations", step: "steps"};

/**
 * @typedef {object} ComparedRun
 * @property {string} letter
 * @property {string} state
 * @property {boolean} begun whether it had taken a step when the server sent it
 * @property {string} log address of its log
 * @property {object[]} evaluations data of the events so far
 * @property {object[]} steps
 */

export class ComparedRuns {
  /**
   * @param {object[]} runs as the server sent them
   * @param {{onPoints: () => void, onState: () => void}} options onState: a run came to another state or took its first step
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

  /** Ask for what is new of every run that is not complete. */
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

  /** What was deleted meanwhile is not asked for again; anything else may come back. */
  miss(run, {status}) {
    run.complete = status === GONE;
    return false;
  }

  /** Take over what is new of one run; true if there was something. */
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
    // Complete if it had ended before this last look.
    run.complete = !full && FINAL_STATES.has(run.state) && FINAL_STATES.has(state);
    run.state = state;
    return count > 0;
  }
}
