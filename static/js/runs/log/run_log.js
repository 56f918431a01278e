/**
 * One run's log as the page keeps it: events in, plain arrays out. No DOM, no privacy
 * maths: every epsilon here was sent by the server.
 *
 * @typedef {object} LogEvent
 * @property {number} seq place in the log, 1, 2, …
 * @property {"state" | "phase" | "progress" | "step" | "evaluation" | "model" | "microscope" | "end"} kind
 * @property {Record<string, any>} data
 *
 * @typedef {object} Step  a `step` event with its diagnostics laid beside it
 * @property {number} step
 * @property {number | null} epsilon null: no guarantee
 * @property {number} seconds
 * @property {number | null} loss mean over the drawn batch
 * @property {number | null} clipped_fraction 0 to 1
 * @property {number[] | null} norm_counts samples in each bin of phase.norm_edges
 *
 * @typedef {object} Evaluation
 * @property {number} step
 * @property {number | null} epsilon
 * @property {number} seconds
 * @property {number} test_accuracy 0 to 1
 * @property {number} test_loss
 */

import {FINAL_STATES} from "./sse.js";

export class RunLog {
  constructor() {
    /** Every event, in order: what a replay is made from. @type {LogEvent[]} */
    this.events = [];
    this.seq = 0;
    this.state = "queued";
    /** @type {{code: string, message: string} | null} */
    this.error = null;
    /** @type {Record<string, any> | null} */
    this.phase = null;
    /** What is computed before the next point, and how far; null while points come. */
    this.progress = null;
    /** The last step that was looked at. @type {import("../actions/step_view.js").ExaminedStep | null} */
    this.microscope = null;
    this.wasPaused = false;
    /** Settings that were changed in mid-run, each with the steps before. @type {{step: number, changes: Record<string, number>}[]} */
    this.changes = [];
    /** @type {Step[]} */
    this.steps = [];
    /** @type {Evaluation[]} */
    this.evaluations = [];
    /** Of the start and of evaluations; see `experiments/events.py`. @type {Record<string, any>[]} */
    this.models = [];
    /** @type {Record<string, any> | null} */
    this.end = null;
  }

  /** Take the next event; one that was seen before is passed over. @param {LogEvent} event */
  add(event) {
    if (event.seq <= this.seq) return;
    this.seq = event.seq;
    this.events.push(event);
    this.progress = event.kind === "progress" ? event.data : null;
    this[`on_${event.kind}`]?.(event.data);
  }

  on_state({state, error = null}) {
    this.state = state;
    this.wasPaused ||= state === "paused";
    this.error = error;
  }

  on_phase(data) {
    if (data.changes) this.changes.push(data);
    this.phase = data;
  }

  on_step({diagnostics, ...step}) {
    this.steps.push({...diagnostics, ...step});
  }

  on_evaluation(data) {
    this.evaluations.push(data);
  }

  on_microscope(data) {
    this.microscope = data;
  }

  on_model(data) {
    this.models.push(data);
  }

  on_end(data) {
    this.end = data;
  }

  get isFinal() {
    return FINAL_STATES.has(this.state);
  }

  /** The furthest point reached: step 0 before the first. */
  get latest() {
    const point = this.latestPoint;
    if (this.microscope?.step > point.step) return this.microscope;
    const budget = this.isFinal && point.step > 0 ? this.phase?.filter?.epsilon : undefined; // of a filter the whole is spent
    return {...point, epsilon: this.end?.epsilon ?? budget ?? point.epsilon};
  }

  get latestPoint() {
    const step = this.steps.at(-1);
    const evaluation = this.evaluations.at(-1);
    if (!step || (evaluation && evaluation.step > step.step)) {
      return evaluation ?? {step: 0, epsilon: 0, seconds: 0};
    }
    return step;
  }

  get accuracy() {
    return this.evaluations.at(-1)?.test_accuracy ?? null;
  }

  /** Seconds that the remaining steps will take at the pace of the last ones, or null. */
  secondsLeft(steps) {
    const last = this.steps.at(-1);
    const earlier = this.steps.at(-Math.min(30, this.steps.length));
    if (!last || last.step === earlier.step) return null;
    const pace = (last.seconds - earlier.seconds) / (last.step - earlier.step);
    return pace * (steps - last.step);
  }

  /** The log as it stood once a step and its evaluation were done. */
  until(step) {
    const past = new RunLog();
    for (const event of this.events) {
      if (event.kind !== "state" && event.data.step > step) break;
      past.add(event);
    }
    return past;
  }

  /** Length of the training so far, in seconds. */
  get seconds() {
    return this.end?.seconds ?? this.latest.seconds;
  }
}
