/** The lab of the engines: settings in the address, a recorded comparison, and one's own. */

import {EnginesPanel} from "../../../../static/js/runs/panel/engines_panel.js";
import {enginesContent, madeOn, recordedContent} from "../../../../static/js/runs/panel/engines_content.js";
import {openPage} from "../../../../static/js/lib/page.js";
import {RunLab} from "../../../../static/js/runs/run_lab.js";

const opened = openPage("lab");
const {data, part} = opened;
const panel = new EnginesPanel(part("panel"));
const recorded = recordedContent(data.recorded);

panel.show(recorded);
part("measured-on").textContent = madeOn(recorded.log, recorded.plan);
new RunLab(opened, {kind: "engines", panel, content, moved});

function content(answer) {
  const plan = planOf(answer);
  part("measured-on").textContent = madeOn({}, plan);
  return enginesContent(answer, plan);
}

function planOf({config, steps}) {
  const {label, choices} = data.fields.find(({name}) => name === "model");
  return {...data.recorded.plan, steps, last_step: steps, batch_size: config.batch_size, model: choices[config.model] ?? label};
}

function moved({log, answer}) {
  if (log.isFinal) part("measured-on").textContent = madeOn(log, planOf(answer));
}
