import assert from "node:assert/strict";
import {test} from "node:test";
import {rateOf} from "../../../static/js/forms/sample_rate.js";

test("so many records among so many are a rate", () => {
  assert.deepEqual(rateOf("256", "60000"), {rate: 0.00426667, message: ""});
  assert.equal(rateOf("60000", "60000").rate, 1);
});

test("what makes no rate is said of the box that is at fault", () => {
  const said = {
    "|60000": "Batch must be given.",
    "256|": "Records must be given.",
    "-1|60000": "Batch must be greater than 0, got -1.",
    "0|60000": "Batch must be greater than 0, got 0.",
    "abc|60000": "Batch must be a number, got 'abc'.",
    "1,5|60000": "Batch must be a number, got '1,5'. Use a dot: 1.5.",
    "256|1e99": "Records must be at most 1000000000, got 1e+99.",
    "1e99|60000": "Batch must be at most the 60000 records, got 1e+99.",
    "256|-1": "Records must be greater than 0, got -1.",
  };
  for (const [typed, message] of Object.entries(said)) {
    assert.deepEqual(rateOf(...typed.split("|")), {rate: null, message}, typed);
  }
});
