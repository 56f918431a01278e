/** Status bar and charts of one run, live or replayed. */

import {showTruth} from "../../forms/plan_panel.js";
import {Gauge, Recount} from "./budget.js";
import {MARGIN, accuracyAt, conclusion as accuracyConclusion, figure as accuracyFigure, table as accuracyTable} from "../../charts/accuracy.js";
import {SCALE_WORDS, axisWords} from "../../charts/accuracy_axis.js";
import {GhostList, PREDICTION, Prediction} from "../../charts/ghosts.js";
import {conclusion as normsConclusion, countTop, figure as normsFigure, previewEdges, table as normsTable} from "../../charts/norms.js";
import {conclusion as seriesConclusion, cutWords, figure as seriesFigure, table as seriesTable, topOf} from "../../charts/series.js";
import {afterNextEpoch, planNow} from "../../charts/plan.js";
import {errorRange, niceCeiling} from "../../charts/ticks.js";
import {showChanges} from "../actions/mid_run.js";
import {RunLog} from "../log/run_log.js";
import {BasePanel} from "./base_panel.js";

const EMPTY = new RunLog();

/**
 * @typedef {object} PanelContent content of a panel
 * @property {RunLog | null} log null before a run
 * @property {import("../../charts/plan.js").Plan} plan
 * @property {string} title of the run
 * @property {string} file name of saved files
 * @property {string} [address] of the run, in saved pictures
 * @property {string} terms conditions that apply to every shown ε
 * @property {import("../../charts/ghosts.js").Ghost[]} [ghosts] other runs, drawn as thin lines
 * @property {RunLog} [whole] the complete log during a replay
 * @property {Record<string, any>} [config] of the run
 * @property {string} [model] name of its model in the catalogue
 * @property {string | null} [twin] address of the comparable run without privacy
 * @property {import("./budget.js").Recountable} [recount] source of its ε by other accountants
 * @property {{queuePosition?: number | null, stopping?: boolean}} activity
 */

export class RunPanel extends BasePanel {
  /**
   * @param {HTMLElement} root @param {(id: string) => void} [removeGhost]
   * @param {Record<string, import("../../charts/ghosts.js").Look>} [looks] of other lines on the chart, by name
   */
  constructor(root, removeGhost = () => {}, looks = {}) {
    super(root);
    const predict = root.querySelector("[data-predict]");
    this.prediction = predict && new Prediction(predict, looks[PREDICTION], () => this.request({now: true}));
    this.ghostList = new GhostList(root.querySelector("[data-ghosts]"), (id) => (id === PREDICTION ? this.prediction.clear() : removeGhost(id)));
    this.gauge = new Gauge(root.querySelector("[data-gauge]"));
    this.axisInputs = [...root.querySelectorAll('input[name="axis"]')];
    /** @type {import("./budget.js").Lens | null} another accountant's view of the run */
    this.lens = null;
    this.recount = new Recount(root, (lens) => this.lookThrough(lens));
    this.chosenAxis = "epsilon";
    this.parts = [{paint: () => this.paintRun()}, {paint: () => this.paintModel()}];
    this.wire();
  }

  wire() {
    for (const input of this.axisInputs) {
      input.addEventListener("change", () => {
        this.chosenAxis = input.value;
        this.request({now: true});
      });
    }
    this.charts.accuracy.plot.addEventListener("click", (event) => this.predictAt(event));
    for (const input of this.root.querySelectorAll('input[name="view"]')) {
      input.addEventListener("change", () => this.request({now: true}));
    }
  }

  /** A click on the chart sets the prediction to its height while a prediction is open. */
  predictAt({clientY, currentTarget}) {
    if (!this.prediction?.takesClicks) return;
    this.prediction.take(accuracyAt(this.view, clientY - currentTarget.getBoundingClientRect().top));
  }

  /** Show another run, or the settings of a future run. @param {PanelContent} content */
  show(content) {
    this.lens = null;
    showTruth(this.root, content.plan);
    this.secondsEnd = 1;
    this.countsEnd = 0;
    super.show(content);
  }

  /** Show the ε of another accountant; null: of the run's own accountant. */
  lookThrough(lens) {
    this.lens = lens;
    showTruth(this.root, this.plan);
    this.request({now: true});
  }

  /** Mark the charts as outdated while the settings are invalid. */
  notReady() {
    this.statusBar.cells.state.textContent = "Not ready";
  }

  request(options) {
    if (!this.content) return;
    for (const part of this.parts) this.painter.request(part, options);
  }

  /** Heading, label, status bar, gauge and charts change in the same frame, from the same state of the log. */
  paintRun() {
    const {recount = null, plan, log, activity} = this.content;
    this.recount.offer(plan.private && this.whole.isFinal && this.whole.phase ? recount : null);
    showChanges(this.root.querySelector("[data-run-changes]"), this.content.config, this.whole);
    const expected = this.recorded?.at(-1).seconds;
    this.statusBar.update({...this.content, plan: this.plan, log: log && this.log, activity: {...activity, expected}});
    this.paintAccuracy();
    this.paintNorms();
    for (const chart of Object.values(this.charts)) if (chart.described) this.paintSeries(chart);
  }

  get log() {
    return this.seen(this.content.log ?? EMPTY);
  }

  get plan() {
    return this.lens?.plan ?? planNow(this.content.plan, this.content.whole ?? this.content.log ?? EMPTY);
  }

  seen(log) {
    return this.lens ? this.lens.of(log) : log;
  }

  /** Log that sets the axes: in a replay the complete log, not the part shown. */
  get whole() {
    return this.seen(this.content.whole ?? this.content.log ?? EMPTY);
  }

  get axis() {
    return this.chosenAxis === "epsilon" && !this.content.plan.private ? "step" : this.chosenAxis;
  }

  /**
   * @param {string} name of the chart
   * @param {Pick<import("../../charts/chart.js").Drawing, "figure" | "conclusion" | "table" | "print">} drawing
   */
  draw(name, drawing) {
    const {terms, file, address} = this.content;
    this.charts[name].update({...drawing, note: this.lens?.terms ?? terms, address, file});
  }

  paintAccuracy() {
    const {log, axis, plan} = this;
    const others = (this.content.ghosts ?? []).filter(({reveals}) => !(reveals && this.prediction?.hidesAnswers));
    const ghosts = [...others, ...(this.prediction?.ghosts(plan) ?? [])];
    const shown = [...this.whole.evaluations, ...ghosts.flatMap(({points}) => points)];
    const range = errorRange(plan.accuracy_range, shown.map(({test_accuracy: share}) => 100 * share));
    this.paintAxisSwitch();
    this.root.querySelector("[data-accuracy-scale]").textContent = `; ${SCALE_WORDS}`;
    this.prediction?.update(this.whole, range);
    this.ghostList.update(ghosts);
    const view = (this.view = {
      evaluations: log.evaluations,
      ghosts,
      plan,
      axis,
      range,
      first_epsilon: log.steps[0]?.step === 1 ? log.steps[0].epsilon : null,
      seconds: this.endOfSeconds(),
      size: this.charts.accuracy.size,
    });
    const print = (color) => accuracyFigure({...view, print: true}, color);
    const heading = accuracyConclusion(log, plan, this.content.log || this.prediction?.hidesAnswers ? undefined : this.recorded);
    const conclusion = this.lens?.named(heading) ?? heading;
    this.draw("accuracy", {figure: (color) => accuracyFigure(view, color), print, conclusion, table: () => accuracyTable(log, plan)});
    this.paintGauge(view.size.width);
  }

  paintGauge(width) {
    if (width === 0) return;
    const {epsilon, step} = this.log.latest;
    const {plan} = this;
    const next = this.log.isFinal ? null : afterNextEpoch(plan, step);
    this.gauge.update({plan, epsilon, next, width, margin: MARGIN});
  }

  paintAxisSwitch() {
    for (const input of this.axisInputs) {
      input.checked = input.value === this.axis;
      if (input.value === "epsilon") input.disabled = !this.content.plan.private;
    }
    this.root.querySelector("[data-axis-name]").textContent = axisWords(this.axis, this.plan);
  }

  /** Evaluations of the recorded run with the current settings, if there is one. */
  get recorded() {
    return this.content.ghosts?.find(({look}) => look === "recorded")?.points;
  }

  endOfSeconds() {
    const log = this.whole;
    const {recorded} = this;
    if (recorded) this.secondsEnd = Math.max(this.secondsEnd, niceCeiling(recorded.at(-1).seconds));
    const left = log.isFinal ? 0 : (log.secondsLeft(this.plan.steps) ?? 0);
    if (log.isFinal) this.secondsEnd = log.seconds * 1.04 || 1;
    else this.secondsEnd = Math.max(this.secondsEnd, niceCeiling((log.seconds + left) * 1.02 || 1));
    return this.secondsEnd;
  }

  paintNorms() {
    const {log} = this;
    const {plan} = this.content;
    const step = log.steps.findLast((point) => point.norm_counts);
    const counts = step?.norm_counts ?? [];
    this.countsEnd = countTop(counts, this.countsEnd, plan.expected_batch_size);
    const edges = log.phase?.norm_edges ?? previewEdges(plan.max_grad_norm);
    const view = {
      edges,
      counts: step ? counts : edges.slice(1).map(() => 0),
      clipped_fraction: plan.private ? (step?.clipped_fraction ?? null) : null,
      max_grad_norm: plan.private ? (step?.max_grad_norm ?? plan.max_grad_norm) : null,
      clipping_fn: plan.clipping_fn,
      top: this.countsEnd,
      size: this.charts.norms.size,
    };
    this.root.querySelector("[data-norms-step]").textContent = step ? `, step ${step.step}` : "";
    this.draw("norms", {figure: (color) => normsFigure(view, color), conclusion: normsConclusion(log, plan), table: () => normsTable(log)});
  }

  /** Draw a chart of values by step. @param {import("../../charts/chart.js").Chart} chart */
  paintSeries({name, described, size}) {
    const {log, plan} = this;
    const view = {described, log, plan, top: topOf(described, this.content.plan.axes[name], this.whole), size};
    this.root.querySelector(`[data-cut="${name}"]`).textContent = cutWords(described, log, view.top);
    this.draw(name, {figure: (color) => seriesFigure(view, color), print: (color) => seriesFigure({...view, print: true}, color), conclusion: seriesConclusion(name, described, log), table: () => seriesTable(described, log)});
  }

  /** Resolves to the model view, or to null after a failed load; the next painting tries again. */
  async loadModelView() {
    try {
      const {ModelView} = await import("../model/view.js");
      return new ModelView(document.querySelector("[data-model]"));
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      this.modelView = null;
      return null;
    }
  }

  /** Load the model view once a log contains a model. */
  async paintModel() {
    if (this.log.models.length === 0 && !this.modelView) return;
    this.modelView ??= this.loadModelView();
    (await this.modelView)?.update({log: this.log, whole: this.whole, plan: this.plan, model: this.content.model, twin: this.content.twin ?? null});
  }
}
