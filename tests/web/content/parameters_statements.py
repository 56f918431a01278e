"""Statements of the chapter on hyperparameters; see statements.py."""

from tests.web.content.statements import learn

# name: page, absent, present
PARAMETERS = {
    "schedules-of-the-rate-cost-nothing": (
        learn("parameters"),
        "schedule of the learning rate (spends|costs) (?!nothing)",
        "costs nothing, because η does not enter ε.",
    ),
    "no-bound-enters-epsilon": (
        learn("parameters"),
        "a smaller C is more private",
        "Noise of σC hides that equally well at any C. Only the ratio σ enters ε.",
    ),
    "bias-comes-back": (
        learn("parameters"),
        "^$",
        "Each step draws new noise, which averages out over many steps. A bias comes "
        "back in every step.",
    ),
    "the-product-is-what-matters": (
        learn("parameters"),
        "^$",
        "Within a column the accuracy changes little, though C varies by a factor of "
        "1,000. Along a row it changes a lot.",
    ),
    "usual-bounds-beside-our-sweep": (
        learn("parameters"),
        "^$",
        "A C from 0.1 to 10 is often called usual. In our sweep on MNIST, every C from "
        "0.01 to 10 came within 0.5 points of the best accuracy",
    ),
    "usual-batches-beside-our-presets": (
        learn("parameters"),
        "^$",
        "Batches of 64 to 1,024 are often called usual.",
    ),
    "ranges-of-our-own-sweeps": (
        learn("parameters"),
        "^$",
        "These ranges hold for one model on one data set, no more.",
    ),
    "large-batches-take-no-more-gradients": (
        learn("parameters"),
        "in the end on time",
        "at the same number of epochs, all batch sizes compute equally many",
    ),
    "noise-over-the-run": (
        learn("parameters"),
        "times less noise an update",
        "a larger batch gains hardly anything (Räisä and others, 2024)",
    ),
    "momentum-lengthens-steps": (
        learn("parameters"),
        "a learning rate of 8 is no large step",
        "steps in one direction add up to ηC/(1 − m). For the default run, C = 0.1, "
        "η = 8 and m = 0.9, that is 8.0",
    ),
    "equal-ratios-of-epsilon": (
        learn("parameters"),
        "Going from ε = 8 to 3",
        "2.07 times the noise if you start at ε = 10, and 2.94 times if you start at 1",
    ),
    "large-pretrained-models": (
        learn("parameters"),
        "^$",
        "large models that were trained on public data first do well",
    ),
    "small-batches-spend-less": (
        learn("parameters"),
        "^$",
        "At a fixed number of epochs and a fixed σ it is the other way round",
    ),
    "a-large-bound-needs-no-larger-multiplier": (
        learn("parameters"),
        "^$",
        "is true of the noise in absolute terms and wrong about σ",
    ),
    "learning-rate-need-not-be-low": (learn("parameters"), "^$", "That is no law."),
    "typical-ranges-belong-to-a-run": (
        learn("parameters"),
        "^$",
        "With batches of 256, 60 epochs and 60,000 records, the two ends of this range "
        "give ε = 21.1",
    ),
    "tuning-is-paid": (
        learn("parameters"),
        "Free is only",
        "Only choices that use no private record are free",
    ),
    "stopping-early-looks-again": (
        learn("parameters"),
        "^$",
        "Choosing it by the accuracy on private records looks at them once more",
    ),
}
