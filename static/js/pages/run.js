/** One training: followed while it goes on, replayed once it has ended. */

import {Bench} from "../runs/run_panel.js";
import {RunPage} from "../runs/run_page.js";
import {trainingScene} from "../runs/training_scene.js";

new RunPage((root, {run, plan, facts}) => ({bench: new Bench(root), scene: trainingScene(run, plan, facts)}));
