/** Lab of engines: a form that launches a comparison, and the page of one comparison. */

import {openPage} from "../../../../static/js/lib/page.js";
import {RunLab} from "../../../../static/js/runs/run_lab.js";
import {RunPage} from "../../../../static/js/runs/run_page.js";

if (document.querySelector("[data-run-page]")) new RunPage(null);
else new RunLab(openPage("lab"), {kind: "engines"});
