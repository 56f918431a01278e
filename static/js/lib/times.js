/** Times as the visitor's clock and calendar have them. */

const OF_DAY = {hour: "2-digit", minute: "2-digit", second: "2-digit"};
const OF_YEAR = {day: "numeric", month: "short", hour: "2-digit", minute: "2-digit"};

/** @param {number} seconds since 1970 */
function clock(seconds) {
  return new Date(1000 * seconds).toLocaleTimeString("en-GB", OF_DAY);
}

/** When a run was started: the time if it was today, else the date too. @param {number} seconds since 1970 */
export function startOf(seconds, now = new Date()) {
  const start = new Date(1000 * seconds);
  return start.toDateString() === now.toDateString() ? clock(seconds) : start.toLocaleString("en-GB", OF_YEAR);
}

/** Turn every <time data-time> from UTC into local time. */
export function showTimes(root) {
  for (const element of root.querySelectorAll("[data-time]")) {
    element.textContent = new Date(element.dateTime).toLocaleString("en-GB", OF_YEAR);
  }
}
