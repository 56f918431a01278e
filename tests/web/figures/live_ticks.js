/** Prints where the live charts have their ticks, as shares of their axes; reads a run from its input. */

import {readFileSync} from "node:fs";
import {figure as accuracy} from "../../../static/js/charts/accuracy.js";
import {countTop, figure as norms, previewEdges} from "../../../static/js/charts/norms.js";
import {chartPlan} from "../../../static/js/charts/plan.js";
import {figure as series, topOf} from "../../../static/js/charts/series.js";
import {errorRange} from "../../../static/js/charts/ticks.js";
import {RunLog} from "../../../static/js/runs/log/run_log.js";

const {plan: answer, config, catalogue, charts, events} = JSON.parse(readFileSync(0));
const log = new RunLog();
events.forEach((event, i) => log.add({seq: i + 1, ...event}));
const plan = chartPlan(answer, config, catalogue);
const size = {width: 280, height: 260};
const color = (name) => name;
const step = log.steps.findLast((one) => one.norm_counts);
const edges = log.phase?.norm_edges ?? previewEdges(plan.max_grad_norm);
const counts = step?.norm_counts ?? edges.slice(1).map(() => 0);
const top = countTop(counts, 0, plan.expected_batch_size);
const figures = {
  accuracy: accuracy({evaluations: log.evaluations, plan, axis: plan.private ? "epsilon" : "step", range: errorRange(plan.accuracy_range, log.evaluations.map(({test_accuracy: share}) => 100 * share)), first_epsilon: null, seconds: 1, size}, color),
  norms: norms({edges, counts, clipped_fraction: null, max_grad_norm: plan.private ? plan.max_grad_norm : null, clipping_fn: plan.clipping_fn, top, size}, color),
};
for (const [name, described] of Object.entries(charts)) {
  figures[name] = series({described, log, plan, top: topOf(described, answer.axes[name], log), size}, color);
}
const shares = ({range: [low, high], tickvals}) => tickvals.map((tick) => (tick - low) / (high - low));
console.log(JSON.stringify(Object.fromEntries(Object.entries(figures).map(([name, {layout}]) => [name, [shares(layout.xaxis), shares(layout.yaxis)]]))));
