/** One noisy gradient descent: followed while it goes on, replayed once it has ended. */

import {DescentBench} from "../runs/descent_panel.js";
import {RunPage} from "../runs/run_page.js";
import {descentScene} from "../runs/descent_scene.js";

new RunPage((root, {run, plan}) => ({bench: new DescentBench(root), scene: descentScene(run, plan)}));
