/** Four sampling schemes: size of each step's batch, and whether it contains record 0. Pure functions. */

/** @typedef {{size: number, isYours: boolean}} Step */

/** The first `count` elements of a random permutation of 0 … `from` − 1 (Fisher and Yates). */
export function dealt(generator, from, count) {
  const deck = Array.from({length: from}, (_, i) => i);
  for (let i = 0; i < count; i++) {
    const other = i + Math.floor(generator.uniform() * (from - i));
    [deck[i], deck[other]] = [deck[other], deck[i]];
  }
  return deck.slice(0, count);
}

const range = (count, draw) => Array.from({length: count}, draw);

/** Steps of one epoch, by scheme. @type {Record<string, (generator: any, records: number, size: number) => Step[]>} */
export const EPOCH = {
  poisson: (generator, records, size) => range(records / size, () => {
    const drawn = range(records, () => generator.uniform() < size / records);
    return {size: drawn.filter(Boolean).length, isYours: drawn[0]};
  }),
  allocation: (generator, records, size) => {
    const slots = range(records, () => Math.floor((generator.uniform() * records) / size));
    return range(records / size, (_, step) => ({size: slots.filter((slot) => slot === step).length, isYours: slots[0] === step}));
  },
  fixed: (generator, records, size) => range(records / size, () => (
    {size, isYours: dealt(generator, records, size).includes(0)}
  )),
  shuffled: (generator, records, size) => {
    const position = dealt(generator, records, records).indexOf(0);
    return range(records / size, (_, step) => ({size, isYours: Math.floor(position / size) === step}));
  },
};

/** Numbers of the steps that use the visitor's record, starting with 1. */
export const usedIn = (steps) => steps.flatMap(({isYours}, i) => (isYours ? [i + 1] : []));

/** Steps that used the visitor's record, and the range of batch sizes. */
export function story(steps) {
  const used = usedIn(steps);
  const sizes = steps.map(({size}) => size);
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  const when = used.length ? `in step${used.length > 1 ? "s" : ""} ${used.join(", ")}` : "in no step";
  return `Your record: ${when}. Sizes: ${least === most ? `all ${least}` : `${least} to ${most}`}.`;
}
