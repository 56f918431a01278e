/**
 * Seeded pseudorandom generator for illustrations: equal seeds give equal numbers in every browser.
 * Not for privacy: the server draws the noise of real runs.
 */

const STRIDE = 0x9e3779b9;
const WHOLE = 4294967296;

/** Pure: finalizer of MurmurHash3 (Appleby), a bijection of 32-bit integers. */
export function mix(bits) {
  let z = bits | 0;
  z = Math.imul(z ^ (z >>> 16), 0x85ebca6b);
  z = Math.imul(z ^ (z >>> 13), 0xc2b2ae35);
  return (z ^ (z >>> 16)) >>> 0;
}

/** SplitMix with 32 bits: mixes a counter with a large increment. */
export class Generator {
  /** @param {number} seed */
  constructor(seed) {
    this.state = mix(seed);
  }

  /** 32 random bits: 0 to 2^32 − 1. */
  bits() {
    this.state = (this.state + STRIDE) | 0;
    return mix(this.state);
  }

  /** Uniform in (0, 1), without the ends. */
  uniform() {
    return (this.bits() + 0.5) / WHOLE;
  }

  /** Fill an array of even length with standard normal values (Box and Muller 1958). */
  normals(into) {
    for (let i = 0; i < into.length; i += 2) {
      const radius = Math.sqrt(-2 * Math.log(this.uniform()));
      const angle = 2 * Math.PI * this.uniform();
      into[i] = radius * Math.cos(angle);
      into[i + 1] = radius * Math.sin(angle);
    }
    return into;
  }
}
