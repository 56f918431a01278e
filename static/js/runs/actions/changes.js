/** Settings that were changed while a run trained: what is in force, and what is said of it. */

import {integer, roundUp, significant} from "../../lib/format.js";

export const CHANGEABLE = {
  learning_rate: "learning rate η",
  max_grad_norm: "clipping bound C",
  noise_multiplier: "noise multiplier σ",
  expected_batch_size: "batch size B",
  steps: "steps",
};
const PRICE = {
  learning_rate: "It costs no ε: the learning rate does not enter it.",
  max_grad_norm: "It costs no ε: the noise is a multiple of C.",
};
const FIXED =
  "This run has no budget for changes: its ε holds for a plan fixed beforehand, so noise, batch size and steps stay the same. To change them during a run, set a budget for changes before the next run.";
export const COVERED =
  "Chosen while looking: ε covers the choice if the accuracy, ε or the weights led to it, and does not cover it if the loss or the gradients' lengths did.";

/** Pure: the settings that a run has now. */
export function inForce(config, log) {
  const {noise_multiplier, expected_batch_size, steps} = log.phase ?? {};
  const counted = Object.fromEntries(Object.entries({noise_multiplier, expected_batch_size, steps}).filter(([, value]) => value !== undefined));
  const free = log.changes.map(({changes}) => Object.fromEntries(Object.entries(changes).filter(([name]) => name in PRICE)));
  return Object.assign({}, config, counted, ...free);
}

/** Pure: what was changed in mid-run, and why it ended there, in words; "" if there is nothing to say. */
export function changesSaid(config, log) {
  const now = {...config};
  const begin = log.events.find(({kind}) => kind === "phase")?.data ?? {};
  for (const name of Object.keys(CHANGEABLE)) now[name] = begin[name] ?? now[name];
  const said = log.changes.map(({step, changes: {further_steps: further, ...changes}}, i) => {
    if (further) return `${i ? "continued" : "Continued"} after step ${integer(step)} for ${integer(further)} steps`;
    const parts = Object.entries(changes).map(([name, value]) => `${CHANGEABLE[name]} ${text(name, now[name])} → ${text(name, value)}`);
    Object.assign(now, changes);
    return `${i ? "" : "Changed "}after step ${integer(step)}, ${parts.join(" and ")}`;
  });
  const isFiltered = config.private && config.filter_epsilon;
  return [
    ...(said.length ? [`${said.join("; ")}.`] : []),
    ...(said.length && config.private ? [COVERED] : []),
    ...(isFiltered && said.length ? [`A filter counts every step against the budget ε = ${roundUp(config.filter_epsilon)} fixed at the start: that is the guarantee (bound).`] : []),
    ...(log.end?.reason === "filter_epsilon" ? [`The run ended at its budget: one more step would have exceeded ε = ${roundUp(config.filter_epsilon)}.`] : []),
  ].join(" ");
}

function text(name, value) {
  if (name === "steps" || name === "expected_batch_size") return integer(value);
  return name === "noise_multiplier" ? roundUp(value, 3) : significant(value);
}

/**
 * Pure: the note under a field whose value differs from the run's; null: there is nothing to offer.
 * @returns {{value: number, words: string, isAllowed: boolean, isPriced: boolean} | null} isPriced: the server says what it costs
 */
export function offer(name, typed, config, log) {
  const value = typed.trim() === "" ? NaN : Number(typed);
  const now = inForce(config, log)[name];
  const isOn = log.state === "running" || log.state === "paused";
  if (!isOn || !(value > 0) || !Number.isFinite(value) || value === now) return null;
  if (name === "max_grad_norm" && (!config.private || config.clipping_schedule === "adaptive")) return null;
  const begin = `${now === undefined || now === null ? "–" : text(name, now)} in this run → ${text(name, value)} from its next step.`;
  if (name in PRICE) return {value, words: `${begin} ${PRICE[name]} ${COVERED}`, isAllowed: true, isPriced: false};
  if (!log.phase || (name === "noise_multiplier" && (!config.private || text(name, now) === text(name, value)))) return null;
  if (config.private && !config.filter_epsilon) return {value, words: FIXED, isAllowed: false, isPriced: false};
  return {value, words: begin, isAllowed: true, isPriced: true};
}

/** Pure: the note once a change was ordered; a paused run waits with it. */
export function orderedWords(name, value, log) {
  const when = log.state === "paused" ? "Resume or take one step to apply it." : "";
  return `${CHANGEABLE[name][0].toUpperCase()}${CHANGEABLE[name].slice(1)} will change to ${text(name, value)} at the next step. ${when}`.trim();
}

/** Say it on the page. @param {HTMLElement | null} place none: this kind of run cannot be changed */
export function showChanges(place, config, log) {
  if (!place) return;
  const words = config ? changesSaid(config, log) : "";
  if (place.textContent !== words) place.textContent = words;
  place.hidden = words === "";
}
