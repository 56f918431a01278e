"""Errors that the accountants accept, and round-off that they assume.

A bound on ε or δ contains bounds on its own errors.  The accepted errors below only
decide how much is computed, and so how near the two bounds come to each other: no value
of theirs makes a bound wrong.  The assumed round-off is the exception: it is measured,
not proven, and enters the bounds (docs/explanation/math.md, section 3, "Round-off").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MACHINE_EPSILON = float(np.finfo(float).eps)  # 2.2e-16; ε is the privacy loss
LARGEST_EXPONENT = 700.0  # its exponential is a float


@dataclass(frozen=True)
class Tolerances:
    """Accepted errors and assumed round-off, one instance for all accountants.

    Gaps between the bounds, relative to the upper one:

    Attributes:
        exact_gap: Of ε.  An answer with a smaller gap is called exact; with a larger
            gap, discretised PLDs are tried after the contour integral.
        contour_gap: Of ε, and of δ.  No further contour is tried below it.
        discretized_gap: Of ε, and of δ.  Discretised PLDs are not refined below it.
        crossing: Of ε.  Round-off may put the lower bound above the upper one by this.

    Truncation of the trapezoid sum, relative to δ; each sets aliasing and cut-off:

        sum_error: Of a sum that bounds ε or δ.
        few_steps_error: The same after few steps, whose integrand falls slowly.
        comparison_error: Of a sum that only shows δ to be below a known value.
        tangent_error: Of the tangent at which Newton's method ends.

    Ends of searches, relative to the value sought:

        last_step: Newton's step after which a root of a sum has no more digits to gain.
        newton_step: The same of the composition theorems.
        bisection: Of a parameter found by bisection, which is rounded down by it.

    Transforms of one step, relative to E[e^(cℓ)]:

        least_transform_error: No smaller error is asked of a transform.
        largest_transform_error: No larger error is asked of a transform.
        fft_error: No smaller error is asked of a Fourier transform: its round-off.
        useless_error: A Fourier transform with a larger error is not used.
        useless_ratio: The same, as a multiple of the error that was asked.
        node_step: Newton's last step of a node, in standard deviations of the noise.
            Its square, by which the node is off, is far below the spacing.

    Truncation of discretised PLDs, relative to δ:

        tail: Probability beyond the grid, or folded over by the Fourier transform.

    Assumed round-off, relative:

        closed_form: Of ε and δ with a closed form.
        exponential: Of e^(iuℓ) - 1.
        positive_sum: Of a sum of positive terms, per unit of 1 + |its logarithm|.
        root: Of a root ε: a few last places, by which its bounds are moved apart.
        fft_per_step: Of a power of a Fourier transform, per step, over the root of the
            sum of squares: twice the largest that was measured.
        binomial_tail: Of a binomial tail: 80 times the largest that was measured.
        binomial_delta: Of δ of randomized responses, a difference of two such tails.
        few_operations: Of a value of a curve, or of a mixture.
        last_places: Of a term of a sum, in units of the machine epsilon.
        rdp_integral: Of a Rényi divergence by quadrature.
        rdp_sum: Of a sum of Rényi divergences.
    """

    exact_gap: float = 1e-4
    contour_gap: float = 1e-6
    discretized_gap: float = 9e-5
    crossing: float = 1e-8

    sum_error: float = 1e-10
    few_steps_error: float = 1e-6
    comparison_error: float = 1e-3
    tangent_error: float = 1e-11

    last_step: float = 1e-14
    newton_step: float = 1e-13
    bisection: float = 1e-11

    least_transform_error: float = 1e-40
    largest_transform_error: float = 1e-6
    fft_error: float = 1e-16
    useless_error: float = 1e-3
    useless_ratio: float = 1e12
    node_step: float = 1e-7

    tail: float = 1e-7

    closed_form: float = 1e-10
    exponential: float = 2e-15
    positive_sum: float = 1e-15
    root: float = 2e-15
    fft_per_step: float = 2.5 * MACHINE_EPSILON
    binomial_tail: float = 1e-7
    binomial_delta: float = 1e-9
    few_operations: float = 4 * MACHINE_EPSILON
    last_places: int = 8
    rdp_integral: float = 1e-9
    rdp_sum: float = 1e-12


TOLERANCES = Tolerances()
