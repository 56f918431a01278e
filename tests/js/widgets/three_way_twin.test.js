import assert from "node:assert/strict";
import {test} from "node:test";
import {endings} from "../../../dpsgd_explorer/web/hub/widgets/three_way_twin/widget.js";

test("the ends of all kinds are said with what is not private and their rates", () => {
  const kinds = [{name: "ordinary", words: "ordinary, not private"}, {name: "private", words: "private"}];
  const choice = {ends: {ordinary: "98.74", private: "98.13"}, rates: {ordinary: "0.0625", private: "8"}};
  assert.equal(endings(kinds, choice), "At the end: ordinary, not private 98.74 % (rate 0.0625); private 98.13 % (rate 8).");
});
