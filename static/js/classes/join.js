/** Joining a class, as its student or by its teacher's link. */

import {postJson} from "../lib/api.js";
import {openPage} from "../lib/page.js";
import {showTimes} from "../lib/times.js";
import {wireForm} from "./forms.js";

const {page, data, part} = openPage("join-page");
const form = part("join");

showTimes(page);
wireForm(form, () => postJson("/api/v1/classes/join", {code: data.code, nickname: form.elements.nickname?.value ?? ""}));
