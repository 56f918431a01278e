/** What each chart shows, as columns: for the table beside it and for CSV. */

import {decimalsUp, percent, significant} from "../lib/format.js";

/** CSV heads are the names of the run's log; the table's are for people. */
export const COLUMNS = {
  accuracy: {
    caption: "Test accuracy after each evaluation",
    names: ["step", "epsilon", "seconds", "test_accuracy", "test_loss"],
    heads: ["Step", "ε spent", "Seconds", "Accuracy", "Test loss"],
  },
  loss: {
    caption: "Loss, nats; the training loss is not private",
    names: ["step", "loss", "test_loss"],
    heads: ["Step", "Training loss", "Test loss"],
  },
  norms: {
    caption: "Per-sample gradient norms of the newest step, not private",
    names: ["from", "to", "samples"],
    heads: ["Norm from", "to", "Samples"],
  },
};

/** Raw values, one row a point. @param {import("../runs/log/run_log.js").RunLog} log */
export function values(chart, log) {
  return READ[chart](log);
}

/** The same rows as a person reads them. */
export function texts(chart, log, plan) {
  const rows = values(chart, log);
  const write = WRITE[chart];
  return {...COLUMNS[chart], rows: (chart === "loss" ? rows.filter((row) => row[2] !== null) : rows).map((row) => write(row, plan))};
}

const READ = {
  accuracy: (log) => log.evaluations.map((point) => COLUMNS.accuracy.names.map((name) => point[name])),
  loss: (log) => {
    const tests = new Map(log.evaluations.map((point) => [point.step, point.test_loss]));
    return log.steps.map(({step, loss}) => [step, loss, tests.get(step) ?? null]);
  },
  norms: (log) => {
    const counts = log.steps.findLast((step) => step.norm_counts)?.norm_counts ?? [];
    const edges = log.phase?.norm_edges ?? [];
    return counts.map((count, i) => [edges[i], edges[i + 1], count]);
  },
};

const WRITE = {
  accuracy: ([step, epsilon, seconds, accuracy, loss], plan) => [
    step, decimalsUp(epsilon, plan.digits), seconds.toFixed(2), percent(accuracy, 2), loss.toFixed(4),
  ],
  loss: ([step, loss, test]) => [step, loss?.toFixed(4) ?? null, test?.toFixed(4) ?? null],
  norms: ([from, to, count]) => [significant(from), significant(to), count],
};
