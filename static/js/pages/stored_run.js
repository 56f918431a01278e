/** One run whose page the server draws: its labels and its times. */

import {RunPage} from "../runs/run_page.js";

new RunPage(null);
