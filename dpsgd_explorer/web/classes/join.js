/** Joining a class, as its student or by its teacher's link. */

import {postJson} from "../../../static/js/lib/api.js";
import {openPage} from "../../../static/js/lib/page.js";
import {showTimes} from "../../../static/js/lib/format.js";
import {wireForm} from "./forms.js";

const {page, data, part} = openPage("join-page");
const form = part("join");

showTimes(page);
wireForm(form, () => postJson("/api/v1/classes/join", {code: data.code, nickname: form.elements.nickname?.value ?? ""}));
