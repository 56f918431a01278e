/** One run that has no chart: its labels and its times. */

import {RunPage} from "../runs/run_page.js";

new RunPage(null);
