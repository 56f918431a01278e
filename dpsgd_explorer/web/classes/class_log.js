/** Logs of all runs of a class, filled from one stream of events. */

import {RunLog} from "../../../static/js/runs/log/run_log.js";

/** @typedef {{key: string, drawn: boolean, dataset: string}} RosterRun line of a run, see `web/charts/several_runs.py` */

export class ClassLog {
  constructor() {
    /** @type {Map<string, RunLog>} */
    this.logs = new Map();
    /** @type {RosterRun[]} */
    this.runs = [];
    /** Id of the newest event. */
    this.last = 0;
  }

  /** Replace the roster. @param {RosterRun[]} runs */
  take(runs) {
    this.runs = runs;
    this.dataSets = [...new Set(runs.filter(({drawn}) => drawn).map(({dataset}) => dataset))];
  }

  /** @param {{id: number, run_id: string, seq: number, kind: string, data: object}} event */
  add(event) {
    this.last = Math.max(this.last, event.id);
    this.of(event.run_id).add(event);
  }

  /** Log of a run, which may not be on the roster yet. @returns {RunLog} */
  of(id) {
    if (!this.logs.has(id)) this.logs.set(id, new RunLog());
    return this.logs.get(id);
  }

  /** True if a run on the roster has not ended. */
  get isRunning() {
    return this.runs.some(({key}) => !this.of(key).isFinal);
  }

  /** Training runs on one data set, in the form that the charts use. */
  lines(dataset) {
    return this.runs.filter((run) => run.drawn && run.dataset === dataset).map((run) => ({...run, evaluations: this.of(run.key).evaluations, steps: []}));
  }
}
