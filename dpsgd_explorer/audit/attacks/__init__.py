"""Membership inference: attacks that decide if a record was in the training data.

| attack | needs | source |
|---|---|---|
| ``loss_scores`` | the model | Yeom et al. (2018) |
| ``likelihood_ratio_scores`` | shadow models | LiRA: Carlini et al. (2022) |
| ``relative_likelihood_scores`` | other records too | RMIA: Zarifzadeh et al. (2024) |

The attacks are pure functions from the outputs of models to scores, larger for members.
"""
