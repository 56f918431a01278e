/** The heading of a chart is what it shows, as a sentence with its number. */

import {FILTER} from "./plan.js";
import {decimalsUp, integer, percent, plural, roundUp, significant} from "../lib/format.js";

/**
 * @param {import("../runs/log/run_log.js").RunLog} log
 * @param {import("./plan.js").Plan} plan
 * @param {import("../runs/log/run_log.js").Evaluation[]} [recorded] shown where no run is
 */
export function accuracyConclusion(log, plan, recorded) {
  const last = log.evaluations.at(-1);
  if (!last && recorded) return `Recorded: ${percent(recorded.at(-1).test_accuracy)} at ε = ${plan.budget_text}. Run repeats it`;
  if (!last && log.isFinal) return "The run ended before its accuracy was measured";
  if (!last) return plan.private ? "Accuracy will appear here, against the budget it costs" : "Accuracy will appear here, step by step";
  const reached = percent(last.test_accuracy);
  if (last.epsilon === null) return `${reached} without privacy after ${plural(last.step, "step")}`;
  if (plan.accountant === FILTER) return withinBudget(log, plan, last, reached);
  if (log.state === "done") return finished(log, last, reached);
  const spent = `${reached} at ε = ${decimalsUp(last.epsilon, plan.digits)}`;
  if (log.isFinal) return `${spent}, ${whereItEnded(log, plan, last)}`;
  return `${spent} of ${plan.budget_text}`;
}

/** Of a filter only the whole budget is a guarantee, whatever it has counted. */
function withinBudget(log, plan, last, reached) {
  if (!log.isFinal) return `${reached}; the filter has counted ε = ${decimalsUp(last.epsilon, plan.digits)} of ${plan.budget_text}`;
  const within = `${reached} within the budget ε = ${plan.budget_text}`;
  return log.state === "done" ? within : `${within}, ${whereItEnded(log, plan, last)}`;
}

/** A run that was stopped has seldom just been evaluated. */
function whereItEnded(log, plan, last) {
  const ended = `the run ended after ${integer(log.latest.step)} of ${plural(plan.steps, "step")}`;
  return log.latest.step === last.step ? `where ${ended}` : `measured at step ${integer(last.step)}; ${ended}`;
}

function finished(log, last, reached) {
  const half = log.evaluations.findLast((point) => point.epsilon <= last.epsilon / 2);
  const start = `${reached} at ε = ${roundUp(last.epsilon)}`;
  if (!half || log.evaluations.length < 8) return start;
  const gain = 100 * (last.test_accuracy - half.test_accuracy);
  if (gain < 0.05) return `${start}; the second half of that ε bought nothing`;
  return `${start}; the second half of that ε bought ${points(gain)}`;
}

function points(gain) {
  const text = gain.toFixed(1);
  return `${text} ${text === "1.0" ? "point" : "points"}`;
}

export function normsConclusion(log, plan) {
  const step = log.steps.findLast((point) => point.clipped_fraction !== null);
  if (!plan.private) return "Without privacy, no per-record gradient is computed";
  if (!step) return "Norms of the gradients";
  if (plan.clipping_fn !== "Abadi") return "Every gradient is scaled to the norm C";
  const share = step.clipped_fraction;
  if (share === 0) return "No gradient is longer than C";
  return `${percent(share, 0)} of gradients are longer than C`;
}

/** Only of a run that did all it was asked for is anything concluded. */
export function lossConclusion(log) {
  const recent = log.steps.slice(-10).filter((point) => point.loss !== null);
  const test = log.evaluations.at(-1)?.test_loss;
  if (recent.length === 0 || test === undefined) return "Training and test loss will appear here";
  const train = recent.reduce((sum, point) => sum + point.loss, 0) / recent.length;
  if (log.state !== "done") return `Training loss ${significant(train, 2)}, test loss ${significant(test, 2)} after ${plural(log.latest.step, "step")}`;
  const first = log.evaluations[0].test_loss;
  if (log.evaluations.length >= 4 && test > 1.05 * first) return "Test loss grows: the steps are too large";
  if (test - train > 0.15 * train) return `Test loss stays ${significant(test - train, 2)} above training loss`;
  return "Training and test loss fall together";
}
