/** Page of one training run, live or replayed. */

import {Continuing} from "../runs/actions/continuing.js";
import {RunPanel} from "../runs/panel/run_panel.js";
import {RunPage} from "../runs/run_page.js";
import {trainingContent} from "../runs/panel/budget.js";

new RunPage((root, {run, plan, catalogue}) => {
  const continuing = new Continuing(document.querySelector("[data-continue]"), run);
  return {panel: new RunPanel(root), content: trainingContent(run, plan, catalogue), atEnd: (log) => continuing.offer(log)};
});
