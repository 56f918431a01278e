/** One comparison of the engines: followed while it goes on, replayed once it has ended. */

import {EnginesBench} from "../charts/engines_bench.js";
import {enginesScene} from "../lib/engines_scene.js";
import {RunPage} from "../lib/run_page.js";

new RunPage((root, {run, plan}) => ({bench: new EnginesBench(root), scene: enginesScene(run, plan)}));
