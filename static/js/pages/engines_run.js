/** One comparison of the engines: followed while it goes on, replayed once it has ended. */

import {EnginesPanel} from "../runs/panel/engines_panel.js";
import {enginesContent} from "../runs/panel/engines_content.js";
import {RunPage} from "../runs/run_page.js";

new RunPage((root, {run, plan}) => ({panel: new EnginesPanel(root), content: enginesContent(run, plan)}));
