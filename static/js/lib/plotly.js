/**
 * The only module that loads the chart library, a classic script that leaves a global: 1.3 MB that no page waits for.
 * Its address stands in #plotly.
 */

const IDLE_MS = 4000; // at the latest so long after the page has loaded

/** @type {Promise<any> | null} */
let loading = null;

/** Load the library now, once. */
export function plotly() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.addEventListener("load", () => resolve(globalThis.Plotly));
    script.addEventListener("error", () => {
      loading = null; // the next chart tries again
      reject(new Error("the chart library did not load"));
    });
    script.src = document.getElementById("plotly").dataset.src;
    document.head.append(script);
  });
  return loading;
}

/** Load the library once the browser has nothing else to do: what the charts show stands already. */
export async function plotlyWhenIdle() {
  if (document.readyState !== "complete") await new Promise((done) => addEventListener("load", done, {once: true}));
  await new Promise((done) => (globalThis.requestIdleCallback ? requestIdleCallback(done, {timeout: IDLE_MS}) : setTimeout(done, 200)));
  return plotly();
}

/** Own labelled buttons stand under each chart, so Plotly's unnamed ones stay away. */
export const CONFIG = {displayModeBar: false, displaylogo: false, doubleClick: false, showTips: false};
