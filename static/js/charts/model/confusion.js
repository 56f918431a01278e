/** Which class is read as which, from counts. Pure. */

import {integer} from "../../lib/format.js";

const sum = (row) => row.reduce((total, count) => total + count, 0);

/** A class in words: digits as they are, other names in quotes. */
export function named(label) {
  return /^\w{1,2}$/.test(label) ? label : `“${label}”`;
}

/** The largest count beside the diagonal; null if all are right. @param {number[][]} counts */
export function largestConfusion(counts) {
  let found = null;
  counts.forEach((row, is) => row.forEach((count, read) => {
    if (is !== read && count > (found?.count ?? 0)) found = {is, read, count, total: sum(row)};
  }));
  return found;
}

/** @param {number[][]} counts @param {string[]} labels */
export function confusionConclusion(counts, labels) {
  const most = largestConfusion(counts);
  if (!most) return "No test record is misread";
  const {is, read, count, total} = most;
  return `${integer(count)} of the ${integer(total)} test records that are ${named(labels[is])} are read as ${named(labels[read])}`;
}

/** How each cell looks: "hit", "worst", "miss" (two fifths of the worst and more), "few" or "zero". */
export function cellLooks(counts) {
  const worst = largestConfusion(counts);
  return counts.map((row, is) => row.map((count, read) => {
    if (is === read) return "hit";
    if (count === 0) return "zero";
    if (worst.is === is && worst.read === read) return "worst";
    return 5 * count >= 2 * worst.count ? "miss" : "few";
  }));
}

const LONGEST = 3; // characters of a class name that is as narrow as a number

/** Whether classes have names that need room. Pure. @param {string[]} labels */
export function areWorded(labels) {
  return labels.some((label) => label.length > LONGEST);
}
