/** Headings and sentences of the widget. */

import {decimals, decimalsUp, integer, plural} from "../../../../../static/js/lib/format.js";
import {interval, meanOfShares} from "../../../../../static/js/widgets/common/statistics.js";
import {mostHits} from "./limit.js";

/** Share as a percentage, rounded to the nearest integer. */
export const percent = (share) => `${Math.round(100 * share)} %`;
/** Limit as a percentage, rounded up. */
export const percentUp = (share, digits = 0) => `${decimalsUp(100 * share, digits)} %`;

/** Share of correct calls with equal odds of both worlds: [share, low, high]. */
export const rightCalls = ({hits, alarms, count}) => meanOfShares(hits / count, 1 - alarms / count, count);

/**
 * @param {string[]} names of both limits, the run's limit first @param {{most: string[]}} point both limits in
 *   percent
 */
export function conclusion(tally, names, {most}) {
  const [share] = rightCalls(tally);
  const limits = names.map((name, i) => `${name}: ${most[i]} %`).join("; ");
  const beyond = 100 * share > Number(most[0]) ? ", by chance beyond the limit" : "";
  return `The attacker is right ${percent(share)} of the time${beyond}; at most (${limits})`;
}

/** Settings of the trainings. */
export function setting(data, {rate, noise}) {
  return `DP-SGD on a line through ${data.records.length} points: ${data.steps} steps, ` +
    `q\u00a0=\u00a0${data.rates[rate].sample_rate}, σ\u00a0=\u00a0${decimals(data.noise[noise])}`;
}

/** Meaning of the call “it was there”, compared with the guarantee. */
export function odds({hits, alarms, count}, lines) {
  if (hits === 0) return "With this threshold it never says “it was there”. Drag it to the left.";
  if (alarms === 0) {
    return `It says “it was there” ${plural(hits, "time")} in ${integer(count)} when it was, and never when it was not. ` +
      `With so few trainings the true share of false alarms may still be up to ${percentUp(interval(0, count)[1], 1)}.`;
  }
  const share = alarms / count;
  const most = decimalsUp(mostHits(lines, share) / share, 1);
  return `Start at even odds. When the attacker says “it was there”, they are ${decimals(hits / alarms, 1)} to 1: ` +
    `${plural(hits, "hit")} against ${plural(alarms, "false alarm")}. With this share of false alarms, any attack on this run reaches at most ${most} to 1.`;
}

/** Explanation of a dot above the limit, which is due to chance; "" if it is below. */
export function chance({hits, alarms, count}, lines) {
  const most = mostHits(lines, alarms / count);
  if (hits / count <= most) return "";
  const [low] = interval(hits, count);
  const wide = Math.round(50 * (interval(hits, count)[1] - low));
  return `The dot is beyond the limit by chance: shares of ${integer(count)} trainings scatter by some ${plural(Math.max(1, wide), "point")} either way. More trainings narrow that.`;
}

/** Count with its share and confidence interval, for the table. */
export function row(hits, count) {
  const [low, high] = interval(hits, count);
  return [`${integer(hits)} of ${integer(count)}`, percent(hits / count), `${Math.round(100 * low)} to ${Math.round(100 * high)} %`];
}
