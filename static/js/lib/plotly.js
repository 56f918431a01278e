/** The only module that touches the global which the vendored classic script leaves. */

/** Resolves with Plotly once its deferred script (#plotly) has run. */
export const plotly = new Promise((resolve, reject) => {
  const script = globalThis.document?.getElementById("plotly");
  if (globalThis.Plotly) resolve(globalThis.Plotly);
  script?.addEventListener("load", () => resolve(globalThis.Plotly));
  script?.addEventListener("error", () => reject(new Error("the chart library did not load")));
});

/** Own labelled buttons stand under each chart, so Plotly's unnamed ones stay away. */
export const CONFIG = {displayModeBar: false, displaylogo: false, doubleClick: false, showTips: false};
