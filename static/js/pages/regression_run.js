/** Page of one noisy gradient descent, live or replayed. */

import {DescentPanel} from "../runs/panel/descent_panel.js";
import {RunPage} from "../runs/run_page.js";
import {descentContent} from "../runs/panel/descent_content.js";

new RunPage((root, {run, plan}) => ({panel: new DescentPanel(root), content: descentContent(run, plan)}));
