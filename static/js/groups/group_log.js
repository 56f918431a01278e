/** Logs of all runs of a group, filled from one stream of events. */

import {RunLog} from "../runs/log/run_log.js";

/**
 * @typedef {import("../charts/runs_chart.js").Run & {id: string, value: string, place: number}} Member a run of the group
 * `value`: setting that differs from the other runs, at `place` on the axis of a sweep
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
