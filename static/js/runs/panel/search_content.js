/** What is shown of a blind search, beside its log. */

import {chartPlan} from "../../charts/plan.js";
import {exponential, startOf} from "../../lib/format.js";

/** @param {{run: Record<string, any>, plan: object, catalogue: object, price: Record<string, any>, running: string}} data sent with the page */
export function searchContent({run, plan, catalogue, price, running}) {
  const {epsilon, epsilon_text: text, delta} = price.winner;
  const priced = {budget: epsilon, budget_text: text, budget_word: "winner", digits: text.split(".")[1]?.length ?? 0};
  const trial = {...chartPlan(plan, run.config, catalogue), ...priced};
  return {
    /** Of the search: a step is a training. */
    plan: {private: true, running, unit: "training", steps: price.trainings, last_step: price.trainings, delta, ...priced},
    trial,
    hasNoReplay: true, // on the way there is nothing to see
    title: `Search of ${startOf(run.created_at)}`,
    file: `search-${run.id.slice(0, 6)}`,
    terms: `ε at most ${text} at δ = ${exponential(delta)}, for the choice of the winner; accuracy is counted on test records: not private`,
  };
}
