/** Times as the visitor's clock and calendar have them. */

const OF_DAY = {hour: "2-digit", minute: "2-digit", second: "2-digit"};
const OF_YEAR = {day: "numeric", month: "short", hour: "2-digit", minute: "2-digit"};

/** @param {number} seconds since 1970 */
export function clock(seconds) {
  return new Date(1000 * seconds).toLocaleTimeString("en-GB", OF_DAY);
}

/** Turn every <time data-time> from UTC into local time. */
export function showTimes(root) {
  for (const element of root.querySelectorAll("[data-time]")) {
    element.textContent = new Date(element.dateTime).toLocaleString("en-GB", OF_YEAR);
  }
}
