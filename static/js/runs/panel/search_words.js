/** What a blind search came to, in words. */

import {percent} from "../../lib/format.js";

const BEFORE = "Nothing is shown before the last training has ended";
const NONE = "No winner: no trial was drawn, or none had finite numbers";
const STOPPED = "It ended before its winner was released";

/** The settings that won: η = 4, C = 0.5; a dash before the end. */
export function winnerWords(winner, searched) {
  if (!winner) return "–";
  return Object.entries(winner)
    .map(([name, value]) => `${searched[name].symbol || searched[name].label.toLowerCase()} = ${value}`)
    .join(", ");
}

/** The heading of the chart. */
export function conclusion(log, searched) {
  if (!log?.end) return log?.isFinal ? STOPPED : BEFORE;
  if (!log.end.winner) return NONE;
  return `The winner, ${winnerWords(log.end.winner, searched)}, reaches ${percent(log.end.test_accuracy)}`;
}
