/** Lab of correlated noise: sliders choose a strategy; every number was sent by the server, the draw is the browser's. */

import {decimals, integer} from "../../../../static/js/lib/format.js";
import {openPage, tableRow} from "../../../../static/js/lib/page.js";
import {area, Chart, clipped, line, rule, text} from "../../../../static/js/lib/svg.js";
import {Generator} from "../../../../static/js/widgets/common/random.js";
import {conclusion, treeWalk, walk} from "./walk.js";

const HEIGHT = 320; // px
const SPARE = 2.2; // standard deviations in view

const {data, part, page} = openPage("lab");
const {runs, epsilons} = data.recorded;
const {elements} = part("settings");
const chart = new Chart(part("sums"), {height: HEIGHT, label: "Noise in the sum of all gradients so far, independent and correlated", draw: show});
const kinds = [...elements.kind].map(({value}) => value);
let seed = 1;

part("settings").addEventListener("input", show);
part("settings").addEventListener("submit", (event) => event.preventDefault());
part("again").addEventListener("click", () => {
  seed += 1;
  show();
});
addEventListener("pageshow", show); // also after the browser restores the form

function show() {
  const run = runs[Number(elements.run.value)];
  const kind = elements.kind.value;
  for (const name of kinds) {
    part(`field=${name}`).hidden = name !== kind;
    elements[name].max = String(run[name].length - 1);
  }
  const index = Number(elements[kind].value);
  const strategy = run[kind][index];
  const at = Number(elements.epsilon.value);
  for (const [name, words] of [["epsilon", String(epsilons[at])], ...kinds.map((one) => [one, run[one][Number(elements[one].value)].name])]) {
    part(`said=${name}`).textContent = words;
    elements[name].setAttribute("aria-valuetext", words);
  }
  const heading = conclusion(strategy.ratios[at], epsilons[at], kind === "cyclic" && index === 0);
  part("conclusion").textContent = part("announce").textContent = heading;
  part("rows").replaceChildren(...run[kind].map((one, i) => {
    const row = tableRow([one.name], [one.sigmas[at], one.ratios[at]]);
    if (i === index) row.setAttribute("aria-current", "true");
    return row;
  }));
  if (chart.width) chart.show(marks(run, strategy, at));
}

/** Ranges and one draw of both strategies, from the same normals. */
function marks(run, strategy, at) {
  const {width, height} = chart;
  const independent = run.cyclic[0];
  const draws = new Generator(seed).normals(new Float64Array(2 * run.steps));
  const top = SPARE * Math.max(...[independent, strategy].map(({noise, errors}) => noise[at] * Math.max(...errors)));
  const {x, y} = chart.frame([0, run.steps], [-top, top], [52, 12, width - 12, height - 36]);
  const ticks = [-1, 0, 1].map((sign) => sign * Number((top / 1.5).toPrecision(1)));
  const drawn = [[independent, "twin"], [strategy, "private"]].map(([one, style]) => {
    const spread = one.errors.map((error) => one.noise[at] * error);
    const path = one.estimator ? treeWalk(one, draws, one.noise[at]) : walk(one, draws.subarray(0, run.steps), one.noise[at]);
    const side = (sign) => run.shown.map((step, i) => [x(step), y(sign * spread[i])]);
    return {
      style,
      range: area([[x(0), y(0)], ...side(1), ...side(-1).reverse()], `f-${style} light`),
      path: line([...path].map((value, i) => [x(i + 1), y(value)]), `s-${style} thin`),
    };
  });
  return [
    ...ticks.flatMap((value) => [rule([52, y(value)], [width - 12, y(value)]), text([44, y(value) + 4], decimals(value, 0), "", "end")]),
    ...clipped([52, 12, width - 12, height - 36], [...drawn.map(({range}) => range), ...drawn.map(({path}) => path)]),
    text([52, height - 12], "step 1"), text([width - 12, height - 12], `step ${integer(run.steps)}`, "", "end"),
  ];
}
