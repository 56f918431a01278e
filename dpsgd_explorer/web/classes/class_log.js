/** The logs of all runs of a class, fed from one list of events; runs come and go. */

import {RunLog} from "../../../static/js/runs/log/run_log.js";

/** @typedef {{id: string, student: string, private: boolean, counted: boolean, planned: number, budget: number | null, drawn: boolean, dataset: string}} RosterRun */

export class ClassLog {
  constructor() {
    /** @type {Map<string, RunLog>} */
    this.logs = new Map();
    /** @type {RosterRun[]} */
    this.runs = [];
    /** Id of the newest event. */
    this.last = 0;
  }

  /** Take the roster as it is now. @param {RosterRun[]} runs */
  take(runs) {
    this.runs = runs;
    this.dataSets = [...new Set(runs.filter(({drawn}) => drawn).map(({dataset}) => dataset))];
  }

  /** @param {{id: number, run_id: string, seq: number, kind: string, data: object}} event */
  add(event) {
    this.last = Math.max(this.last, event.id);
    this.of(event.run_id).add(event);
  }

  /** The log of a run, also of one that the roster does not have yet. @returns {RunLog} */
  of(id) {
    if (!this.logs.has(id)) this.logs.set(id, new RunLog());
    return this.logs.get(id);
  }

  get goes() {
    return this.runs.some(({id}) => !this.of(id).isFinal);
  }

  /** The trainings on one data set as the charts take them. */
  lines(dataset) {
    return this.runs.filter((run) => run.drawn && run.dataset === dataset).map((run) => ({...run, letter: run.id, evaluations: this.of(run.id).evaluations, steps: []}));
  }
}
