/** Settings that were changed while a run trained: what is in force, and what is said of it. */

import {integer, significant} from "../../lib/format.js";

export const CHANGEABLE = {learning_rate: "learning rate η", max_grad_norm: "clipping bound C"};
const PRICE = {
  learning_rate: "It costs no ε: the learning rate does not enter it.",
  max_grad_norm: "It costs no ε: the noise is a multiple of C.",
};
export const COVERED =
  "Chosen while looking: ε covers the choice if the accuracy, ε or the weights led to it, and does not cover it if the loss or the gradients' lengths did.";

/** Pure: the settings that a run has now. */
export function inForce(config, log) {
  return Object.assign({}, config, ...log.changes.map(({changes}) => changes));
}

/** Pure: what was changed in mid-run, in words; "" if nothing was. */
export function changesSaid(config, log) {
  const now = {...config};
  const said = log.changes.map(({step, changes}) => {
    const parts = Object.entries(changes).map(([name, value]) => `${CHANGEABLE[name] ?? name} ${significant(now[name])} → ${significant(value)}`);
    Object.assign(now, changes);
    return `after step ${integer(step)}, ${parts.join(" and ")}`;
  });
  return said.length === 0 ? "" : `Changed ${said.join("; ")}. ${COVERED}`;
}

/** Pure: the note under a field whose value differs from the run's; null: there is nothing to offer. */
export function offer(name, typed, config, log) {
  const value = typed.trim() === "" ? NaN : Number(typed);
  const now = inForce(config, log)[name];
  const isOn = log.state === "running" || log.state === "paused";
  if (!isOn || !(value > 0) || !Number.isFinite(value) || value === now) return null;
  if (name === "max_grad_norm" && (!config.private || config.clipping_schedule === "adaptive")) return null;
  return {value, words: `${significant(now)} in this run → ${significant(value)} from its next step. ${PRICE[name]} ${COVERED}`};
}

/** Say it on the page. @param {HTMLElement | null} place none: this kind of run cannot be changed */
export function showChanges(place, config, log) {
  if (!place) return;
  const words = changesSaid(config, log);
  if (place.textContent !== words) place.textContent = words;
  place.hidden = words === "";
}
