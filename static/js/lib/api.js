/** Calls to our own JSON API; every refusal becomes one ApiError. */

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
