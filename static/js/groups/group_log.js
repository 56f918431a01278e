/** The logs of all runs of a group, fed from one list of events. */

import {RunLog} from "../runs/log/run_log.js";

/**
 * @typedef {object} Member a run of the group
 * @property {string} id
 * @property {string} value what distinguishes it
 * @property {number | null} number the same as a number
 * @property {boolean} private whether it adds noise
 * @property {number} steps planned
 * @property {number} evaluations planned
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

/** Accuracy at the end of a run that was finished, else null. */
export function endOf({log}) {
  return log.state === "done" ? log.accuracy : null;
}
