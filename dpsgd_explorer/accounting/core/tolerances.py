"""Errors that the accountants accept, and round-off that they assume.

A bound on ε or δ contains bounds on its errors.  The accepted errors below decide how
much is computed, and so how near the two bounds come to each other: none of them can
make a bound wrong.  The assumed round-off is the exception: it is measured, not proven,
and enters the bounds (docs/explanation/math.md, section 3, "Round-off").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: 2.2e-16; elsewhere ε is the privacy loss.
MACHINE_EPSILON = float(np.finfo(float).eps)
#: Largest number whose exponential is taken: e^700 is a float.
MAX_EXPONENT = 700.0


@dataclass(frozen=True)
class Tolerances:
    """Accepted errors and assumed round-off, one instance for all accountants.

    Gaps between the bounds, relative to the upper one:

    Attributes:
        exact_gap: Gap of ε below which an answer is called exact; with a larger gap,
            discretised PLDs are tried after the contour integral.
        contour_gap: Gap of ε or δ below which no further contour is tried.
        discretized_gap: Gap of ε or δ below which discretised PLDs are not refined.
        crossing: Largest excess of the lower bound on ε over the upper one that
            round-off may cause.

    Truncation of the trapezoid sum, relative to δ; each sets aliasing and cut-off:

        sum_error: Error of a sum that bounds ε or δ.
        few_steps_error: Least error of a sum after few steps, whose integrand falls
            slowly.
        comparison_error: Error of a sum that only shows δ to be below a known value.
        tangent_error: Error of the tangent at which Newton's method ends.

    Ends of searches, relative to the value sought:

        last_step: Newton step after which a root of a sum gains no more digits.
        newton_step: Newton step at which the composition theorems end a search.
        bisection: Error of a parameter found by bisection, which is rounded down by it.

    Transforms of one step, relative to E[e^(cℓ)]:

        min_transform_error: Smallest error that a transform has to meet.
        max_transform_error: Largest error that a transform has to meet.
        min_fft_error: Smallest error that a Fourier transform has to meet, because of
            round-off.
        max_fft_error: Error above which a Fourier transform is not used.
        max_fft_error_ratio: Multiple of the transform's tolerance above which a Fourier
            transform is not used.
        node_step: Last Newton step of a node, in standard deviations of the noise.  The
            node is off by about its square, which is far below the spacing.

    Truncation of discretised PLDs, relative to δ:

        tail: Probability beyond the grid, or folded over by the Fourier transform.

    Assumed round-off, relative:

        closed_form: Round-off of ε and δ with a closed form.
        exponential: Round-off of e^(iuℓ) - 1.
        positive_sum: Round-off of a sum of positive terms, per unit of
            1 + |log of the sum|.
        root: Round-off of a root ε, by which its bounds are widened.
        fft_per_step: Round-off of a power of a Fourier transform, per step, over the
            root of the sum of squares: twice the largest measured value.
        binomial_tail: Round-off of a binomial tail: 80 times the largest measured one.
        binomial_delta: Round-off of δ of randomized responses, a difference of two
            binomial tails.
        few_operations: Round-off of a value of a privacy curve, or of a mixture.
        last_places: Round-off of a term of a sum, in units of the machine epsilon.
        rdp_integral: Round-off of a Rényi divergence by quadrature.
        rdp_sum: Round-off of a sum of Rényi divergences.
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

    min_transform_error: float = 1e-40
    max_transform_error: float = 1e-6
    min_fft_error: float = 1e-16
    max_fft_error: float = 1e-3
    max_fft_error_ratio: float = 1e12
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
