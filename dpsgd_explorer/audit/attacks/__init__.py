"""Membership inference: was this record in the training?

| attack | needs | source |
|---|---|---|
| ``loss_scores`` | the model | Yeom et al. (2018) |
| ``likelihood_ratio_scores`` | shadow models | LiRA: Carlini et al. (2022) |
| ``relative_likelihood_scores`` | other records too | RMIA: Zarifzadeh et al. (2024) |

Pure functions: what models say of records in, scores out, larger for members.
"""
