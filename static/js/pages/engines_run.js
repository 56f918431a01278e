/** One comparison of the engines: followed while it goes on, replayed once it has ended. */

import {EnginesBench} from "../runs/engines_panel.js";
import {enginesScene} from "../runs/engines_scene.js";
import {RunPage} from "../runs/run_page.js";

new RunPage((root, {run, plan}) => ({bench: new EnginesBench(root), scene: enginesScene(run, plan)}));
