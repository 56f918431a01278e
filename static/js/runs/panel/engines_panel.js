/** The status bar, the charts and the tables of one comparison of the engines. */

import {integer, significant} from "../../lib/format.js";
import {RunLog} from "../log/run_log.js";
import {showTable} from "../../lib/svg.js";
import {agreement, conclusion, difference, figure, table, waysTaken} from "../../charts/engines.js";
import {BasePanel} from "./base_panel.js";

const EMPTY = new RunLog();
const TITLES = {time: "Time of a step", memory: "Memory of a step"};
const SAME = "Differences between the engines";
const WAYS = "Method of each layer, and why";

export class EnginesPanel extends BasePanel {
  /** @param {HTMLElement} root */
  constructor(root) {
    super(root, reached);
  }

  paint() {
    const {log, plan, terms, file} = this.content;
    const found = (log ?? EMPTY).evaluations;
    for (const chart of Object.values(this.charts)) {
      const {name} = chart;
      chart.update({
        figure: (color) => figure(name, {found, contenders: plan.contenders, size: chart.size}, color),
        conclusion: conclusion(name, found, TITLES[name]),
        table: () => table(name, found),
        note: terms,
        file,
        settled: true,
      });
    }
    this.paintNumbers(found);
    this.paintWays(found);
  }

  paintNumbers(found) {
    this.part("numbers-conclusion").textContent = agreement(found) || SAME;
    const engines = found.slice(1);
    showTable(this.part("numbers"), {
      caption: "Largest difference from any engine above",
      heads: ["Engine", "Largest difference"],
      words: [0],
      rows: engines.map((one) => [one.engine, one.refused ? "rejected" : one.difference === null ? "the first" : difference(one.difference)]),
    });
    const refused = engines.filter((one) => one.refused);
    const list = this.part("refusals");
    list.hidden = refused.length === 0;
    list.replaceChildren(...refused.map((one) => item(`${one.engine} rejects the model: ${one.refused}`)));
  }

  paintWays(found) {
    const layers = found.find((one) => one.layers?.length)?.layers ?? [];
    const taken = waysTaken(layers);
    this.part("ways-conclusion").textContent = taken ? `${WAYS}: ${taken}` : WAYS;
    showTable(this.part("ways"), {
      caption: "How each layer computes the norm of each sample’s gradient",
      heads: ["Layer", "Kind", "Output", "Method", "ghost", "instantiate", "Why"],
      words: [0, 1, 2, 3, 6],
      rows: layers.map((one) => [
        one.layer,
        one.kind,
        one.output_shape.join(" × "),
        one.way,
        one.ghost === null ? null : integer(one.ghost),
        one.instantiate === null ? null : integer(one.instantiate),
        one.reason,
      ]),
    });
  }

  part(name) {
    return this.root.querySelector(`[data-${name}]`);
  }
}

/** What the status bar says beside the state. */
function reached(log) {
  const found = log?.evaluations ?? [];
  const apart = found.map((one) => one.difference).filter((value) => value !== null);
  const ordinary = found[0]?.milliseconds;
  return {
    difference: apart.length ? difference(Math.max(...apart)) : "–",
    parameters: log?.phase ? integer(log.phase.parameters) : "–",
    ordinary: ordinary ? `${significant(ordinary)} ms` : "–",
  };
}

function item(text) {
  const line = document.createElement("li");
  line.textContent = text;
  return line;
}
