"""The terms of the site in a student's words: one entry each, shown where they occur.

``docs/reference/glossary.md`` is another list: names in code, for readers of the code.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """One entry.

    Attributes:
        name: As it stands in the list.
        meaning: One or two sentences that need no other entry to be understood.
        place: Where it is explained: the chapter's slug, or slug#section; "" nowhere.
    """

    name: str
    meaning: str
    place: str = ""

    @property
    def chapter(self) -> str:
        """Slug of the chapter that explains it, "" if none does."""
        return self.place.partition("#")[0]

    @property
    def section(self) -> str:
        """Anchor in that chapter, "" for its beginning."""
        return self.place.partition("#")[2]


TERMS: dict[str, Term] = {
    "accountant": Term(
        "accountant",
        "The part of the code that says how much ε a whole run spends. Its answer is "
        "exact, a bound (never too small) or an approximation (may be too small).",
        "privacy-accounting#accountants",
    ),
    "amplification": Term(
        "amplification by sampling",
        "A record that takes part in a step only with a small probability, and nobody "
        "knows when, is better hidden. So sampling makes ε smaller at the same noise.",
        "privacy-accounting#sampling",
    ),
    "approximation": Term(
        "approximation",
        "A computed ε that may lie above or below the truth. It is no promise.",
        "privacy-accounting#accountants",
    ),
    "audit": Term(
        "audit",
        "An attack on one’s own training code: many trainings with and without a "
        "record, or one training with many canaries, as this site’s runs do it. If it "
        "does better than the promised ε allows, the code is wrong. It can refute a "
        "promise, not prove one.",
    ),
    "band": Term(
        "band (ε-band)",
        "The outcomes that neither world, with your record or without it, makes more "
        "than e to the ε times as likely as the other. What one world has beyond that "
        "is δ.",
        "dp-concepts#delta",
    ),
    "bias": Term(
        "bias",
        "An error that does not go away by averaging: clipping makes long gradients "
        "count for less, so the average points elsewhere than the true one.",
        "dpsgd-intro#clip",
    ),
    "bound": Term(
        "bound",
        "A number that the truth does not exceed. A bound on ε is a promise, if "
        "perhaps a loose one.",
        "privacy-accounting#accountants",
    ),
    "budget": Term(
        "budget",
        "The ε that may be spent on a data set in all. Every release spends a part of "
        "it, and what is spent does not come back.",
        "planning-a-budget#one",
    ),
    "canary": Term(
        "canary",
        "A record made to stand out, to see whether training gives it away. Studies "
        "put it into the data. The canaries of this site’s runs are in no data set: "
        "the auditor adds the gradient that such a record would have, or does not, by "
        "a coin for each canary.",
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
        "How the lengths of the gradients are computed: by making every gradient, or "
        "from smaller matrices. The result is the same; time and memory differ.",
        "per-sample-gradients#ghosts",
    ),
    "composition": Term(
        "composition",
        "What several releases about the same data spend together: at most the sum of "
        "their ε, and usually much less.",
        "dp-concepts#composition",
    ),
    "delta": Term(
        "δ (delta)",
        "The probability that one world has beyond e to the ε times that of the "
        "other, summed over all outcomes. It is not the probability that the promise "
        "fails, and should be far below one over the number of records.",
        "dp-concepts#delta",
    ),
    "dp-sgd": Term(
        "DP-SGD",
        "Stochastic gradient descent made differentially private: draw records at "
        "random, clip each one’s gradient, add noise to the sum, divide by the "
        "expected batch size, move.",
        "dpsgd-intro",
    ),
    "eigenvalue": Term(
        "eigenvalue",
        "How strongly a matrix stretches along one of its own directions. For the "
        "matrix of a regression: how much the data say in that direction.",
        "private-linear-regression#ridge",
    ),
    "engine": Term(
        "engine",
        "The code that computes each record’s gradient, or its length. This site has "
        "four; they reach the same numbers at different cost.",
        "per-sample-gradients#engines",
    ),
    "epoch": Term(
        "epoch",
        "As many steps as it takes to use each record once on average.",
        "sgd-basics#step",
    ),
    "epsilon": Term(
        "ε (epsilon)",
        "How much likelier any outcome may become through one record: at most e to "
        "the ε times, either way. 0 means that nothing can be learned; 8 is hardly a "
        "limit.",
        "intro#odds",
    ),
    "exact": Term(
        "exact",
        "Of an ε: computed from both sides, so that the truth is known to as many "
        "digits as are shown, the last one rounded up.",
        "privacy-accounting#accountants",
    ),
    "filter": Term(
        "filter (privacy filter)",
        "A rule that stops before a budget is exceeded, also when each step’s noise "
        "was chosen by looking at the steps before.",
        "planning-a-budget#on-the-way",
    ),
    "frobenius-norm": Term(
        "Frobenius norm",
        "The length of a matrix, read as one long list of numbers: the root of the "
        "sum of its squared entries.",
        "private-linear-regression#sensitivity",
    ),
    "fundamental-law": Term(
        "Fundamental Law of Information Recovery",
        "Too accurate answers to too many questions let somebody compute most of the "
        "data set from the answers. Dwork and Roth (2014) call it so after a result "
        "of Dinur and Nissim (2003).",
        "intro#names",
    ),
    "gaussian-dp": Term(
        "Gaussian DP",
        "A way to state a promise: an attacker does no better than at telling two "
        "bell curves apart whose centres are μ standard deviations apart.",
        "dp-concepts#composition",
    ),
    "ghost-norm": Term(
        "ghost norm",
        "The length of a record’s gradient, computed from what went into a layer and "
        "what came back, without ever making the gradient itself.",
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
        "The table of all inner products among a few vectors. Two of them give the "
        "length of a gradient that is a sum over positions.",
        "per-sample-gradients#ghosts",
    ),
    "group-privacy": Term(
        "group privacy",
        "What is promised to several records at once: k records of one person have k "
        "times the ε (and more in δ), unless the person is the unit.",
        "in-the-real-world#unit",
    ),
    "likelihood-ratio": Term(
        "likelihood ratio",
        "How many times as likely an outcome is in one world as in the other. It is "
        "all that an attacker can learn from the outcome; ε bounds its logarithm, but "
        "for δ.",
        "intro#odds",
    ),
    "lira": Term(
        "likelihood ratio attack (LiRA)",
        "Membership inference with shadow models. Its score is how much likelier the "
        "model’s answer on a record is if the record was in its training.",
        "what-models-leak#how",
    ),
    "mechanism": Term(
        "mechanism",
        "A procedure with chance in it that turns a data set into something that is "
        "released. Differential privacy is a property of mechanisms.",
        "dp-concepts#worlds",
    ),
    "membership-inference": Term(
        "membership inference",
        "Finding out from a model whether a certain record was in its training data.",
        "what-models-leak#membership",
    ),
    "momentum": Term(
        "momentum",
        "A share m of the last step that is kept in the next one. Steps in one "
        "direction then add up to 1/(1 − m) times their length.",
        "parameters#rate",
    ),
    "neighbours": Term(
        "neighbouring data sets",
        "Two data sets that differ in one record: one has a record more (add or "
        "remove), or one record is exchanged for another (replace). The two relations "
        "give different numbers.",
        "dp-concepts#neighbours",
    ),
    "noise-multiplier": Term(
        "noise multiplier σ",
        "The standard deviation of the noise over the largest length C that one "
        "record may have. Privacy depends on this ratio, not on C.",
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
        "A running total of the ε that was spent so far. A rule that stops by what it "
        "and the results say needs a filter instead.",
        "planning-a-budget#on-the-way",
    ),
    "per-sample-gradient": Term(
        "per-sample gradient",
        "The gradient of one record’s loss by itself, before anything is summed or "
        "averaged. Clipping needs its length.",
        "per-sample-gradients#loop",
    ),
    "plausible-deniability": Term(
        "plausible deniability",
        "Whatever was released, you can say that it would have come out about as "
        "likely had your answer been another.",
        "intro#survey",
    ),
    "poisson-sampling": Term(
        "Poisson sampling",
        "Each record joins a step by its own coin, with probability q, whatever the "
        "others do. Batches then differ in size. Shuffling is not the same.",
        "dpsgd-intro#draw",
    ),
    "post-processing": Term(
        "post-processing",
        "Anything done with a release that does not look at the data again. It cannot "
        "weaken the promise.",
        "dp-concepts#processing",
    ),
    "prior": Term(
        "prior (first belief)",
        "How likely somebody thinks something is before they see a release.",
        "intro#odds",
    ),
    "privacy-loss": Term(
        "privacy loss",
        "The logarithm of the likelihood ratio of what came out: how much this "
        "outcome speaks for your record having been there. It is random.",
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
        "Of a picture: drawn from a run that this code made once and that is stored. "
        "“Computed” was worked out for the page; an “illustration” shows made-up "
        "records.",
    ),
    "rmia": Term(
        "relative membership inference (RMIA)",
        "An attack that asks how many other records a record beats in what the model "
        "has gained on it over other models.",
        "what-models-leak#how",
    ),
    "renyi-dp": Term(
        "Rényi DP (RDP)",
        "Counting by the moments of the privacy loss, which add up over steps and are "
        "turned into an ε at the end. A bound.",
        "privacy-accounting#accountants",
    ),
    "ridge": Term(
        "ridge",
        "A positive number put on the diagonal of a matrix before it is solved. It "
        "pulls the solution to zero where data say little, and keeps noise from being "
        "blown up.",
        "private-linear-regression#ridge",
    ),
    "roc": Term(
        "ROC curve",
        "The share of members that an attack finds against the share of others that it "
        "takes for members, at every threshold. Its left end is where hardly anybody "
        "is accused wrongly.",
        "what-models-leak#how",
    ),
    "sample-rate": Term(
        "sample rate q",
        "The probability with which a record takes part in a step: expected batch "
        "size over number of records.",
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
        "The most that one record can change an answer, over all data sets, not only "
        "the one at hand. Noise is chosen in proportion to it.",
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
        "A model that an attacker trains itself, as the attacked one was trained, to "
        "see how a model with a record differs from one without.",
        "what-models-leak#how",
    ),
    "trade-off-curve": Term(
        "trade-off curve",
        "For each share of false alarms, the smallest share of members that any "
        "attack must miss. It says more than one pair (ε, δ).",
        "what-models-leak#limit",
    ),
    "unit": Term(
        "unit of privacy",
        "What is added or removed in the promise: a record, a person, a household. A "
        "person with many records is protected less if the record is the unit.",
        "in-the-real-world#unit",
    ),
    "zcdp": Term(
        "zCDP",
        "Zero-concentrated differential privacy: one number ρ for each Gaussian "
        "release, and ρ adds up. A bound, for steps on all records.",
        "privacy-accounting#accountants",
    ),
}
