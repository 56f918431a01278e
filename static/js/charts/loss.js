/**
 * Loss on the drawn batches (not private) and on the test set, step by step.
 *
 * @typedef {object} LossView
 * @property {import("../runs/log/run_log.js").Step[]} steps
 * @property {import("../runs/log/run_log.js").Evaluation[]} evaluations
 * @property {import("./plan.js").Plan} plan
 * @property {number} top where the loss axis ends, nats
 * @property {{width: number, height: number}} size
 */

import {axisName, baseLayout, keyAxis, niceTicks, strong, thin, unitName, valueAxis, words} from "./base.js";

const MARGIN = {l: 44, r: 16, t: 28, b: 44};

/**
 * Where the loss axis ends: just above what guessing costs, and higher only if the run
 * settles there.
 * @param {number} classes
 * @param {{test_loss: number}[]} evaluations
 */
export function lossTop(classes, evaluations) {
  const close = Math.min(1, Math.log(classes) * 1.15);
  const enough = evaluations.length >= 8;
  const far = enough && evaluations.slice(-4).every((point) => point.test_loss > close);
  return far ? Math.log(classes) * 2.2 : close;
}

/** Pure: a view in, Plotly traces and layout out. @param {LossView} view */
export function figure(view, color) {
  const {plan, size, top} = view;
  const range = [0, lastStep(plan) * 1.02];
  return {
    traces: [train(view, color), test(view, color)],
    layout: {
      ...baseLayout(color, size, MARGIN),
      xaxis: keyAxis(color, range, {tickvals: niceTicks(lastStep(plan), 4), hoverformat: "d", unifiedhovertitle: {text: "step %{x}"}}),
      yaxis: valueAxis(color, [0, top], {tickvals: niceTicks(top, 5)}),
      shapes: [],
      annotations: labels(view, color),
    },
  };
}

/** The last step that will be done: a wall may stand before the end of the plan. */
function lastStep({steps, last_step: last}) {
  return last || steps;
}

function train({steps, plan}, color) {
  const line = plan.private ? "--series-private" : "--series-twin";
  const points = thin(steps.filter((point) => point.loss !== null), (point) => point.loss, 800);
  return {
    type: "scatter",
    mode: "lines",
    name: "training, not private",
    x: points.map((point) => point.step),
    y: points.map((point) => point.loss),
    opacity: 0.55,
    hovertemplate: "training %{y:.3f}<extra></extra>",
    line: {color: color(line), width: 1.25},
  };
}

function test({evaluations, plan}, color) {
  return {
    type: "scatter",
    mode: "lines",
    name: "test",
    x: evaluations.map((point) => point.step),
    y: evaluations.map((point) => point.test_loss),
    hovertemplate: "test %{y:.3f}<extra></extra>",
    line: {color: color(plan.private ? "--series-private" : "--series-twin"), width: 2.25, dash: plan.private ? "solid" : "dash"},
  };
}

function labels({steps, evaluations, plan, top}, color) {
  const names = [unitName("nats", color), axisName("step", color)];
  const [train, test] = [steps.at(-1), evaluations.at(-1)];
  if (!train || !test || train.loss === null) return names;
  const x = {x: train.step, xanchor: train.step > lastStep(plan) / 2 ? "right" : "left"};
  const [low, high] = [train.loss, test.test_loss].sort((a, b) => a - b).map((y) => Math.min(y, top * 0.9));
  const above = {...x, y: high, yshift: 14};
  const below = low > 0.18 * top ? {...x, y: low, yshift: -14} : {...x, y: high, yshift: 32};
  const trainHigher = train.loss >= test.test_loss;
  return [
    ...names,
    words("training, each step", color("--ink-3"), trainHigher === (below.yshift < 0) ? above : below),
    strong("test", color(plan.private ? "--text-private" : "--text-twin"), trainHigher === (below.yshift < 0) ? below : above),
  ];
}
