/** Attacks on membership: the lab, with a recorded attack and one's own, and the page of one that was run. */

import {attackContent, AttackPanel} from "../runs/panel/attack_panel.js";
import {openPage} from "../lib/page.js";
import {RunLab} from "../runs/run_lab.js";
import {RunPage} from "../runs/run_page.js";

if (document.querySelector("[data-run-page]")) {
  new RunPage((root, {run, plan}) => ({panel: new AttackPanel(root), content: attackContent(run, plan, true)}));
} else {
  const opened = openPage("lab");
  const panel = new AttackPanel(opened.part("panel"));
  new RunLab(opened, {kind: "attack", panel, content: (answer) => attackContent(answer, opened.data.plan, false)});
}
