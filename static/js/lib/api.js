/** Client of the site's JSON API: errors are raised as `ApiError`, and `Newest` cancels outdated requests. */

/** Error response of the server, or a missing response. */
export class ApiError extends Error {
  /** @param {number} status HTTP status; 0 without a response */
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

/** Posts from several tabs run one after another: the response to the first launch sets the cookie for the next one. */
function inTurn(post) {
  const locks = globalThis.navigator?.locks; // undefined on a site without TLS
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

const SETTLE_MS = 20; // delay of a request after one of several changes in a row
const QUIET_MS = 100; // a change after a pause of this length is requested without delay
const TYPING_MS = 300; // delay after a key press, so that typing 4096 sends one request
const PENDING_MS = 100; // a slower response gets a visible waiting state
const ANSWER_MS = 80; // longest time from a change to a preliminary answer, if the complete one is not there yet

export class Newest {
  /** @param {HTMLElement} root contains the [data-answer] elements that depend on the settings */
  constructor(root) {
    this.root = root;
    this.asked = 0; // ms, time of the last change on the page's clock
    this.lasted = 0; // ms, duration of the last complete response
  }

  /**
   * Schedule a request and cancel the previous one. The request handles its own errors.
   * @param {(signal: AbortSignal) => Promise<void>} question
   * @param {{typing?: boolean}} [options] typing: if true, more key presses may follow
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
      if (!signal.aborted) throw error; // errors of cancelled requests do not matter
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
   * Resolves to true if the response arrives within `ANSWER_MS` of the change: a preliminary answer would only
   * flicker.
   * If the last response was slower than the remaining time, resolves to false without waiting.
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
