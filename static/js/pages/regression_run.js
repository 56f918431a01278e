/** One noisy gradient descent: followed while it goes on, replayed once it has ended. */

import {DescentBench} from "../charts/descent_bench.js";
import {RunPage} from "../lib/run_page.js";
import {descentScene} from "../lib/descent_scene.js";

new RunPage((root, {run, plan}) => ({bench: new DescentBench(root), scene: descentScene(run, plan)}));
