/** Logs of all runs of a group, filled from one stream of events. */

import {RunLog} from "../runs/log/run_log.js";

/**
 * @typedef {import("../charts/runs_chart.js").Run & {id: string, value: string, place: number}} Member a run of the group
 * `value`: setting that differs from the other runs, at `place` on the axis of a sweep; `together`: runs with this text
 * in common differ in the seed only
 *
 * @typedef {object} Value a value of a sweep, with all its runs
 * @property {string} key text that its lines have in common, or the key of its only line
 * @property {string} value @property {number} place @property {string} colour
 * @property {(Member & {log: RunLog})[]} members
 */

export class GroupLog {
  /** @param {Member[]} members */
  constructor(members) {
    this.members = members.map((member) => ({...member, log: new RunLog()}));
    this.byId = new Map(this.members.map((member) => [member.id, member]));
    /** Id of the newest event. */
    this.last = 0;
  }

  /** @param {{id: number, run_id: string, seq: number, kind: string, data: object}} event */
  add(event) {
    this.last = Math.max(this.last, event.id);
    this.byId.get(event.run_id)?.log.add(event);
  }
}

/** Final accuracy of a completed run, otherwise null. */
export function endOf({log}) {
  return log.state === "done" ? log.accuracy : null;
}

/** Values of a sweep in the order of the axis. @param {(Member & {log: RunLog})[]} members @returns {Value[]} */
export function valuesOf(members) {
  const byKey = new Map();
  for (const member of members) {
    const {key, together, value, place, colour} = member;
    const name = together || key;
    if (!byKey.has(name)) byKey.set(name, {key: name, value, place, colour, members: []});
    byKey.get(name).members.push(member);
  }
  return [...byKey.values()].sort((a, b) => a.place - b.place);
}

/**
 * Values with a result, and the least, mean and largest result of their runs. @param {(Member & {log: RunLog})[]} members
 * @param {(member: Member & {log: RunLog}) => number | null} read
 * @returns {(Value & {low: number, mean: number, high: number, count: number})[]}
 */
export function rangesOf(members, read) {
  return valuesOf(members).flatMap((value) => {
    const results = value.members.map(read).filter((result) => result !== null);
    if (results.length === 0) return [];
    const mean = results.reduce((sum, one) => sum + one, 0) / results.length;
    return [{...value, low: Math.min(...results), mean, high: Math.max(...results), count: results.length}];
  });
}

/** Value with the largest mean, null without one. @param {ReturnType<typeof rangesOf>} ranges */
export function bestOf(ranges) {
  return ranges.reduce((best, value) => (best === null || value.mean > best.mean ? value : best), null);
}
