import assert from "node:assert/strict";
import {test} from "node:test";
import {Newest} from "../../../static/js/lib/api.js";

const ROOT = {classList: {add() {}, remove() {}}, querySelectorAll: () => []};

test("the whole answer has a while from the change on, then a preliminary one is shown", async () => {
  const newest = new Newest(ROOT);
  const never = new Promise(() => {});
  newest.asked = performance.now();
  assert.equal(await newest.isSoon(Promise.resolve()), true);
  assert.equal(await newest.isSoon(never), false);
  const waited = performance.now();
  assert.ok(waited - newest.asked >= 79, "the eye waits so long");
  newest.asked = waited - 1000;
  assert.equal(await Promise.race([newest.isSoon(never), new Promise((done) => setTimeout(done, 5000, "late"))]), false);
});

test("an answer is not waited for where the last one lasted longer than is left", async () => {
  const newest = new Newest(ROOT);
  newest.asked = performance.now();
  newest.lasted = 500;
  const first = await Promise.race([newest.isSoon(new Promise(() => {})), Promise.resolve("waits")]);
  assert.equal(first, false);
  assert.equal(newest.lasted, 500, "an answer that never came has no time");
  await newest.isSoon(Promise.resolve());
  assert.notEqual(newest.lasted, 500, "each answer is measured");
});

test("a question that was dropped may fail, the newest may not", async () => {
  const newest = new Newest(ROOT);
  const controller = new AbortController();
  const dropped = newest.put(async (signal) => {
    await new Promise((done) => signal.addEventListener("abort", done));
    throw new Error("of a body that was being read");
  }, controller.signal);
  controller.abort();
  await dropped;
  const failing = newest.put(() => Promise.reject(new Error("a fault of ours")), new AbortController().signal);
  await assert.rejects(failing, /a fault of ours/);
});

test("the first change is asked about at once, the next ones when they settle", (context) => {
  context.mock.timers.enable({apis: ["setTimeout"]});
  const newest = new Newest(ROOT);
  const put = [];
  const question = (name) => async () => void put.push(name);
  newest.asked = -Infinity;
  newest.ask(question("first"));
  context.mock.timers.tick(0);
  assert.deepEqual(put, ["first"]);
  newest.asked = Infinity; // the last change is not long ago
  newest.ask(question("second"));
  newest.asked = Infinity;
  newest.ask(question("third"));
  context.mock.timers.tick(19);
  assert.deepEqual(put, ["first"]);
  context.mock.timers.tick(1);
  assert.deepEqual(put, ["first", "third"]);
  newest.asked = -Infinity;
  newest.ask(question("typed"), {typing: true});
  context.mock.timers.tick(299);
  assert.deepEqual(put, ["first", "third"]);
  context.mock.timers.tick(1);
  assert.deepEqual(put, ["first", "third", "typed"]);
});
