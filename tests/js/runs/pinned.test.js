import assert from "node:assert/strict";
import {beforeEach, test} from "node:test";
import {MOST, isPinned, onPinned, pin, pinned, unpin} from "../../../static/js/runs/ghosts/ghosts.js";

const KEY = "pinned-runs";

/** The page's own storage and window, as far as pins need them. */
function pageWith(stored = {}) {
  const values = new Map(Object.entries(stored));
  const window = new EventTarget();
  globalThis.localStorage = {
    getItem: (key) => values.get(key) ?? null,
    setItem: (key, value) => values.set(key, value),
    removeItem: (key) => values.delete(key),
  };
  globalThis.addEventListener = window.addEventListener.bind(window);
  globalThis.dispatchEvent = window.dispatchEvent.bind(window);
  return values;
}

beforeEach(() => pageWith());

test("pins are listed in their order, once each, and can be taken away", () => {
  assert.deepEqual(["a", "b", "a"].map(pin), [true, true, true]);
  assert.deepEqual(pinned(), ["a", "b"]);
  unpin("a");
  assert.deepEqual(pinned(), ["b"]);
  assert.equal(isPinned("a"), false);
  unpin("nosuch");
  assert.equal(isPinned("b"), true);
});

test("more than the most are refused and change nothing", () => {
  const ids = Array.from({length: MOST}, (_, i) => `run-${i}`);
  for (const id of ids) assert.ok(pin(id));
  assert.equal(pin("one-more"), false);
  assert.deepEqual(pinned(), ids);
  assert.ok(pin(ids[0]));
});

for (const text of ["", "{", "null", "7", '"a"', "[1]", '[""]', '["../x"]', '["a","a"]', '["a","b","c","d","e"]', '{"length":1}']) {
  test(`storage that holds ${text || "nothing"} is emptied, not thrown`, () => {
    const values = pageWith({[KEY]: text});
    assert.deepEqual(pinned(), []);
    assert.equal(values.has(KEY), false);
    assert.ok(pin("a"));
  });
}

test("a page hears of changes, its own and those of other pages", () => {
  const heard = [];
  onPinned((ids) => heard.push(ids));
  pin("a");
  pin("a"); // no change
  localStorage.setItem(KEY, '["a","b"]');
  dispatchEvent(Object.assign(new Event("storage"), {key: KEY}));
  dispatchEvent(Object.assign(new Event("storage"), {key: "theme"}));
  unpin("a");
  assert.deepEqual(heard, [["a"], ["a", "b"], ["b"]]);
});

test("without storage nothing is pinned and nothing is thrown", () => {
  const off = () => {
    throw new Error("switched off");
  };
  globalThis.localStorage = {getItem: off, setItem: off, removeItem: off};
  assert.equal(pin("a"), false);
  assert.deepEqual(pinned(), []);
  unpin("a");
});
