/** One blind search: followed while it goes on, its winner once it has ended. */

import {RunPage} from "../runs/run_page.js";
import {searchContent} from "../runs/panel/search_content.js";
import {SearchPanel} from "../runs/panel/search_panel.js";

new RunPage((root, data) => ({panel: new SearchPanel(root, data.searched, data.price.winner.epsilon_text), content: searchContent(data)}));
