"""Statements on how training is done in practice, and words that stand nowhere."""

from tests.web.content.statements import learn

# name: page, absent, present
PRACTICE = {
    "mean-loss-carries-one-over-b": (
        learn("per-sample-gradients"),
        "^$",
        "each highway gradient carries a factor 1/B, and it must be taken out before",
    ),
    "full-backward-hooks": (
        learn("per-sample-gradients"),
        "^$",
        "Older texts use register_backward_hook. For a module of several operations it",
    ),
    "hooks-get-tuples": (
        learn("per-sample-gradients"),
        "^$",
        "Both are tuples, one entry per tensor",
    ),
    "micro-batches-have-limits": (
        learn("per-sample-gradients"),
        "always compatible",
        "batch normalisation, cannot work on a single one. A loss over pairs of "
        "records is not a sum",
    ),
    "larger-micro-batches-clip-a-mean": (
        learn("per-sample-gradients"),
        "^$",
        "clipping a mean of four gradients bounds what four records do together",
    ),
    "lanes-stay-apart": (
        learn("per-sample-gradients"),
        "^$",
        "hn no longer belongs to record n alone",
    ),
    "fused-recurrent-layers": (
        learn("per-sample-gradients"),
        "^$",
        "Fused recurrent layers hide their time steps, so the engine computes them "
        "from single cells",
    ),
    "memory-of-all-gradients": (
        learn("per-sample-gradients"),
        "^$",
        "All per-sample gradients of a batch take B times the memory of the model",
    ),
    "gradients-the-same-in-every-way": (
        learn("per-sample-gradients"),
        "^$",
        "With every method, the clipped sum is the same up to rounding",
    ),
    "zcdp-says-where-it-applies": (
        "/labs/accountants/",
        "^$",
        "Does not count sampling; applies at q = 1.",
    ),
    "curves-and-choices-are-not-in-epsilon": (
        learn("private-linear-regression"),
        "^$",
        "was measured on the private records, and we looked at these errors for every",
    ),
    "replacing-costs-more": (
        learn("private-linear-regression"),
        "^$",
        "Replacing one record costs √2 and 2 times as much",
    ),
    "delta-below-one-over-n": (
        learn("dp-concepts"),
        "^$",
        "δ must be smaller than one over the number of records N, better far smaller",
    ),
    "library-of-the-notebook": (
        learn("private-linear-regression"),
        "^$",
        "noisy descent on these data with the library autodp",
    ),
}

# Words that stood somewhere and were wrong, or no English that a student knows.
RETIRED = (
    "sharding is not there yet",
    "training runs on one CPU",
    "[Aa]ll but the last six",
    "is at its goal: 0.22",
    r"(less|more) noise an update",
    "Who gave it 1",
    "Who has them can",
    "you were in[.,;]",
    "Just because many others",
    "What one record does to the end",
    "It does not cover who sees",
    "lets the size of the batch out",
    "throws it about",
    "emptier promise",
    "is what privacy is made of",
    "Free is only",
    "to answer the mean for everybody",
    "with open eyes",
    "its way back to ε",
    "made by an enemy",
    "End before the step that would",
    "and light or dark",
    "on time, since each step",
    "fly about",
    "All three fall towards",
    r"probability (mass )?that may lie beyond the",
    "put into the training data on purpose",
    "The surest an attacker",
    r"Privacy gives|clipping gives|noise gives",
)
