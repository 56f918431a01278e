/** Two worlds: private trainings with and without one odd record, and a threshold to drag. */

import {grip} from "../../../../../static/js/widgets/common/drag.js";
import {decimals, integer} from "../../../../../static/js/lib/format.js";
import {oddRecord} from "../../../../../static/js/widgets/common/odd_record.js";
import {Chart, clamp} from "../../../../../static/js/lib/svg.js";
import {playOnce} from "../../../../../static/js/widgets/common/play_once.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";
import {REACH, cloud, densities, levels, losses, records, thresholds} from "./drawings.js";
import {mostHits} from "./limit.js";
import {attack, beyond, drawChance} from "./training.js";
import {chance, conclusion, odds, percentUp, rightCalls, row, setting} from "./words.js";

const REST_MS = 200; // pause after the last change before all noise levels are measured
const SEED = 7;
const TICK_MS = 160; // between two noise levels that follow by themselves
const HEIGHT = 290; // px
const NARROW_HEIGHT = [250, 240, 210]; // px, by stage
const MOVABLE = ["records", "scores"];

const CHARTS = {
  records: "Points along a rising line, one record that you can move, and the mean line of each world",
  cloud: "Two clouds of finished lines, slope against intercept",
  scores: "Densities of both worlds along the attacker’s axis, and a threshold you can move",
  thresholds: "Hits against false alarms, below the region that the promise forbids",
  levels: "Right calls against the noise multiplier, below the limit of each run",
  losses: "The law of the privacy loss in both worlds, with the band of plus and minus epsilon",
};

export function mount(element, data) {
  const state = {
    rate: data.first.rate, noise: data.first.noise, bound: 1, record: data.records[data.odd], count: data.counts[0], cut: 0,
  };
  const stage = Number(element.querySelector("[data-stage]").dataset.stage);
  const speak = speaker(element);
  const extras = {sweep: null, guesses: []};
  let seed = SEED;
  let chances = null;
  let result = null;
  let resting = 0;

  const draw = () => {
    if (Object.values(charts).every((chart) => !chart.width)) return;
    if (!result) train();
    const {lines, ...point} = data.rates[state.rate].points[state.noise];
    const [alarms, hits] = result.scores.map((values) => beyond(values, state.cut));
    const tally = {hits, alarms, count: state.count};
    const drawings = {
      records: (chart) => records(chart, data, result, state),
      cloud: (chart) => cloud(chart, result, state, data.pilots, stage > 1),
      scores: (chart) => densities(chart, result, state, tally),
      thresholds: (chart) => thresholds(chart, result, state, tally, lines),
      levels: (chart) => levels(chart, data, state, tally, extras),
      losses: (chart) => losses(chart, data, point),
    };
    for (const [name, chart] of Object.entries(charts)) if (chart.width) chart.show(drawings[name](chart));
    if (charts.records?.width) record.show(`${hits} hits, ${alarms} false alarms of ${state.count}; epsilon ${point.epsilon}`);
    if (charts.scores?.width) threshold.at([charts.scores.x(state.cut), 16], state.cut.toFixed(1), `${decimals(state.cut, 1)}: ${hits} hits, ${alarms} false alarms of ${state.count}`);
    say(tally, lines, point);
  };

  function train() {
    const start = performance.now();
    chances ??= [0, 1].map((world) => drawChance(2 * seed + world, data));
    result = attack(data, chances, state);
    write(element, "took", `${integer(2 * state.count)} trainings in ${Math.max(1, Math.round(performance.now() - start))} ms`);
  }

  function say(tally, lines, {epsilon, ...limits}) {
    const words = [conclusion(tally, data.limits, limits), odds(tally, lines), chance(tally, lines)];
    write(element, "title", words[0], [[words[0].match(/\d+ %/)[0], "attack"], [`${limits.most[0]} %`, "budget"]]);
    if (stage > 1) write(element, "odds", words[1]);
    speak((stage > 1 ? words : words.slice(0, 1)).join(" "));
    if (stage > 2) {
      write(element, "chance", words[2]);
      for (const name of ["hits", "alarms"]) row(tally[name], tally.count).forEach((cell, i) => write(element, `${name}-${i}`, cell));
      write(element, "most", percentUp(mostHits(lines, tally.alarms / tally.count), 1));
    }
    write(element, "sub", setting(data, state));
    write(element, "promise", `ε = ${epsilon} at δ = ${data.delta}`);
    const shown = {noise: decimals(data.noise[state.noise]), bound: decimals(state.bound)};
    for (const [name, value] of Object.entries(shown).slice(0, stage > 2 ? 2 : 1)) {
      write(element, `${name}-words`, value);
      part(element, name).setAttribute("aria-valuetext", `${value}; epsilon ${epsilon}`);
    }
  }

  const places = Object.entries(CHARTS).filter(([name]) => element.querySelector(`[data-part="${name}"]`));
  const charts = Object.fromEntries(places.map(([name, label]) => [
    name, new Chart(part(element, name), {
      height: (width) => (width < 420 ? NARROW_HEIGHT[stage - 1] : HEIGHT), label, role: MOVABLE.includes(name) ? "group" : "img", draw: () => redraw(),
    }),
  ]));
  const redraw = oncePerFrame(draw);
  const moveCut = (cut) => {
    state.cut = clamp(cut, -REACH, REACH);
    redraw();
  };
  const threshold = charts.scores && grip(charts.scores, {
    label: "The attacker’s threshold", control: "threshold", range: [-REACH, REACH],
    move: ([x]) => moveCut(x), step: ([dx, dy], big) => moveCut(state.cut + (dx + dy) * (big ? 0.5 : 0.1)),
  });

  /** Train again; the other noise levels follow after a pause, one per task. */
  const change = (changes) => {
    Object.assign(state, changes);
    result = null;
    if (stage > 2 && (!("noise" in changes) || !extras.sweep)) {
      extras.sweep = null;
      clearTimeout(resting);
      resting = setTimeout(() => measure([]), REST_MS);
    }
    redraw();
  };
  const most = Math.max(...data.counts);
  const measure = (done) => {
    if (!chances) return; // nothing is shown yet
    if (done.length === data.noise.length) {
      extras.sweep = done;
      redraw();
      return;
    }
    const {scores} = attack(data, chances, state, data.noise[done.length], most);
    const [alarms, hits] = scores.map((values) => beyond(values, 0));
    const [share] = rightCalls({hits, alarms, count: most});
    resting = setTimeout(() => measure([...done, share]));
  };

  const record = charts.records && oddRecord(charts.records, data, {control: "record", place: () => state.record, move: (to) => change({record: to})});

  for (const [name, value] of [["noise", Number], ["bound", (text) => 2 ** Number(text)]].slice(0, stage > 2 ? 2 : 1)) {
    part(element, name).addEventListener("input", ({target}) => change({[name]: value(target.value)}));
  }
  for (const name of ["rate", "count"]) {
    for (const radio of element.querySelectorAll(`[data-${name}]`)) {
      radio.addEventListener("change", () => change({[name]: Number(radio.value)}));
    }
  }
  if (stage > 2) {
    part(element, "again").addEventListener("click", () => {
      seed += 1;
      chances = null;
      change({});
    });
    part(element, "back").addEventListener("click", () => change({record: data.records[data.odd]}));
  }
  element.addEventListener("guessed", ({detail}) => {
    extras.guesses = detail;
    change({});
  });
  change({});
  const slider = part(element, "noise");
  const there = [...data.noise.keys()];
  if (stage < 3) playOnce(element, [...there, ...there.slice(data.first.noise).reverse()].map((noise) => () => {
    slider.value = String(noise);
    change({noise});
  }), TICK_MS);
}
