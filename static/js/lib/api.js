/** Calls to our own JSON API: every rejection becomes one ApiError, and of several questions only the newest counts. */

/** What the server, or the lack of one, said no to. */
export class ApiError extends Error {
  /** @param {number} status HTTP status; 0 if no answer came */
  constructor(status, {code = "", message = "", field = "", fields = {}, retry_after = null} = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.field = field;
    this.fields = fields;
    this.retryAfter = retry_after;
  }
}

const NO_ANSWER = "The server does not answer. Check that it is running, then try again.";

/** @param {string} url @param {{signal?: AbortSignal}} [options] */
export function getJson(url, options = {}) {
  return call(url, options);
}

/** @param {string} url @param {object} body */
export function postJson(url, body) {
  return inTurn(() =>
    call(url, {
      method: "POST",
      headers: {"Content-Type": "application/json"},
      body: JSON.stringify(body),
    }),
  );
}

/** Tabs post in turn: the answer to the first launch brings the cookie that the next one must carry. */
function inTurn(post) {
  const locks = globalThis.navigator?.locks; // none where a site is served without TLS
  return locks ? locks.request("post", post) : post();
}

/** @param {string} url @param {object} body */
export function patchJson(url, body) {
  return call(url, {
    method: "PATCH",
    headers: {"Content-Type": "application/json"},
    body: JSON.stringify(body),
  });
}

/** @param {string} url */
export function deleteJson(url) {
  return call(url, {method: "DELETE"});
}

async function call(url, options) {
  const headers = {Accept: "application/json", ...options.headers};
  let response;
  try {
    response = await fetch(url, {...options, headers});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, {message: NO_ANSWER});
  }
  const body = await response.json().catch(() => null);
  if (response.ok) return body;
  const fallback = {message: `The server answered ${response.status}. Try again in a moment.`};
  throw new ApiError(response.status, body?.error ?? fallback);
}

const SETTLE_MS = 20; // after one of many changes, before the server is asked
const QUIET_MS = 100; // after the last change, a new one is the first of many, and asked about at once
const TYPING_MS = 300; // after a key: who types 4096 asks about 4096 only
const PENDING_MS = 100; // an answer that takes longer is shown to be awaited
const ANSWER_MS = 80; // from a change on, the whole answer has so long before a preliminary one is shown

export class Newest {
  /** @param {HTMLElement} root holds the [data-answer]s that depend on the settings */
  constructor(root) {
    this.root = root;
    this.asked = 0; // when, on the clock of the page
    this.lasted = 0; // ms, the last whole answer
  }

  /**
   * Put a question soon, in place of the one before. It takes care of its own errors.
   * @param {(signal: AbortSignal) => Promise<void>} question
   * @param {{typing?: boolean}} [options] typing: more keys may come
   */
  ask(question, {typing = false} = {}) {
    clearTimeout(this.timer);
    const now = performance.now();
    const settle = now - this.asked > QUIET_MS ? 0 : SETTLE_MS;
    this.asked = now;
    this.controller?.abort();
    this.controller = new AbortController();
    this.await();
    const {signal} = this.controller;
    this.timer = setTimeout(() => this.put(question, signal), typing ? TYPING_MS : settle);
  }

  async put(question, signal) {
    try {
      await question(signal);
    } catch (error) {
      if (!signal.aborted) throw error; // what is dropped may fail as it likes
    } finally {
      if (!signal.aborted) this.rest();
    }
  }

  await() {
    this.setBusy("true");
    this.pending ??= setTimeout(() => this.root.classList.add("pending"), PENDING_MS);
  }

  rest() {
    clearTimeout(this.pending);
    this.pending = null;
    this.root.classList.remove("pending");
    this.setBusy("false");
  }

  setBusy(value) {
    for (const part of this.root.querySelectorAll("[data-answer]")) part.setAttribute("aria-busy", value);
  }

  /**
   * Whether an answer comes while the eye still waits: a preliminary one would only flicker.
   * It is not waited for if the last one lasted longer than is left.
   * @param {Promise<unknown>} answer
   */
  isSoon(answer) {
    const now = performance.now();
    const left = this.asked + ANSWER_MS - now;
    answer.then(() => (this.lasted = performance.now() - now), () => {});
    if (this.lasted > left) return Promise.resolve(false);
    return Promise.race([answer.then(() => true), new Promise((done) => setTimeout(done, Math.max(0, left), false))]);
  }
}
