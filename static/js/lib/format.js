/** Numbers and times as text. This module computes no privacy values. */

const grouped = new Intl.NumberFormat("en-US");

/**
 * ε as text, rounded up; null (no guarantee) is "∞". Values below the last decimal get two significant digits, like
 * on the server.
 * @param {number | null | undefined} epsilon
 * @param {number} [digits] decimals
 */
export function roundUp(epsilon, digits = 2) {
  if (epsilon === null || epsilon === undefined) return "∞";
  const value = withoutNoise(epsilon);
  return value > 0 && value < Number(`1e-${digits}`) ? small(value) : decimalsUp(value, digits);
}

/** ε with a fixed number of decimals, rounded up, for columns and sums. */
export function decimalsUp(epsilon, digits = 2) {
  if (epsilon === null || epsilon === undefined) return "∞";
  const value = withoutNoise(epsilon);
  const nearest = value.toFixed(digits);
  return Number(nearest) >= value ? nearest : (Number(nearest) + 10 ** -digits).toFixed(digits);
}

/** Lower bound with a fixed number of decimals, rounded down. */
export function roundDown(bound, digits = 2) {
  const value = withoutNoise(bound);
  const nearest = value.toFixed(digits);
  return Number(nearest) <= value ? nearest : (Number(nearest) - 10 ** -digits).toFixed(digits);
}

/** Two significant digits, rounded up. */
function small(value) {
  const [mantissa, exponent] = value.toExponential(1).split("e");
  const next = (Number(mantissa) + 0.1).toFixed(1);
  const nearest = Number(`${mantissa}e${exponent}`);
  return String(nearest >= value ? nearest : Number(`${next}e${exponent}`));
}

/** Removes errors of binary floating point: keeps 12 significant digits. */
function withoutNoise(value) {
  return Number(value.toPrecision(12));
}

/** Fraction as a percentage; ties round to the even digit, like on the server. */
export function percent(fraction, digits = 1) {
  const scaled = withoutNoise(100 * fraction * 10 ** digits);
  const low = Math.floor(scaled);
  const isTie = scaled - low === 0.5;
  const nearest = isTie ? low + (low % 2) : Math.round(scaled);
  return `${(nearest / 10 ** digits).toFixed(digits)} %`;
}

/** Keeps "ε = 3" and "50 %" on one line, like the server. @param {string | number} words */
export function unbroken(words) {
  return String(words).replace(/(?<=[εσδηCqN]) ([=≤≥≈]) (?=[−\d.∞])/g, "\u00a0$1\u00a0").replace(/(?<=\d) %/g, "\u00a0%");
}

/** Integer with thousands separators: 60,000. @param {number} count */
export function integer(count) {
  return grouped.format(Math.round(count));
}

/** At most `digits` significant digits; an exponent only below 0.001 and from 1,000,000. */
export function significant(value, digits = 3) {
  if (value === 0) return "0";
  const rounded = Number(value.toPrecision(digits));
  const size = Math.abs(rounded);
  if (size < 1e-3 || size >= 1e6) return exponential(rounded);
  return size >= 1000 ? grouped.format(rounded) : String(rounded);
}

/** Scientific notation such as 1e-5, for δ. @param {number} value */
export function exponential(value) {
  return value.toExponential().replace("e+", "e");
}

/** Duration such as 4 s or 1 min 20 s. @param {number} seconds */
export function duration(seconds) {
  if (seconds < 9.95) return `${Number(seconds.toFixed(1))} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  const rest = whole % 60;
  return rest === 0 || minutes >= 10 ? `${minutes} min` : `${minutes} min ${rest} s`;
}

/** Count with its noun: "1 step", "2 steps". */
export function plural(count, word) {
  return `${integer(count)} ${word}${count === 1 ? "" : "s"}`;
}

/** Number with a fixed number of decimals and a minus sign (U+2212); zero has no sign. */
export function decimals(value, digits = 2) {
  const rounded = value.toFixed(digits);
  return Number(rounded) === 0 ? rounded.replace("-", "") : rounded.replace("-", "−");
}

const OF_DAY = {hour: "2-digit", minute: "2-digit", second: "2-digit"};
const OF_YEAR = {day: "numeric", month: "short", hour: "2-digit", minute: "2-digit"};

/** Time of day. @param {number} seconds since 1970 */
export function clock(seconds) {
  return new Date(1000 * seconds).toLocaleTimeString("en-GB", OF_DAY);
}

/** Start time of a run, with the date unless it is today. @param {number} seconds since 1970 */
export function startOf(seconds, now = new Date()) {
  const start = new Date(1000 * seconds);
  return start.toDateString() === now.toDateString() ? clock(seconds) : start.toLocaleString("en-GB", OF_YEAR);
}

/** Convert every <time data-time> from UTC to local time. */
export function showTimes(root) {
  for (const element of root.querySelectorAll("[data-time]")) {
    element.textContent = new Date(element.dateTime).toLocaleString("en-GB", OF_YEAR);
  }
}
