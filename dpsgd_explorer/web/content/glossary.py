"""Glossary of the site for students; pages show an entry where its term occurs.

``docs/reference/glossary.md`` is a separate list of names in the code, for developers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """One entry of the glossary.

    Attributes:
        name: The term as printed in the list.
        meaning: One or two sentences that need no other entry to be understood.
        place: Slug of the chapter with an explanation, or slug#section; "" without one.
    """

    name: str
    meaning: str
    place: str = ""

    @property
    def chapter(self) -> str:
        """Slug of the chapter that explains the term; "" without one."""
        return self.place.partition("#")[0]

    @property
    def section(self) -> str:
        """Anchor of the explanation in the chapter; "" for the start of the chapter."""
        return self.place.partition("#")[2]


TERMS: dict[str, Term] = {
    "accountant": Term(
        "accountant",
        "The part of the code that computes how much ε a whole run spends. Its answer "
        "is exact, a bound (never too small) or an approximation (may be too small).",
        "privacy-accounting#accountants",
    ),
    "amplification": Term(
        "amplification by sampling",
        "The gain from random batches. A record is better hidden if it takes part in "
        "a step only with a small probability, and nobody knows when. So sampling "
        "makes ε smaller at the same noise.",
        "privacy-accounting#sampling",
    ),
    "approximation": Term(
        "approximation",
        "A computed ε that may be above or below the true ε. It is not a promise.",
        "privacy-accounting#accountants",
    ),
    "audit": Term(
        "audit",
        "An attack on your own training code: many trainings with and without a "
        "record, or one training with many canaries, as in this site’s runs. If the "
        "attack does better than the promised ε allows, the code is wrong. An audit "
        "can refute a promise, not prove one.",
    ),
    "band": Term(
        "band (ε-band)",
        "The outcomes that neither world, with your record or without it, makes more "
        "than e to the ε times as likely as the other. The excess of one world beyond "
        "this factor is δ.",
        "dp-concepts#delta",
    ),
    "bias": Term(
        "bias",
        "An error that averaging does not remove. Clipping makes long gradients count "
        "for less, so the average of the clipped gradients points elsewhere than the "
        "true average.",
        "dpsgd-intro#clip",
    ),
    "bound": Term(
        "bound",
        "A number that the truth does not exceed. A bound on ε is a promise, though "
        "perhaps a loose one.",
        "privacy-accounting#accountants",
    ),
    "budget": Term(
        "budget",
        "The total ε that may be spent on a data set. Every release spends a part of "
        "it, and a spent part does not come back.",
        "planning-a-budget#one",
    ),
    "canary": Term(
        "canary",
        "A record made to stand out, to test whether training gives it away. Studies "
        "put canaries into the data. The canaries of this site’s runs are in no data "
        "set: for each canary, a coin decides whether the auditor adds the gradient "
        "that such a record would have.",
    ),
    "central": Term(
        "central and local",
        "Central: one party sees the records and adds noise once, to what it "
        "releases. Local: each person adds noise before anything leaves their hands, "
        "which costs far more accuracy.",
        "intro#price",
    ),
    "clipping": Term(
        "clipping",
        "Shortening each record’s gradient to a length of at most C, so that no "
        "record can move the sum by more than C.",
        "dpsgd-intro#clip",
    ),
    "clipping-mode": Term(
        "clipping mode",
        "The method that computes the lengths of the gradients: from every gradient "
        "itself, or from smaller matrices. The result is the same; time and memory "
        "differ.",
        "per-sample-gradients#ghosts",
    ),
    "composition": Term(
        "composition",
        "The counting of several releases about the same data. Together they spend at "
        "most the sum of their ε, and usually much less.",
        "dp-concepts#composition",
    ),
    "delta": Term(
        "δ (delta)",
        "The excess of one world’s probability over e to the ε times the other "
        "world’s probability, summed over all outcomes where there is an excess. It "
        "is not the probability that the promise fails. It should be far below one "
        "over the number of records.",
        "dp-concepts#delta",
    ),
    "dp-sgd": Term(
        "DP-SGD",
        "Stochastic gradient descent made differentially private: draw records at "
        "random, clip the gradient of each, add noise to the sum, divide by the "
        "expected batch size, and take a step.",
        "dpsgd-intro",
    ),
    "eigenvalue": Term(
        "eigenvalue",
        "A number that measures how strongly a matrix stretches along one of its own "
        "directions. In a regression it measures how much the data say in that "
        "direction.",
        "private-linear-regression#ridge",
    ),
    "engine": Term(
        "engine",
        "The code that computes each record’s gradient, or its length. This site has "
        "four engines. They compute the same numbers at different cost.",
        "per-sample-gradients#engines",
    ),
    "epoch": Term(
        "epoch",
        "The number of steps that use each record once on average.",
        "sgd-basics#step",
    ),
    "epsilon": Term(
        "ε (epsilon)",
        "A limit on how much one record can change the probability of any outcome: a "
        "factor of at most e to the ε, either way. At ε = 0 and δ = 0 nothing "
        "can be learned about a record; ε = 8 is hardly a limit.",
        "intro#odds",
    ),
    "exact": Term(
        "exact",
        "An exact ε is computed from both sides, so the truth is known to all digits "
        "shown. The last digit is rounded up.",
        "privacy-accounting#accountants",
    ),
    "filter": Term(
        "filter (privacy filter)",
        "A rule that ends training before it exceeds a budget. It holds even if each "
        "step’s noise was chosen after a look at earlier steps.",
        "planning-a-budget#on-the-way",
    ),
    "frobenius-norm": Term(
        "Frobenius norm",
        "The length of a matrix, if you read it as one long list of numbers: the root "
        "of the sum of its squared entries.",
        "private-linear-regression#sensitivity",
    ),
    "fundamental-law": Term(
        "Fundamental Law of Information Recovery",
        "Too accurate answers to too many questions let somebody compute most of the "
        "data set from the answers. Dwork and Roth (2014) gave this law its name, "
        "after a result of Dinur and Nissim (2003).",
        "intro#names",
    ),
    "gaussian-dp": Term(
        "Gaussian DP",
        "A promise with one number μ: no attacker does better than somebody who must "
        "distinguish two bell curves whose centres differ by μ standard deviations.",
        "dp-concepts#composition",
    ),
    "ghost-norm": Term(
        "ghost norm",
        "The length of a record’s gradient, computed from a layer’s inputs and from "
        "the gradients at its outputs. The record’s own gradient is never computed.",
        "per-sample-gradients#ghosts",
    ),
    "gradient": Term(
        "gradient",
        "The direction in which the loss grows fastest, and how fast. Training steps "
        "the other way.",
        "sgd-basics#step",
    ),
    "gram-matrix": Term(
        "Gram matrix",
        "The table of all inner products among a few vectors. Two such tables give "
        "the length of a gradient that is a sum over positions.",
        "per-sample-gradients#ghosts",
    ),
    "group-privacy": Term(
        "group privacy",
        "The promise to several records together. For k records of one person, ε is "
        "usually k times as large or more, unless the person is the unit.",
        "in-the-real-world#unit",
    ),
    "likelihood-ratio": Term(
        "likelihood ratio",
        "The probability of an outcome in one world, divided by its probability in "
        "the other. It contains everything that an attacker can learn from the "
        "outcome. Its logarithm is at most ε, apart from the excess δ.",
        "intro#odds",
    ),
    "lira": Term(
        "likelihood ratio attack (LiRA)",
        "Membership inference with shadow models. Its score compares how likely the "
        "model’s answer on a record is if the record was in training, and if it was "
        "not.",
        "what-models-leak#how",
    ),
    "mechanism": Term(
        "mechanism",
        "A random procedure that turns a data set into a release. Differential "
        "privacy is a property of mechanisms.",
        "dp-concepts#worlds",
    ),
    "membership-inference": Term(
        "membership inference",
        "Finding out from a model whether a certain record was in its training data.",
        "what-models-leak#membership",
    ),
    "momentum": Term(
        "momentum",
        "A share m of the last step that is added to the next one. Steps in one "
        "direction then add up to 1/(1 − m) times their length.",
        "parameters#rate",
    ),
    "neighbours": Term(
        "neighbouring data sets",
        "Two data sets that differ in one record: either one of them has a record "
        "more (add or remove), or one record is exchanged for another (replace). The "
        "two relations give different numbers.",
        "dp-concepts#neighbours",
    ),
    "noise-multiplier": Term(
        "noise multiplier σ",
        "The standard deviation of the noise, divided by C, the largest length that "
        "one record’s gradient may have. Privacy depends on this ratio, not on C.",
        "dpsgd-intro#noise",
    ),
    "odds": Term(
        "odds",
        "A chance written as a ratio: 3 to 1 is 75 %. Seeing an outcome multiplies "
        "odds by the likelihood ratio.",
        "intro#odds",
    ),
    "odometer": Term(
        "odometer (privacy odometer)",
        "A running total of the ε spent so far. A rule that stops by this total and "
        "by the results needs a filter instead.",
        "planning-a-budget#on-the-way",
    ),
    "per-sample-gradient": Term(
        "per-sample gradient",
        "The gradient of a single record’s loss, before any sum or average. Clipping "
        "needs its length.",
        "per-sample-gradients#loop",
    ),
    "plausible-deniability": Term(
        "plausible deniability",
        "Whatever was released, you can say: with another answer of mine, it would "
        "have been about as likely.",
        "intro#survey",
    ),
    "poisson-sampling": Term(
        "Poisson sampling",
        "Each record joins a step by its own coin toss, with probability q, "
        "independently of the others. Batches then differ in size. Shuffling is not "
        "the same.",
        "dpsgd-intro#draw",
    ),
    "post-processing": Term(
        "post-processing",
        "Any computation on a release that does not look at the data again. It cannot "
        "weaken the promise.",
        "dp-concepts#processing",
    ),
    "prior": Term(
        "prior (first belief)",
        "The probability that somebody gives to a statement before they see a release.",
        "intro#odds",
    ),
    "privacy-loss": Term(
        "privacy loss",
        "The logarithm of the likelihood ratio of an outcome. It measures how "
        "strongly this outcome suggests that your record was used. It is random.",
        "privacy-accounting#loss",
    ),
    "randomised-response": Term(
        "randomised response",
        "A survey in which chance decides whether an answer is the truth, so that no "
        "single answer gives anybody away and the total can still be estimated.",
        "intro#survey",
    ),
    "recorded": Term(
        "recorded",
        "A “recorded” picture shows a stored run that this code made once. A "
        "“computed” picture was computed for the page. An “illustration” shows "
        "invented records.",
    ),
    "rmia": Term(
        "relative membership inference (RMIA)",
        "An attack that measures how much better the model does on a record than "
        "other models do, and counts how many other records have a smaller gain.",
        "what-models-leak#how",
    ),
    "renyi-dp": Term(
        "Rényi DP (RDP)",
        "A method that measures the privacy loss by its moments, on a log scale. "
        "These add up over steps, and a conversion at the end gives a bound on ε.",
        "privacy-accounting#accountants",
    ),
    "ridge": Term(
        "ridge",
        "A positive number added to the diagonal of a matrix before solving. It pulls "
        "the solution to zero where the data say little, and keeps the noise from "
        "blowing up.",
        "private-linear-regression#ridge",
    ),
    "roc": Term(
        "ROC curve",
        "A curve over all thresholds of an attack: the share of members that it "
        "finds, against the share of others that it takes for members. At the left "
        "end hardly anybody is accused wrongly.",
        "what-models-leak#how",
    ),
    "sample-rate": Term(
        "sample rate q",
        "The probability with which a record takes part in a step: expected batch "
        "size divided by number of records.",
        "dpsgd-intro#draw",
    ),
    "scattering": Term(
        "scattering",
        "A fixed transform of pictures by wavelets: averages of how strong edges of "
        "each direction and size are. Nothing in it is learned, so it costs no "
        "privacy; the default model learns one linear layer on top.",
        "parameters#size",
    ),
    "sensitivity": Term(
        "sensitivity",
        "The most that one record can change an answer, over all possible data sets, "
        "not only yours. Noise is chosen in proportion to it.",
        "dp-concepts#sensitivity",
    ),
    "sgd": Term(
        "SGD (stochastic gradient descent)",
        "Training by small steps against the average gradient of a few records drawn "
        "at random.",
        "sgd-basics#step",
    ),
    "shadow-model": Term(
        "shadow model",
        "A model that an attacker trains in the same way as the attacked model. It "
        "shows how a model with a record differs from a model without it.",
        "what-models-leak#how",
    ),
    "trade-off-curve": Term(
        "trade-off curve",
        "For each share of false alarms, the smallest share of members that any "
        "attack must miss. It says more than one pair (ε, δ).",
        "what-models-leak#limit",
    ),
    "twin": Term(
        "twin without privacy",
        "The same training without clipping and without noise. A chart shows it next "
        "to the private run: the difference is the price of privacy.",
    ),
    "unit": Term(
        "unit of privacy",
        "The thing that the promise adds or removes: a record, a person, a household. "
        "A person with many records is protected less if the record is the unit.",
        "in-the-real-world#unit",
    ),
    "zcdp": Term(
        "zCDP",
        "Zero-concentrated differential privacy: each Gaussian release has one number "
        "ρ, and these numbers add up. The resulting ε is a bound, for steps on all "
        "records.",
        "privacy-accounting#accountants",
    ),
}
