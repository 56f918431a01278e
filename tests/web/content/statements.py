"""Statements that were once wrong, misleading or unclear, and how they stand now.

Each row: a page, what must not stand there, what must.  The page of teaching names the
rows.  Numbers are computed here by another way than the page's.
"""

import math

from dpsgd_explorer.accounting import gaussian_epsilon, round_up
from dpsgd_explorer.experiments.accountant_words import LABELS
from dpsgd_explorer.web.hub.chapters.sgd_basics import figures as sgd_steps
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS

Q, DELTA = 256 / 60_000, 1e-5


def learn(slug):
    return f"/learn/{slug}/"


def chapter(slug):
    return f"chapter {CHAPTERS[slug].number}"


# name: page, absent, present
STATEMENTS = {
    "descent-adapts": (
        learn("private-linear-regression"),
        "needs a bound on θ",
        "No bound on θ is needed beforehand: the sensitivity is taken at the current θ",
    ),
    "survey-against-curator": (
        learn("intro"),
        r"instead of 1\.1\b",
        "the noise alone moves the share by 0.014 percentage points instead of 0.96",
    ),
    "warner-asked-the-opposite": (
        learn("intro"),
        "randomised response, from 1965",
        "whether a person answers the question or its opposite",
    ),
    "half-a-million-customers": (
        learn("intro"),
        "the film ratings of its customers",
        "of about half a million of its customers",
    ),
    "releases-spend-at-most-the-sum": (
        learn("intro"),
        "There is no procedure that can be asked for ever",
        "spend at most the sum of their ε",
    ),
    "even-odds-beside-the-limit": (
        learn("intro"),
        r"that is e / \(1 \+ e\)",
        f"e / (1 + e) is {100 * math.e / (1 + math.e):.2f} %. It is a limit",
    ),
    "same-record-in-core-concepts": (
        learn("dp-concepts"),
        "^$",
        "with one odd record among them, and without it. The same record returns in",
    ),
    "same-record-in-the-refresher": (
        learn("sgd-basics"),
        "come back in every chapter",
        f"It is the odd record of {chapter('dp-concepts')}, and it comes back in "
        f"{chapter('what-models-leak')}, {chapter('dpsgd-intro')} and",
    ),
    "same-record-in-what-models-leak": (
        learn("what-models-leak"),
        "^$",
        f"points of {chapter('sgd-basics')}, with the same odd record",
    ),
    "same-record-in-core-modifications": (
        learn("dpsgd-intro"),
        "records of the last chapters",
        f"records of {chapter('sgd-basics')}; the same odd one is drawn and pulls",
    ),
    "same-record-in-auditing": (
        learn("auditing"),
        "^$",
        f"points of {chapter('sgd-basics')}, with the same odd record",
    ),
    "band-is-defined": (
        learn("dp-concepts"),
        "Draw the outcome with you",
        "An outcome is in the ε-band if neither world makes it more than eε times",
    ),
    "published-by-chance": (
        learn("dp-concepts"),
        "probability 46 %",
        f"probability {100 * (1 - (1 - 1e-5) ** 60_000):.0f} %",
    ),
    "loss-names-its-densities": (
        learn("dp-concepts"),
        "Integrating what p has beyond eεq",
        "Let p be the density of the outcome with you, and p′ the density without you",
    ),
    "adding-up-takes-delta-by-steps": (
        learn("dp-concepts"),
        "σ/√T. For σ = 10:",
        "adding up takes each release at δ/T",
    ),
    "other-orders-of-batches": (
        learn("sgd-basics"),
        "Whoever knows the other",
        f"over {sgd_steps.ORDERS} other orders, one straight cut separates all ends",
    ),
    "sensitivity-without-a-useful-bound": (
        learn("sgd-basics"),
        "sensitivity of the sum is infinite",
        "the sensitivity of the sum has no useful bound",
    ),
    "many-others-pull-alike": (
        learn("sgd-basics"),
        "Just because many others",
        "Precisely because many others pull the same way",
    ),
    "schedules-that-look-at-losses": (
        learn("dpsgd-intro"),
        "any schedule of the learning rate",
        "A schedule that waits for the loss to stop falling looks at the records again",
    ),
    "amplified-step": (
        learn("privacy-accounting"),
        r"goes from ε = 3\.93 down to",
        "there the step has ε = "
        f"{round_up(gaussian_epsilon(delta=DELTA / Q, noise_multiplier=1.1))}, and",
    ),
    "never-above-what-is-shown": (
        learn("privacy-accounting"),
        r"The true ε is never above what you are shown\.",
        "as long as the accountant is exact or a bound",
    ),
    "factor-between-counts": (
        learn("privacy-accounting"),
        "factors of a thousand",
        "the largest valid answer below is 33,000 times the smallest",
    ),
    "basic-composition-of-what": (
        learn("privacy-accounting"),
        "^$",
        "In the picture it adds up steps that use every record; the accountant race "
        "applies it to sampled steps",
    ),
    "contour-integral-is-cited": (
        learn("privacy-accounting"),
        "ten digits in milliseconds",
        "(Zhu, Dong and Wang, 2022; Alghamdi and others, 2022)",
    ),
    "advanced-composition-is-cited": (
        learn("privacy-accounting"),
        "^$",
        "Advanced composition (Dwork, Rothblum and Vadhan, 2010)",
    ),
    "moments-and-renyi-are-one-quantity": (
        learn("privacy-accounting"),
        "Moments accountant (2016): tight",
        "Rényi DP is the same quantity written better, with a sharper conversion to ε",
    ),
    "one-name-for-each-accountant": (
        learn("privacy-accounting"),
        "Gaussian DP, central limit",
        LABELS["gdp"] + ", an approximation",
    ),
    "minimiser-needs-two-statistics": (
        learn("private-linear-regression"),
        "All that this sum says about the data",
        "This minimiser depends on the data only through two small things",
    ),
    "why-descend": (
        learn("private-linear-regression"),
        "nothing in it needed the model to be linear",
        "Only the formula for the gradient’s length is lost",
    ),
    "ridge-is-a-deliberate-bias": (
        learn("private-linear-regression"),
        "unbiased answers that fly about|open eyes",
        "predicts better than answers without a ridge",
    ),
    "errors-are-training-errors": (
        learn("private-linear-regression"),
        "^$",
        "An error is the mean squared error on these same records, in (100,000 $)²",
    ),
    "medians-have-the-digits-they-support": (
        learn("private-linear-regression"),
        r"1\.1453",
        "the median error of SSP is about 1.1 (200 releases place it between",
    ),
    "notebook-is-introduced": (
        "/labs/linear-regression/",
        "^$",
        "“The notebook” is a public notebook",
    ),
    "race-of-the-moments-accountant": (
        "/labs/accountants/",
        "down from hundreds|its orders end at 32",
        "part of it comes from an older, looser conversion to ε",
    ),
    "badges-are-explained": (
        "/",
        "^$",
        "“Recorded”: this code made the run once",
    ),
    "three-badges": ("/", "^$", "are marked “computed” or “illustration”"),
    "cost-of-privacy-is-of-one-run": (
        "/",
        "is the cost of privacy against",
        "is the cost of privacy in this run, compared with a run on the same batches",
    ),
    "twin-is-behind-early": ("/", "^$", "Early on, the run without privacy is behind"),
    "divisor-is-the-expected-size": (
        learn("dpsgd-intro"),
        "lets the size of the batch out",
        "Do not divide by the number of records that were drawn",
    ),
    "order-of-clip-and-sum": (
        learn("dpsgd-intro"),
        "^$",
        "Clipping the batch’s gradient instead of each record’s",
    ),
    "tensors-clipped-one-by-one": (
        learn("dpsgd-intro"),
        "^$",
        "the whole gradient may be C√P long",
    ),
    "bound-is-not-taken-from-the-data": (
        learn("dpsgd-intro"),
        "^$",
        "Fix C before looking, or pay for finding it",
    ),
    "noise-goes-on-the-sum": (
        learn("dpsgd-intro"),
        "another story",
        "Adding noise to the weights after the step. The learning rate then sets",
    ),
    "epsilon-needs-four-numbers": (
        learn("dpsgd-intro"),
        "^$",
        "ε follows from four numbers: σ, q, the number of steps, and δ",
    ),
    "relation-is-stated": (
        learn("dp-concepts"),
        "^$",
        "it has ε = 4.38 if records are added or removed, and ε = 10.00 if they are",
    ),
    "sets-of-outcomes": (
        learn("dp-concepts"),
        "^$",
        "S is a set of outcomes, for a reason",
    ),
    "post-processing-does-not-look-again": (
        learn("dp-concepts"),
        "^$",
        "Choosing the stopping point by the loss on private validation data looks at",
    ),
    "analytic-calibration-is-exact": (
        learn("dp-concepts"),
        "^$",
        "For one Gaussian release the smallest sufficient σ is known exactly",
    ),
    "nobody-can-tell-is-true-of-small-epsilon": (
        learn("intro"),
        "^$",
        "“nobody can tell whether you took part” is true of small ε only",
    ),
    "unit-of-privacy": (
        learn("intro"),
        "^$",
        "That a person is covered, if a person has many records",
    ),
    "shuffling-is-not-poisson-sampling": (
        learn("privacy-accounting"),
        "^$",
        "Shuffling is not Poisson sampling",
    ),
    "libraries-and-what-they-count": (
        learn("privacy-accounting"),
        "^$",
        "Diffprivlib has a budget accountant based on composition theorems, but no",
    ),
    "closed-form-knows-no-sampling": (
        learn("privacy-accounting"),
        "^$",
        "It is exact for one release or many, but does not cover sampling",
    ),
    "half-a-gradient-half-a-sensitivity": (
        learn("private-linear-regression"),
        "^$",
        "A descent with σ = 50 that was planned for ε = 2 would spend 4.32",
    ),
    "calibration-by-search-may-overspend": (
        learn("private-linear-regression"),
        "^$",
        "may stop on either side of the target. A formula, rounded up, does not",
    ),
    "rate-from-private-eigenvalues": (
        learn("private-linear-regression"),
        "nobody paid for",
        "That is a look at the data that no ε covers",
    ),
    "entries-beside-the-diagonal": (
        learn("private-linear-regression"),
        "^$",
        "each entry off the diagonal counts twice in the Frobenius norm",
    ),
    "least-eigenvalue-buys-nothing": (
        learn("private-linear-regression"),
        "^$",
        "Here this release buys nothing",
    ),
    "no-confidence-level": (
        learn("private-linear-regression"),
        "^$",
        "looks like a confidence level but is not",
    ),
    "natural-ranges-are-exceeded": (
        learn("private-linear-regression"),
        "^$",
        "five of the 8 exceed theirs",
    ),
    "number-of-records-is-private": (
        learn("private-linear-regression"),
        "^$",
        "The number of records. Under adding and removing it is private too",
    ),
    "descent-and-adassp-tie": (
        learn("private-linear-regression"),
        "^$",
        "that rate is computed from the private records, so this number is not private",
    ),
    "stopping-budget": ("/train/", "End before the step", "stops before its ε exceeds"),
}
