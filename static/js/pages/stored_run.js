/** Page of a run that the server draws: its labels and times. */

import {RunPage} from "../runs/run_page.js";

new RunPage(null);
