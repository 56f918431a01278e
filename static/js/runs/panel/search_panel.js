/** The status bar and the winner of one blind search. */

import {figure} from "../../charts/accuracy.js";
import {accuracyRange} from "../../charts/accuracy_axis.js";
import {percent} from "../../lib/format.js";
import {BasePanel} from "./base_panel.js";
import {conclusion, winnerWords} from "./search_words.js";

export class SearchPanel extends BasePanel {
  /**
   * @param {HTMLElement} root
   * @param {Record<string, {label: string, symbol: string}>} searched
   * @param {string} epsilon what the winner costs, as printed
   */
  constructor(root, searched, epsilon) {
    super(root, (log) => ({winner: winnerWords(log?.end?.winner, searched), epsilon: log?.end ? epsilon : "0"}));
    this.searched = searched;
  }

  paint() {
    const {log, trial, terms, file} = this.content;
    const chart = this.charts.winner;
    const evaluations = (log?.evaluations ?? []).map((point) => ({...point, step: point.trained}));
    const view = {evaluations, plan: trial, axis: "step", range: accuracyRange(trial, evaluations), first_epsilon: null, seconds: 1, size: chart.size};
    chart.update({
      figure: (color) => figure(view, color),
      print: (color) => figure({...view, print: true}, color),
      conclusion: conclusion(log, this.searched),
      table: () => table(evaluations),
      note: terms,
      file,
      settled: true,
    });
  }
}

function table(points) {
  return {
    caption: "Test accuracy of the winner, not private",
    names: ["trained", "test_accuracy", "test_loss"],
    heads: ["Step", "Accuracy", "Test loss"],
    rows: points.map(({trained, test_accuracy: accuracy, test_loss: loss}) => [trained, percent(accuracy, 2), loss.toFixed(4)]),
    values: points.map(({trained, test_accuracy: accuracy, test_loss: loss}) => [trained, accuracy, loss]),
  };
}
