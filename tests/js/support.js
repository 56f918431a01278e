/** A recorded run of this code (the file names its origin), and colours that are names. */

import {readFileSync} from "node:fs";
import {Chart} from "../../static/js/lib/svg.js";
import {chartPlan} from "../../static/js/charts/plan.js";
import {RunLog} from "../../static/js/runs/log/run_log.js";

export const RECORDED = JSON.parse(readFileSync(new URL("adult_run.json", import.meta.url), "utf8"));
export const PLAN = chartPlan(RECORDED.plan, RECORDED.config, RECORDED.catalogue);
/** Charts of several runs and lines behind a live curve, as the server describes them. */
export const SEVERAL = JSON.parse(readFileSync(new URL("several_runs.json", import.meta.url), "utf8"));
/** A chart of values along the steps, as the server describes one. */
export const LOSS = {
  title: "Training and test loss",
  unit: "nats",
  caption: "Loss, nats",
  settled: 4,
  enough: 8,
  series: [
    {kind: "step", field: "loss", name: "training, each step", hover: "training", head: "Training loss", is_main: false},
    {kind: "evaluation", field: "test_loss", name: "test", hover: "test", head: "Test loss", is_main: true},
  ],
};
export const SIZE = {width: 800, height: 340};

/** Tokens by their own name, so that a test sees the name of the requested token. */
export const color = (name) => name;

/** The log up to an event, all of it if nothing is said. */
export function logUpTo(accept = () => true) {
  const log = new RunLog();
  for (const event of RECORDED.events) {
    if (!accept(event)) break;
    log.add(event);
  }
  return log;
}

/** Up to and with the evaluation after a step. */
export function logUpToStep(step) {
  return logUpTo(({kind, data}) => kind === "state" || data.step <= step);
}

/** A chart without a page, of svg.js: it has scales and a size. */
export function chartOf(width, height) {
  return Object.assign(Object.create(Chart.prototype), {width, height});
}

/** All marks of a drawing, also those inside others. */
export const flat = (marks) => marks.flatMap((mark) => [mark, ...(Array.isArray(mark.content) ? flat(mark.content) : [])]);

/** A line behind a live curve. */
export const behind = (look, more) => ({...SEVERAL.behind[look], look, ...more});

/** All words of a drawing's marks. */
export const wordsOf = (marks) => marks.filter(({name}) => name === "text").map(({content}) => content);
