/** Log of one run: the stream of its events, and the arrays for the page. */

import {getJson} from "../../lib/api.js";

const KINDS = ["state", "phase", "progress", "step", "evaluation", "model", "microscope", "end"];
const POLL_MS = 700;
const FAILURES = 3;

export const FINAL_STATES = new Set(["done", "failed", "cancelled", "interrupted"]);

export class RunFeed {
  /**
   * @param {object} options
   * @param {string} options.eventsUrl URL of the stream
   * @param {string} options.logUrl URL of the same log as JSON
   * @param {(event: {seq: number, kind: string, data: object}) => void} options.onEvent
   * @param {(online: boolean) => void} [options.onConnection]
   */
  constructor({eventsUrl, logUrl, onEvent, onConnection = () => {}}) {
    this.eventsUrl = eventsUrl;
    this.logUrl = logUrl;
    this.onEvent = onEvent;
    this.onConnection = onConnection;
    this.seq = 0;
    this.failures = 0;
    this.source = null;
    this.timer = null;
    this.closed = true;
  }

  /** Follow the log after entry `seq`. */
  open(seq = 0) {
    this.closed = false;
    this.seq = seq;
    this.listen();
  }

  close() {
    this.closed = true;
    this.source?.close();
    this.source = null;
    clearTimeout(this.timer);
  }

  listen() {
    const source = new EventSource(`${this.eventsUrl}?after=${this.seq}`);
    this.source = source;
    for (const kind of KINDS) {
      source.addEventListener(kind, (message) => {
        this.failures = 0;
        this.receive({seq: Number(message.lastEventId), kind, data: JSON.parse(message.data)});
      });
    }
    source.addEventListener("open", () => this.onConnection(true));
    source.addEventListener("error", () => this.fail(source));
  }

  fail(source) {
    if (this.closed) return;
    this.failures += 1;
    this.onConnection(false);
    if (source.readyState !== EventSource.CLOSED && this.failures < FAILURES) return;
    source.close();
    this.poll();
  }

  async poll() {
    if (this.closed) return;
    try {
      const {events} = await getJson(`${this.logUrl}?after=${this.seq}`);
      this.onConnection(true);
      for (const event of events) this.receive(event);
    } catch {
      this.onConnection(false);
    }
    if (!this.closed) this.timer = setTimeout(() => this.poll(), POLL_MS);
  }

  receive(event) {
    if (this.closed || event.seq <= this.seq) return;
    this.seq = event.seq;
    if (event.kind === "state" && FINAL_STATES.has(event.data.state)) this.close();
    this.onEvent(event);
  }
}

/**
 * @typedef {object} LogEvent
 * @property {number} seq position in the log: 1, 2, …
 * @property {"state" | "phase" | "progress" | "step" | "evaluation" | "model" | "microscope" | "end"} kind
 * @property {Record<string, any>} data
 *
 * @typedef {object} Step a `step` event together with its diagnostics
 * @property {number} step
 * @property {number | null} epsilon null without a guarantee
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

export class RunLog {
  constructor() {
    /** All events in order, for replays. @type {LogEvent[]} */
    this.events = [];
    this.seq = 0;
    this.state = "queued";
    /** @type {{code: string, message: string} | null} */
    this.error = null;
    /** @type {Record<string, any> | null} */
    this.phase = null;
    /** Computation before the next point, and its progress; null while points arrive. */
    this.progress = null;
    /** Last examined step. @type {import("../actions/step_view.js").ExaminedStep | null} */
    this.microscope = null;
    this.wasPaused = false;
    /**
     * Changes of settings during the run; `step`: steps before the change.
     * @type {{step: number, changes: Record<string, number>}[]}
     */
    this.changes = [];
    /** @type {Step[]} */
    this.steps = [];
    /** @type {Evaluation[]} */
    this.evaluations = [];
    /** Models at the start and at evaluations; see `experiments/events.py`. @type {Record<string, any>[]} */
    this.models = [];
    /** @type {Record<string, any> | null} */
    this.end = null;
  }

  /** Add the next event; known events are skipped. @param {LogEvent} event */
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

  /** Latest point; step 0 before the first. */
  get latest() {
    const point = this.latestPoint;
    if (this.microscope?.step > point.step) return this.microscope;
    const budget = this.isFinal && point.step > 0 ? this.phase?.filter?.epsilon : undefined; // a filter counts as fully spent
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

  /** True while new steps arrive: not before the first event, in a pause or at the end. */
  get moves() {
    return this.events.length > 0 && !this.isFinal && this.state !== "paused";
  }

  /** Estimated seconds of the remaining steps at the recent pace, or null. */
  secondsLeft(steps) {
    const last = this.steps.at(-1);
    const earlier = this.steps.at(-Math.min(30, this.steps.length));
    if (!last || last.step === earlier.step) return null;
    const pace = (last.seconds - earlier.seconds) / (last.step - earlier.step);
    return pace * (steps - last.step);
  }

  /** Log up to the end of a step and its evaluation. */
  until(step) {
    const past = new RunLog();
    for (const event of this.events) {
      if (event.kind !== "state" && event.data.step > step) break;
      past.add(event);
    }
    return past;
  }

  /** Duration of the training so far, in seconds. */
  get seconds() {
    return this.end?.seconds ?? this.latest.seconds;
  }
}
