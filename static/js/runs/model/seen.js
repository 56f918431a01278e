/** What a log says of its model at the place it has reached. Pure. */

import {percent, roundUp, significant} from "../../lib/format.js";
import {FILTER} from "../../charts/plan.js";
import {changeOf, firstFilters, linearLayer} from "../../charts/model/linear.js";

/**
 * @typedef {object} SeenModel
 * @property {Record<string, any>} model data of the last `model` event with counts
 * @property {import("../../charts/model/linear.js").LinearLayer | null} layer null: not a linear model, or no weights
 * @property {Float32Array | null} change of the layer since the start
 * @property {{count: number, side: number, change: Float32Array, start: Float32Array} | null} filters of a first convolution
 * @property {string[] | null} features names of the columns
 * @property {number} weightsStep the step that the weights are of
 * @property {string} title
 * @property {string} reached
 */

/** @param {import("../log/run_log.js").RunLog} log @returns {SeenModel | null} null before the first evaluation */
export function seenModel(log, plan) {
  const model = log.models.findLast(({confusion}) => confusion);
  if (!model) return null;
  const spent = plan.accountant === FILTER ? `budget ε ${plan.budget_text}` : `ε ${roundUp(model.epsilon, plan.digits)}`;
  const epsilon = plan.private ? `${spent}, ` : "";
  return {...partsOf(log.models), model, title: `Step ${model.step}`, reached: `${epsilon}${percent(accuracyOf(model))}`};
}

/** @param {Record<string, any>[]} models data of `model` events, in order */
export function partsOf(models) {
  const start = models.find(({step}) => step === 0);
  const weighed = models.findLast(({weights, confusion}) => weights && confusion);
  const layer = linearLayer(weighed?.weights);
  const first = linearLayer(start?.weights);
  return {
    layer,
    change: layer && first ? changeOf(layer, first) : null,
    filters: filtersOf(weighed?.weights, start?.weights),
    features: start?.features ?? null,
    weightsStep: weighed?.step ?? 0,
  };
}

function filtersOf(weights, startWeights) {
  const [now, start] = [firstFilters(weights), firstFilters(startWeights)];
  if (!now || !start) return null;
  return {...now, start: start.values, change: now.values.map((value, i) => value - start.values[i])};
}

export function accuracyOf({confusion}) {
  const right = confusion.reduce((sum, row, i) => sum + row[i], 0);
  return right / confusion.flat().reduce((sum, count) => sum + count, 0);
}

/** How quickly a run went on the machine that trained it; "" before there is anything to go by. */
export function speedText({steps}) {
  const [first, last] = [steps.at(0), steps.at(-1)];
  if (!last || last.step === first.step || last.seconds === first.seconds) return "";
  return `${significant((last.step - first.step) / (last.seconds - first.seconds), 2)} steps per second here, evaluations included`;
}
