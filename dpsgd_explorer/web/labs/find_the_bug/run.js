/** The page of one audited loop: followed while it goes on, replayed once it has ended. */

import {RunPage} from "../../../../static/js/runs/run_page.js";
import {BoundPanel} from "./panel.js";

new RunPage((root, {plan}) => ({panel: new BoundPanel(root), content: {plan}}));
