/** Page of one audited loop, live or replayed. */

import {RunPage} from "../../../../static/js/runs/run_page.js";
import {BoundPanel} from "./panel.js";

new RunPage((root, {plan}) => ({panel: new BoundPanel(root), content: {plan}}));
