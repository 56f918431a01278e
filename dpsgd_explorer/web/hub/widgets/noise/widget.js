/** Slider over noise levels: the two worlds become indistinguishable, with the measured cost in accuracy. */

import {decimals} from "../../../../../static/js/lib/format.js";
import {Chart} from "../../../../../static/js/lib/svg.js";
import {HEIGHT, humps} from "../../../../../static/js/widgets/common/humps.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const COUNT_MS = 240; // for a number to count to its new value

/** Pure: what screen readers hear about a level. */
export function spoken({words, limit, accuracy, epsilon}) {
  return `${words} An attacker is right about record 24 at most ${limit} times in 100 in this run; the model reads ${accuracy} of 100 new digits right. Epsilon ${epsilon}.`;
}

/** Pure: number between two, as text with the decimals of the last. */
export function counted(from, to, share) {
  const digits = to.split(".")[1]?.length ?? 0;
  return share >= 1 ? to : decimals(Number(from) + (Number(to) - Number(from)) * share, digits);
}

export function mount(element, data) {
  const slider = part(element, "noise");
  const speak = speaker(element);
  const still = globalThis.matchMedia?.("(prefers-reduced-motion: reduce)");
  const level = () => data.levels[Number(slider.value)];
  const stage = part(element, "worlds");
  stage.replaceChildren(); // the drawing for pages without script
  const chart = new Chart(stage, {
    height: HEIGHT, label: "Two curves: what an attacker sees with record 24, and without it", draw: () => chart.width && chart.show(humps(chart, data, level())),
  });
  let frame = 0;

  function count() {
    cancelAnimationFrame(frame);
    const from = Object.fromEntries(["limit", "accuracy"].map((name) => [name, part(element, name).textContent]));
    const start = performance.now();
    const show = (now) => {
      const share = still?.matches || document.hidden ? 1 : Math.min(1, Math.max(0, (now - start) / COUNT_MS));
      for (const name of ["limit", "accuracy"]) {
        const value = counted(from[name], level()[name], share);
        write(element, name, value);
        part(element, `${name}-bar`).value = Number(value);
      }
      if (share < 1) frame = requestAnimationFrame(show);
    };
    show(start);
  }
  const reach = (name) => {
    const goals = [...element.querySelectorAll("[data-goal]")];
    goals.find((goal) => goal.dataset.goal === name).className = "done";
    goals.find((goal) => !goal.matches(".done"))?.classList.add("next");
  };
  const draw = () => {
    const now = level();
    if (chart.width) chart.show(humps(chart, data, now));
    count();
    for (const name of ["alone", "epsilon"]) write(element, name, now[name]);
    write(element, "noise-words", now.noise);
    write(element, "title", now.words);
    slider.setAttribute("aria-valuetext", `σ ${now.noise}: an attacker is right at most ${now.limit} times in 100, in this run`);
    part(element, "run").search = `?${data.query}&noise_multiplier=${now.noise}`;
  };
  slider.addEventListener("input", oncePerFrame(() => {
    draw();
    speak(spoken(level()));
    if (level().is_merged) reach("merge");
    if (level().is_broken) reach("break");
  }));
  draw();
}
