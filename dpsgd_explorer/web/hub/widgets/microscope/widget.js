/** Microscope: one DP-SGD step in a plane of two parameters, the slope and intercept of a line. */

import {grip} from "../../../../../static/js/widgets/common/drag.js";
import {decimals} from "../../../../../static/js/lib/format.js";
import {Generator} from "../../../../../static/js/widgets/common/random.js";
import {Chart, clamp} from "../../../../../static/js/lib/svg.js";
import {length} from "../../../../../static/js/widgets/common/toy_problem.js";
import {NARROW} from "../../../../../static/js/widgets/common/tabs.js";
import {playOnce} from "../../../../../static/js/widgets/common/play_once.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";
import {gradients, nearest, records, sample, sums} from "./drawings.js";
import {mountNetwork} from "./network.js";
import {angle, compute} from "../../../../../static/js/widgets/common/dpsgd_step.js";
import {which, words} from "./words.js";

const ENDS = [0.25, 4]; // range of C and σ, relative to their initial values
const SEED = 365;
const HEIGHTS = [168, 220, 300]; // px: on phones, of small and of large drawings
const SMALL = 360; // px
const TURN_MS = 1500; // between two sub-steps that follow by themselves
const SHRINK_MS = 720; // duration of the clipping animation; 0 with reduced motion
const BARS = [4, 8, 16, 32, 64, 128]; // possible norms of a full bar

export function mount(element, data) {
  const names = data.steps.map(([name]) => name);
  const order = (name) => names.indexOf(name);
  const source = new Generator(SEED);
  const state = {
    step: 0, bound: data.bound, noiseMultiplier: data.noise_multiplier, chosen: data.odd, drawn: data.drawn,
    noise: data.noise[0], ghosts: data.noise.slice(1), shown: 1, angle: -0.35, guess: null,
  };
  const speak = speaker(element);
  const places = {arrows: [], inset: []};
  const narrow = matchMedia(NARROW);
  const height = (width) => HEIGHTS[narrow.matches ? 0 : width < SMALL ? 1 : 2];
  const charts = {
    arrows: new Chart(part(element, "arrows"), {height, role: "group", label: "Gradients as arrows from one point, and the circle of radius C", draw: () => draw()}),
    sums: new Chart(part(element, "sums"), {height, label: "True, clipped and noisy sum as arrows, with other draws of the noise", draw: () => draw()}),
    inset: new Chart(part(element, "inset"), {height: 170, label: "All records; the chosen one has a ring", draw: () => draw()}),
  };
  const formula = part(element, "formula");
  const buttons = [...element.querySelectorAll("[data-step]")];
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  const setBound = (bound) => {
    state.bound = clamp(bound, ...ENDS);
    part(element, "bound").value = String(Math.log2(state.bound));
    redraw();
  };
  const bound = grip(charts.arrows, {
    label: "Clipping bound C", control: "bound", range: ENDS,
    move: ([x, y]) => {
      if (Math.hypot(x, y) > 0.05) state.angle = Math.atan2(y, x);
      setBound(Math.hypot(x, y));
    },
    step: ([dx, dy], big) => setBound(state.bound * 2 ** ((dx + dy) * (big ? 0.5 : 0.125))),
  });

  function draw() {
    if (part(element, "plane").hidden || (!charts.arrows.width && !charts.sums.width)) return;
    const step = compute({...data, ...state});
    const is = (name) => state.step >= order(name);
    const [title, sentence] = words(names[state.step], step, {...data, ...state});
    write(element, "title", title, [...title.matchAll(/\d+°/g)].map(([angle], i) => [angle, i ? "private" : "good"]));
    write(element, "sub", `One DP-SGD step in a plane of two parameters, arrows pointing downhill; C = ${decimals(state.bound)}, σ = ${decimals(state.noiseMultiplier)}`);
    write(element, "sentence", sentence);
    write(element, "which", which(state.chosen, step, {...data, ...state}));
    speak(`${title}. ${sentence}`);
    const moved = names[state.step] === "move" ? step.sums.noisy.map((value, i) => data.at[i] + (data.learning_rate * value) / data.expected) : null;
    const shows = {
      arrows: (chart) => (is("compute") ? gradients(chart, data, state, step, is("clip")) : sample(chart, data, state)),
      inset: (chart) => records(chart, data, state, moved),
    };
    for (const [name, marks] of Object.entries(shows)) {
      if (!charts[name].width) continue;
      const drawing = marks(charts[name]);
      places[name] = drawing.places;
      charts[name].show(drawing.marks);
    }
    if (charts.sums.width) charts.sums.show(sums(charts.sums, data, state, step, names[state.step], {
      isSummed: is("sum"), isNoisy: is("noise"), isDivided: is("divide"), hasTrail: names[state.step] === "sum", guess: state.guess,
    }));
    bound.show(is("compute"));
    if (is("compute") && charts.arrows.width) drawBound();
    drawTable(step, is);
    drawControls(is);
  }

  function drawBound() {
    const {x, y, width, height} = charts.arrows;
    const at = [x(state.bound * Math.cos(state.angle)), y(state.bound * Math.sin(state.angle))];
    bound.at([clamp(at[0], 14, width - 14), clamp(at[1], 14, height - 14)], state.bound.toFixed(2), `C = ${decimals(state.bound)}`);
  }

  function drawTable(step, is) {
    const divisor = is("divide") ? data.expected : 1;
    const sizes = Object.entries(step.sums).map(([name, vector]) => [name, vector, length(vector)]);
    const full = BARS.find((most) => most >= Math.max(...sizes.map(([, , size]) => size))) ?? BARS.at(-1);
    for (const [name, vector, size] of sizes) {
      const isKnown = is(name === "noisy" ? "noise" : "sum");
      part(element, `${name}-bar`).setAttribute("width", String(isKnown ? (100 * size) / full : 0));
      write(element, `${name}-length`, isKnown ? decimals(size / divisor) : "–");
      write(element, `${name}-turn`, isKnown && name !== "true" ? `${Math.round(angle(step.sums.true, vector))}°` : "");
    }
    write(element, "unit", is("divide") ? "Mean" : "Sum");
  }

  function drawControls(is) {
    write(element, "left-title", is("compute") ? "Gradients of the batch" : "The records, drawn or not");
    write(element, "right-title", is("divide") ? `The same arrows, divided by ${data.expected}` : "Their sum");
    write(element, "next", state.step === names.length - 1 ? "Start again" : "Next sub-step");
    part(element, "new-noise").disabled = !is("noise");
    for (const [name, value] of [["bound", state.bound], ["noise", state.noiseMultiplier]]) {
      write(element, `${name}-words`, decimals(value));
      part(element, name).setAttribute("aria-valuetext", decimals(value));
    }
    buttons.forEach((button, i) => {
      button.classList.toggle("done", i < state.step);
      if (i === state.step) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    });
    for (const term of formula.querySelectorAll("[data-term]")) term.classList.toggle("on", term.dataset.term === names[state.step]);
    const [frame, lit] = [formula, formula.querySelector(".on")].map((shown) => shown.getBoundingClientRect());
    formula.scrollLeft += Math.max(0, lit.right - frame.right) + Math.min(0, lit.left - frame.left); // scrolls to the highlighted term on narrow pages
  }
  const redraw = oncePerFrame(draw);

  /** Go to a sub-step; only clipping is animated. */
  function go(step) {
    const isClipping = step === order("clip") && state.step < step && !still.matches;
    state.step = step;
    part(element, "place").value = String(step);
    part(element, "plane").dataset.half = step < order("sum") ? "gradients" : "sum";
    part(element, "pictures").dispatchEvent(new CustomEvent("tab", {detail: step < order("sum") ? "Gradients" : "Their sum"}));
    state.shown = isClipping ? 0 : 1;
    redraw();
    if (!isClipping) return;
    const start = performance.now();
    const frame = (time) => {
      const done = clamp((time - start) / SHRINK_MS, 0, 1);
      state.shown = state.step === order("clip") ? 1 - (1 - done) ** 3 : 1;
      draw();
      if (state.shown < 1) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  buttons.forEach((button, i) => button.addEventListener("click", () => go(i)));
  part(element, "place").addEventListener("change", ({target}) => go(Number(target.value)));
  part(element, "next").addEventListener("click", () => go((state.step + 1) % names.length));
  part(element, "new-noise").addEventListener("click", () => {
    state.noise = [...source.normals(new Float64Array(2))];
    redraw();
  });
  part(element, "new-batch").addEventListener("click", () => {
    state.drawn = data.records.map((_, i) => i).filter(() => source.uniform() < data.sample_rate);
    redraw();
  });
  part(element, "bound").addEventListener("input", ({target}) => setBound(2 ** Number(target.value)));
  part(element, "noise").addEventListener("input", ({target}) => {
    state.noiseMultiplier = 2 ** Number(target.value);
    redraw();
  });

  const choose = (i) => {
    if (i === undefined || i === null) return;
    state.chosen = i;
    redraw();
  };
  const pick = (chart, indexAt) => chart.marks.addEventListener("click", (event) => choose(indexAt(chart.pixel(event))));
  pick(charts.arrows, (point) => state.drawn[nearest(point, places.arrows)]);
  pick(charts.inset, (point) => nearest(point, places.inset));
  for (const [name, by] of [["before", -1], ["after", 1]]) {
    part(element, name).addEventListener("click", () => choose((state.chosen + by + data.records.length) % data.records.length));
  }
  const drawNetwork = mountNetwork(element, data.network, speak);
  for (const radio of element.querySelectorAll("[data-view]")) {
    radio.addEventListener("change", () => {
      for (const view of ["plane", "network"]) {
        part(element, view).hidden = view !== radio.value;
        part(element, `${view}-notes`).hidden = view !== radio.value;
      }
      draw();
      drawNetwork();
    });
  }
  element.addEventListener("guessed", ({detail: [turn]}) => {
    state.guess = turn.value;
    redraw();
  });
  const shown = names.slice(0, order("noise") + 1);
  playOnce(element, shown.map((_, i) => () => go(i)), TURN_MS);
}
