/**
 * Line through 24 points, as in `figures/toy_problem.py`: y = a x + b with θ = (a, b). The loss of a record (x, y) is
 * half its squared residual r = a x + b − y, and its gradient is (r x, r).
 */

/** Gradient of a record at θ. */
export function gradient([a, b], [x, y]) {
  const residual = a * x + b - y;
  return [residual * x, residual];
}

export const length = ([a, b]) => Math.hypot(a, b);

/** Records with the odd one moved. */
export const moved = ({records, odd}, place) => records.map((record, i) => (i === odd ? place : record));

/** θ of the least-squares line; if all points have one x, the horizontal line through their mean. */
export function fit(points) {
  const count = points.length;
  const sum = (value) => points.reduce((total, point) => total + value(point), 0);
  const [mx, my] = [sum(([x]) => x) / count, sum(([, y]) => y) / count];
  const spread = sum(([x]) => (x - mx) ** 2);
  const slope = spread === 0 ? 0 : sum(([x, y]) => (x - mx) * (y - my)) / spread;
  return [slope, my - slope * mx];
}
