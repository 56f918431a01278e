/** The short course: one scene at a time, with goals, dots and a way on. */

import {decimals} from "../../../static/js/lib/format.js";
import {clamp} from "../../../static/js/lib/svg.js";
import {mountAttack} from "./attack.js";
import {mountNoise} from "./noise.js";
import {mountOdd} from "./odd.js";
import {part, write} from "./scene.js";
import {mountStep} from "./step.js";

/** Pure: rows of the last scene: the visitor's goals. */
export function brought(level, shifts, score) {
  const guessed = score.filter(({made}) => made > 0).map(({noise, right, made}) => `${right} of ${made} at σ = ${noise}`);
  return [
    ["Your noise", `σ = ${level.noise}`],
    ["Record 24 moved the model by", `${decimals(Math.abs(shifts.free))}, clipped by ${decimals(Math.abs(shifts.clipped))}`],
    ["Your right guesses", guessed.join(", ") || "none tried"],
  ];
}

function start(course) {
  const data = JSON.parse(course.querySelector("[data-course-data]").textContent);
  const scenes = [...course.querySelectorAll(".scene")];
  const dots = part(course, "dots");
  const seen = new Set();
  let at = 0;

  const speak = (words) => write(course, "spoken", words);
  const goalsOf = (i) => [...scenes[i].querySelectorAll("[data-goal]")];
  const helpers = (i) => ({
    speak,
    reach(goal) {
      const entry = goalsOf(i).find(({dataset}) => dataset.goal === goal);
      if (entry.classList.contains("done")) return;
      entry.classList.add("done");
      for (const other of goalsOf(i)) other.classList.remove("next");
      goalsOf(i).find(({classList}) => !classList.contains("done"))?.classList.add("next");
      speak(`Done: ${entry.textContent}`);
      showWay();
    },
  });
  const [noise, odd, step, attack] = [mountNoise, mountOdd, mountStep, mountAttack].map((mount, i) => mount(scenes[i], data, helpers(i)));
  const parts = [noise, odd, step, attack, {enter: showBrought}];

  function showBrought() {
    const {level} = noise;
    part(course, "run").search = `?${data.query}&noise_multiplier=${level().noise}`;
    part(course, "brought").replaceChildren(...brought(level(), odd.shifts(), attack.score()).map(([name, value]) => {
      const row = document.createElement("div");
      row.append(...[["dt", name], ["dd", value]].map(([tag, words]) => Object.assign(document.createElement(tag), {textContent: words})));
      return row;
    }));
  }
  function showWay() {
    part(course, "back").hidden = at === 0;
    part(course, "next").hidden = at === scenes.length - 1;
    part(course, "next").classList.toggle("primary", goalsOf(at).every(({classList}) => classList.contains("done")));
    [...dots.querySelectorAll("button")].forEach((button, i) => {
      button.classList.toggle("seen", seen.has(i));
      if (i === at) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    });
  }
  function go(to, {isByVisitor = true} = {}) {
    parts[at].leave?.();
    at = clamp(to, 0, scenes.length - 1);
    scenes.forEach((scene, i) => {
      scene.hidden = i !== at;
    });
    seen.add(at);
    showWay();
    parts[at].enter?.();
    if (!isByVisitor) return;
    history.replaceState(null, "", `#${at + 1}`);
    scenes[at].querySelector("h2").focus({preventScroll: true});
    course.scrollIntoView({block: "nearest"});
  }
  dots.replaceChildren(...scenes.map((scene, i) => {
    const button = Object.assign(document.createElement("button"), {type: "button"});
    button.setAttribute("aria-label", `Scene ${i + 1}: ${scene.querySelector("h2").textContent}`);
    button.addEventListener("click", () => go(i));
    const entry = document.createElement("li");
    entry.append(button);
    return entry;
  }));
  part(course, "back").addEventListener("click", () => go(at - 1));
  part(course, "next").addEventListener("click", () => go(at + 1));
  const wanted = () => Number(location.hash.slice(1)) - 1 || 0;
  addEventListener("hashchange", () => go(wanted()));
  course.dataset.state = "moves";
  go(wanted(), {isByVisitor: false});
}

if (globalThis.document) start(document.querySelector("[data-course]"));
