/** What is shown of a comparison of the engines, beside its log. */

import {RunLog} from "../log/run_log.js";
import {startOf} from "../../lib/format.js";

/**
 * @param {Record<string, any>} run as the API shows it
 * @param {Record<string, any>} plan sent with the page
 */
export function enginesContent(run, plan) {
  return {
    plan,
    title: `Run of ${startOf(run.created_at)}`,
    file: `run-${run.id.slice(0, 6)}`,
    terms: "random inputs, one thread",
  };
}

/** The comparison that ships with the page. @param {{plan: object, events: object[]}} recorded */
export function recordedContent({plan, events}) {
  const log = new RunLog();
  events.forEach((event, i) => log.add({seq: i + 1, ...event}));
  log.add({seq: events.length + 1, kind: "state", data: {state: "done"}});
  return {plan, log, whole: log, title: "A recorded run", file: "recorded", terms: "recorded; random inputs, one thread", activity: {}};
}

/** Where and on what it was measured. @param {RunLog} log @param {Record<string, any>} plan */
export function madeOn({phase}, {model, batch_size}) {
  if (!phase) return `${model}, batches of ${batch_size}`;
  const {processor, instructions, torch} = phase.machine;
  return `${model}, batches of ${batch_size}; ${processor} (${instructions}), torch ${torch}`;
}
