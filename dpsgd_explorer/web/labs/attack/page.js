/** Lab of membership attacks, with a recorded attack and a form for new ones, and the page of one attack. */

import {attackContent, AttackPanel} from "./panel.js";
import {openPage} from "../../../../static/js/lib/page.js";
import {RunLab} from "../../../../static/js/runs/run_lab.js";
import {RunPage} from "../../../../static/js/runs/run_page.js";

if (document.querySelector("[data-run-page]")) {
  new RunPage((root, {run, plan}) => ({panel: new AttackPanel(root), content: attackContent(run, plan, true)}));
} else {
  const opened = openPage("lab");
  const panel = new AttackPanel(opened.part("panel"));
  new RunLab(opened, {kind: "attack", panel, content: (answer) => attackContent(answer, opened.data.plan, false)});
}
