/** Errors of each class and group as bars, beside the whole and the twin. */

import {element} from "../../lib/page.js";
import {integer, percent} from "../../lib/format.js";
import {errorRows, errorsConclusion, hardest} from "../../charts/model/class_errors.js";
import {areWorded} from "../../charts/model/confusion.js";
import {Part} from "./part.js";
import {isFair} from "./twin.js";
import {bar} from "./bar.js";

export class ErrorsPart extends Part {
  constructor(root) {
    super(root, "errors");
  }

  update({model}, {plan, twin, settled}) {
    const other = twin?.model?.confusion.length === model.confusion.length ? twin.model : null;
    const rows = errorRows(model, other, plan.labels);
    const most = Math.max(...rows.map(({share, twin: mark}) => Math.max(share, mark ?? 0))) || 1;
    const hard = hardest(rows);
    const heads = [model.groups ? "Class or group" : "Class", "Bar", "records", plan.private ? "private" : "misread", ...(other ? ["twin"] : [])];
    const head = element("tr", {}, ...heads.map((text, i) => element("th", {scope: "col", class: i > 1 ? "n" : ""}, i === 1 ? element("span", {class: "visually-hidden"}, text) : text)));
    const lines = rows.map((row) => element("tr", {class: row === hard ? "most" : ""},
      element("th", {scope: "row"}, nameOf(row)),
      element("td", {}, bar({value: row.share / most, mark: row.twin === null ? null : row.twin / most})),
      element("td", {class: "n muted"}, integer(row.records)),
      element("td", {class: "n"}, percent(row.share)),
      ...(other ? [element("td", {class: "n"}, percent(row.twin))] : [])));
    const table = element("table", {class: plan.labels.length > 4 && !areWorded(plan.labels) ? "bars" : "bars wide-names"}, element("thead", {}, head), element("tbody", {}, ...lines));
    this.drawing.replaceChildren(table);
    this.show({conclusion: errorsConclusion(rows, !other || isFair(twin, model.step)), sub: `Test records read wrongly, % of each class${model.groups ? " and group" : ""}${other ? `: the bar is this model, the stroke its twin. ${twin.note}` : ""}`, settled});
  }
}

function nameOf({part, label}) {
  return part === "all" || part === "class" ? label : `${part}: ${label}`;
}
