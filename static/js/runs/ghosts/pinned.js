/**
 * The runs that this browser pins as ghosts on Train: at most MOST ids in localStorage. Every page of this browser
 * hears of a change: the page that makes it by an event of `window`, the others by the storage itself.
 */

const KEY = "pinned-runs";
const CHANGED = "pinnedchange";
const ID = /^[A-Za-z0-9_-]{1,64}$/;

/** Runs pinned at once: a chart with more lines is read by nobody. */
export const MOST = 4;

/** Ids of the pinned runs, first pinned first; what is broken in storage is emptied. @returns {string[]} */
export function pinned() {
  const text = read();
  if (text === null) return [];
  const ids = idsIn(text);
  if (ids === null) write([]);
  return ids ?? [];
}

/** @param {string} id */
export function isPinned(id) {
  return pinned().includes(id);
}

/** Pin a run. @param {string} id @returns {boolean} false if MOST others are pinned, or storage is switched off */
export function pin(id) {
  const ids = pinned();
  if (ids.includes(id)) return true;
  return ID.test(id) && ids.length < MOST && change([...ids, id]);
}

/** Take a pinned run away; nothing happens if it is not pinned. @param {string} id */
export function unpin(id) {
  const ids = pinned();
  if (ids.includes(id)) change(ids.filter((one) => one !== id));
}

/** Call back with the pinned ids whenever they change, in this page or in another one. @param {(ids: string[]) => void} callback */
export function onPinned(callback) {
  addEventListener(CHANGED, () => callback(pinned()));
  addEventListener("storage", ({key}) => (key === KEY || key === null) && callback(pinned()));
}

/** Distinct ids, or null where the text is not a short list of ids. */
function idsIn(text) {
  try {
    const ids = JSON.parse(text);
    const isList = Array.isArray(ids) && ids.length <= MOST && new Set(ids).size === ids.length;
    return isList && ids.every((id) => typeof id === "string" && ID.test(id)) ? ids : null;
  } catch {
    return null;
  }
}

function change(ids) {
  if (!write(ids)) return false;
  dispatchEvent(new Event(CHANGED));
  return true;
}

function read() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage is switched off
  }
}

function write(ids) {
  try {
    if (ids.length) localStorage.setItem(KEY, JSON.stringify(ids));
    else localStorage.removeItem(KEY);
    return true;
  } catch {
    return false; // storage is switched off or full
  }
}
