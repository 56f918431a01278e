/** The first rows of a CSV text, for the preview of a file. */

import assert from "node:assert/strict";
import {test} from "node:test";
import {firstRows} from "../../../static/js/lib/csv.js";

test("rows end at line breaks outside quotes, and a doubled quote is one", () => {
  const text = 'a,"b, ""c""\nd",\r\n1,2,3\n\n4,5,6';
  assert.deepEqual(firstRows(text, 9), [["a", 'b, "c"\nd', ""], ["1", "2", "3"], ["4", "5", "6"]]);
});

test("only complete rows of the beginning of a file are read, and no more than asked for", () => {
  assert.deepEqual(firstRows("a,b\n1,2\n3", 9, {isWhole: false}), [["a", "b"], ["1", "2"]]);
  assert.deepEqual(firstRows("a\n1\n2\n3\n", 2), [["a"], ["1"]]);
  assert.deepEqual(firstRows("", 5), []);
});
