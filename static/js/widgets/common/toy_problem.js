/**
 * The line through 24 points, as `figures/toy_problem.py` has it: y = a x + b, θ = (a, b), a record is (x, y),
 * its loss half its squared residual r = a x + b - y, its gradient (r x, r).
 */

/** A record's gradient at θ. */
export function gradient([a, b], [x, y]) {
  const residual = a * x + b - y;
  return [residual * x, residual];
}

export const length = ([a, b]) => Math.hypot(a, b);

/** The records with the odd one at another place. */
export const moved = ({records, odd}, place) => records.map((record, i) => (i === odd ? place : record));

/** θ of the least squares line; all points at one x have none: the flat line through their mean then. */
export function fit(points) {
  const count = points.length;
  const sum = (value) => points.reduce((total, point) => total + value(point), 0);
  const [mx, my] = [sum(([x]) => x) / count, sum(([, y]) => y) / count];
  const spread = sum(([x]) => (x - mx) ** 2);
  const slope = spread === 0 ? 0 : sum(([x, y]) => (x - mx) * (y - my)) / spread;
  return [slope, my - slope * mx];
}
