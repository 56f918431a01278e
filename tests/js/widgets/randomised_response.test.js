import assert from "node:assert/strict";
import {test} from "node:test";
import {Generator} from "../../../static/js/widgets/common/random.js";
import {OUTCOMES, ask, conclusion, estimate, limits, sheet, story, toss} from "../../../dpsgd_explorer/web/hub/widgets/randomised_response/survey.js";

const coins = (...values) => ({uniform: () => values.shift()});

test("heads lets the truth through, tails lets the second coin speak", () => {
  for (const truth of [true, false]) {
    assert.equal(toss(coins(0.2, 0.9), truth).says, truth);
    assert.equal(toss(coins(0.8, 0.2), truth).says, true);
    assert.equal(toss(coins(0.8, 0.9), truth).says, false);
  }
});

test("a story says what the coins did, and whether they lied", () => {
  assert.equal(story(toss(coins(0.2, 0.9), true), true), "First coin: heads. The sheet shows the truth, yes.");
  assert.match(story(toss(coins(0.8, 0.2), true), true), /Second coin: heads, so the sheet says yes, this time the truth/);
  assert.match(story(toss(coins(0.8, 0.9), true), true), /tails, so the sheet says no, which is not the truth/);
});

test("coins that a chapter shows lead to a sheet without anybody's answer", () => {
  assert.deepEqual(OUTCOMES.map((coins) => sheet(coins, null)?.says), [undefined, null, true, false]);
  assert.deepEqual(OUTCOMES.map((coins) => sheet(coins, false)?.says), [undefined, false, true, false]);
  assert.equal(story(sheet(OUTCOMES[1], null), null), "First coin: heads. The sheet shows the truth.");
  assert.match(story(sheet(OUTCOMES[2], null), null), /Second coin: heads, so the sheet says yes, whatever the truth is/);
  assert.match(conclusion(sheet(OUTCOMES[1], null), {factor: "3"}), /nobody else knows/);
});

test("three sheets of four say the truth, and the estimate takes the coins out again", () => {
  const generator = new Generator(3); // seeded: no false alarm
  for (const share of [0, 0.3, 1]) {
    const recorded = ask(generator, 200000, share);
    assert.ok(Math.abs(recorded - (0.25 + share / 2)) < 0.005, `${share}: ${recorded}`);
    assert.ok(Math.abs(estimate(recorded, 0.75) - share) < 0.01);
  }
});

test("what may be concluded is the server’s, and the same under either word", () => {
  const data = {factor: "3", belief: "75", epsilon: "1.10"};
  assert.match(conclusion({says: true}, data), /says yes: 3 times as likely if yes is the truth/);
  assert.match(conclusion({says: false}, data), /says no: 3 times as likely if no is the truth/);
  assert.match(limits(data), /75 % at most.*ε = ln 3, at most 1\.10/);
});
