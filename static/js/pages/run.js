/** One training: followed while it goes on, replayed once it has ended. */

import {Bench} from "../charts/bench.js";
import {RunPage} from "../lib/run_page.js";
import {trainingScene} from "../lib/training_scene.js";

new RunPage((root, {run, plan, facts}) => ({bench: new Bench(root), scene: trainingScene(run, plan, facts)}));
