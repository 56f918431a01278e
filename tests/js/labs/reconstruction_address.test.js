import assert from "node:assert/strict";
import {test} from "node:test";
import {ofAddress, toAddress} from "../../../dpsgd_explorer/web/labs/reconstruct/address.js";

const VALUES = {batches: [1, 2, 4, 8], bounds: [0.1, 1, 10], noise: [0, 0.003, 0.1]};
const LISTS = {batch: "batches", bound: "bounds", noise: "noise"};
const read = (search) => ofAddress(search, VALUES, LISTS);

test("an address brings back the settings that it was made from", () => {
  for (const model of ["linear", "hidden"]) {
    for (const [i, batch] of VALUES.batches.entries()) {
      for (const [j, noise] of VALUES.noise.entries()) {
        const found = read(toAddress({model, batch, bound: 10, noise, seed: 7}));
        assert.deepEqual(found, {places: {batch: i, bound: 2, noise: j}, model, seed: 7});
      }
    }
  }
});

test("what is missing or wrong in an address stays as it stands", () => {
  const nothing = {places: {}, model: null, seed: 1};
  for (const search of ["", "?", "?batch=3&bound=-1&noise=x&model=cnn&seed=0", "?batch=&seed=1.5", "?seed=99999999999&noise=NaN"]) assert.deepEqual(read(search), nothing);
  assert.deepEqual(read("?noise=0&noise=0.1"), {...nothing, places: {noise: 0}});
});
