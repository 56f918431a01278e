/** Page of one noisy gradient descent, live or replayed. */

import {DescentPanel} from "./panel.js";
import {RunPage} from "../../../../static/js/runs/run_page.js";
import {descentContent} from "./content.js";

new RunPage((root, {run, plan}) => ({panel: new DescentPanel(root), content: descentContent(run, plan)}));
