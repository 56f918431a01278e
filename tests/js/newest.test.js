import assert from "node:assert/strict";
import {test} from "node:test";
import {Newest} from "../../static/js/lib/newest.js";

const ROOT = {classList: {add() {}, remove() {}}, querySelectorAll: () => []};

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
