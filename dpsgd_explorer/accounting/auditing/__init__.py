"""Auditing: lower bounds on ε, proven from what a run released about canaries.

| bound | assumes | source |
|---|---|---|
| ``exact_family_epsilon`` | independent scores; DP-SGD, its noise unknown | here |
| ``gaussian_dp_epsilon`` | independent scores; Gaussian noise | Nasr et al. (2023) |
| ``gaussian_pair_epsilon`` | normal scores | Agrawal et al. (2026) |
| ``f_dp_one_run_epsilon`` | a Gaussian mechanism | Mahloujifar et al. (2025) |
| ``one_run_epsilon`` | nothing | Steinke et al. (2023) |

``evidence`` writes scores and coins as text, so that anyone can recompute the bounds.
"""
