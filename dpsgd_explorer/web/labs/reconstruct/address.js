/** Settings of the reconstruction lab in its address, so that links can share them. */

const MODELS = ["linear", "hidden"];
const LARGEST_SEED = 2 ** 31 - 1;

/**
 * Pure: settings from an address; missing or invalid values are left out.
 * @param {string} search @param {Record<string, number[]>} values by list @param {Record<string, string>} lists by
 *   setting
 * @returns {{places: Record<string, number>, model: string | null, seed: number}} `places`: indices in the lists
 */
export function ofAddress(search, values, lists) {
  const parameters = new URLSearchParams(search);
  const places = Object.entries(lists).flatMap(([name, list]) => {
    const index = parameters.get(name) ? values[list].indexOf(Number(parameters.get(name))) : -1;
    return index < 0 ? [] : [[name, index]];
  });
  const seed = Number(parameters.get("seed"));
  return {
    places: Object.fromEntries(places),
    model: MODELS.find((model) => model === parameters.get("model")) ?? null,
    seed: Number.isInteger(seed) && seed > 0 && seed <= LARGEST_SEED ? seed : 1,
  };
}

/** Pure: address of settings. @param {{batch: number, bound: number, noise: number, model: string, seed: number}} now */
export function toAddress({batch, bound, noise, model, seed}) {
  return `?${new URLSearchParams({model, batch: String(batch), bound: String(bound), noise: String(noise), seed: String(seed)})}`;
}
