/** Conclusions about a group, as sentences. They contain accuracies only; the server prints all values of ε. */

import {decimals, percent} from "../lib/format.js";
import {bestOf, endOf, rangesOf} from "./group_log.js";

const CLIMB = 0.003; // smallest gain in accuracy over the last third at which a run counts as still improving

/** Percentage points as text: 1.3. */
const points = (share) => decimals(100 * share, 1);

/** Rounded as in the text, so that comparisons agree with the printed numbers. */
const number = (share) => Number(points(share).replace("−", "-"));

/** Heading of all charts. @param {string} purpose @param {import("./group_log.js").Member[]} members */
export function conclusion(purpose, members, setting) {
  const ends = members.map(endOf);
  if (ends.every((end) => end === null)) return members.every(({log}) => log.isFinal) ? "None of these runs reached its end" : "Accuracy while they train";
  return {sweep: sweepWords, seeds: seedsWords, twin: twinWords}[purpose](members, ends, setting);
}

function sweepWords(members, ends, setting) {
  const name = setting ? setting.symbol || setting.label : "";
  const ranges = rangesOf(members, endOf);
  const best = bestOf(ranges);
  const isRepeated = members.some(({together}) => together);
  const top = `${name} = ${best.value} ends highest, at ${percent(best.mean)}${isRepeated ? " on average" : ""}`;
  if (members.some((member) => endOf(member) === null && !member.log.isFinal)) return `So far ${top}`;
  if (isRepeated) return luckWords(name, top, best, ranges.filter((value) => value !== best));
  return ranges.length < members.length ? `So far ${top}` : `${top}; all end between ${percent(Math.min(...ends))} and ${percent(best.mean)}`;
}

/**
 * Values within luck of the best: their range of final accuracies overlaps its range. A value with one run has no
 * range and is not compared.
 */
function luckWords(name, top, best, others) {
  const compared = others.filter(({count}) => count > 1);
  if (best.count < 2 || compared.length === 0) return `${top}; too few runs ended to tell it from luck`;
  const near = compared.filter(({high}) => high >= best.low);
  if (near.length === 0) return `${top}; no other value is within luck of it`;
  if (near.length === others.length && near.length > 1) return `${top}; all other values are within luck of it`;
  return `${top}; ${name} = ${listed(near.map(({value}) => value))} ${near.length > 1 ? "are" : "is"} within luck of it`;
}

const listed = (texts) => (texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`);

function seedsWords(members, ends) {
  const accuracies = ends.filter((end) => end !== null);
  const [least, most] = [Math.min(...accuracies), Math.max(...accuracies)];
  const runs = `${accuracies.length} of ${members.length} seeds`;
  if (accuracies.length < 2) return `One of ${members.length} seeds ended at ${percent(most)}`;
  const who = accuracies.length < members.length ? runs : `${accuracies.length} seeds`;
  return `${who} end between ${percent(least, 2)} and ${percent(most, 2)}: luck alone moves a run by ${decimals(100 * (most - least), 2)} points`;
}

function twinWords(members, ends) {
  const split = splitOf(ends);
  if (split === null) return "The loss is split when all three have ended";
  const unfair = notComparable(members, ends);
  if (unfair) return unfair;
  const noise = number(split.noise) > 0 ? points(split.noise) : "none that shows";
  return number(split.total) > 0
    ? `Of ${points(split.total)} points of accuracy lost, clipping takes ${points(split.clipping)} and noise ${noise}`
    : "No loss shows in one run of each";
}

/**
 * Reason why the final accuracies of a twin cannot be compared, as a heading; "" if they can. Privacy never increases
 * accuracy: if the ordinary run ends lower, it had too few steps or an unsuitable learning rate.
 * @param {import("./group_log.js").Member[]} members private, clipped only, ordinary
 * @param {(number | null)[]} ends
 */
export function notComparable(members, ends) {
  const [, , ordinary] = members;
  if (isClimbing(ordinary)) return "Not comparable yet: ordinary was still climbing at its last step";
  const [priv, clipped, unclipped] = ends;
  const ahead = number(Math.max(priv, clipped) - unclipped);
  if (ahead <= 0) return "";
  const name = clipped >= priv ? "clipped only" : "private";
  return `Not comparable: ${name} ended ${points(Math.max(priv, clipped) - unclipped)} points above ordinary, whose learning rate or length does not suit it`;
}

/** True if the accuracy rose by more than random variation over the last third of a run. */
export function isClimbing({log}) {
  const points = log.evaluations;
  const end = points.at(-1);
  const before = points.findLast(({step}) => end && step <= (2 / 3) * end.step);
  return Boolean(before) && end.test_accuracy - before.test_accuracy > CLIMB;
}

/**
 * Accuracy lost to clipping and to noise, as shares; null until all three runs have ended.
 * @param {(number | null)[]} ends private, clipped only, ordinary
 */
export function splitOf([priv, clipped, ordinary]) {
  if (priv === null || clipped === null || ordinary === null) return null;
  return {clipping: ordinary - clipped, noise: clipped - priv, total: ordinary - priv};
}

/** Mean and range of the final accuracies; "" below two. */
export function spread(ends) {
  const accuracies = ends.filter((end) => end !== null);
  if (accuracies.length < 2) return "";
  const mean = accuracies.reduce((sum, end) => sum + end, 0) / accuracies.length;
  return `Mean ${percent(mean, 2)}, from ${percent(Math.min(...accuracies), 2)} to ${percent(Math.max(...accuracies), 2)}`;
}

/** Text next to the progress bar. @param {{ended: number, total: number, has_ended: boolean}} group */
export function progressWords({ended, total, has_ended: over}) {
  return over ? `All ${total} runs have ended` : `${ended} of ${total} runs have ended`;
}

/** Status line of a value in the small multiples. @param {import("./group_log.js").Value} value */
export function valueWords(value, epsilonText) {
  const {members} = value;
  if (members.length === 1) return memberWords(members[0], epsilonText);
  const [range] = rangesOf(members, endOf);
  const ended = `${range?.count ?? 0} of ${members.length} seeds`;
  return range ? `${ended}, mean ${percent(range.mean)}` : ended;
}

/** Status line of one run in the small multiples. */
export function memberWords({log, planned}, epsilonText) {
  if (log.state === "queued" || log.state === "paused") return log.state;
  const reached = log.accuracy === null ? "" : percent(log.accuracy);
  if (log.state === "done") return `ε ${epsilonText}, ${reached}`;
  if (log.isFinal) return {failed: "failed", cancelled: "stopped", interrupted: "interrupted"}[log.state];
  return `step ${log.latest.step} of ${planned}${reached ? `, ${reached}` : ""}`;
}
