/**
 * The log of one run, live: one EventSource a page, and polling of the same log
 * when the stream is refused (the server caps its listeners) or keeps failing.
 */

import {getJson} from "../../lib/api.js";

const KINDS = ["state", "phase", "progress", "step", "evaluation", "model", "microscope", "end"];
const POLL_MS = 700;
const FAILURES = 3;

export const FINAL_STATES = new Set(["done", "failed", "cancelled", "interrupted"]);

export class RunFeed {
  /**
   * @param {object} options
   * @param {string} options.eventsUrl the stream
   * @param {string} options.logUrl the same log as JSON
   * @param {(event: {seq: number, kind: string, data: object}) => void} options.onEvent
   * @param {(online: boolean) => void} [options.onConnection]
   */
  constructor({eventsUrl, logUrl, onEvent, onConnection = () => {}}) {
    this.eventsUrl = eventsUrl;
    this.logUrl = logUrl;
    this.onEvent = onEvent;
    this.onConnection = onConnection;
    this.seq = 0;
    this.failures = 0;
    this.source = null;
    this.timer = null;
    this.closed = true;
  }

  /** Follow from after entry `seq` of the log. */
  open(seq = 0) {
    this.closed = false;
    this.seq = seq;
    this.listen();
  }

  close() {
    this.closed = true;
    this.source?.close();
    this.source = null;
    clearTimeout(this.timer);
  }

  listen() {
    const source = new EventSource(`${this.eventsUrl}?after=${this.seq}`);
    this.source = source;
    for (const kind of KINDS) {
      source.addEventListener(kind, (message) => {
        this.failures = 0;
        this.receive({seq: Number(message.lastEventId), kind, data: JSON.parse(message.data)});
      });
    }
    source.addEventListener("open", () => this.onConnection(true));
    source.addEventListener("error", () => this.fail(source));
  }

  fail(source) {
    if (this.closed) return;
    this.failures += 1;
    this.onConnection(false);
    if (source.readyState !== EventSource.CLOSED && this.failures < FAILURES) return;
    source.close();
    this.poll();
  }

  async poll() {
    if (this.closed) return;
    try {
      const {events} = await getJson(`${this.logUrl}?after=${this.seq}`);
      this.onConnection(true);
      for (const event of events) this.receive(event);
    } catch {
      this.onConnection(false);
    }
    if (!this.closed) this.timer = setTimeout(() => this.poll(), POLL_MS);
  }

  receive(event) {
    if (this.closed || event.seq <= this.seq) return;
    this.seq = event.seq;
    if (event.kind === "state" && FINAL_STATES.has(event.data.state)) this.close();
    this.onEvent(event);
  }
}
