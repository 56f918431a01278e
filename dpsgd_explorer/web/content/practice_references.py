"""Sources on practice: engines, libraries, public data, deployed systems."""

from __future__ import annotations

from dpsgd_explorer.web.content.source import Source

PRACTICE = {
    "abowd": Source(
        "Abowd and others",
        2022,
        "The 2020 Census disclosure avoidance system TopDown algorithm",
        "2204.08986",
    ),
    "aktay": Source(
        "Aktay and others",
        2020,
        "Google COVID-19 community mobility reports: anonymization process description",
        "2004.04145",
    ),
    "apple": Source(
        "Differential Privacy Team, Apple",
        2017,
        "Learning with privacy at scale",
        where="Apple Machine Learning Journal",
    ),
    "bitfit": Source(
        "Bu, Wang, Zha and Karypis",
        2022,
        "Differentially private bias-term fine-tuning of foundation models",
        "2210.00036",
    ),
    "bu_book_keeping": Source(
        "Bu, Wang, Zha and Karypis",
        2022,
        "Differentially private optimization on large model at small cost",
        "2210.00038",
    ),
    "bu_convergence": Source(
        "Bu, Wang, Dai and Long",
        2021,
        "On the convergence and calibration of deep learning with differential privacy",
        "2106.07830",
    ),
    "bu_convolutions": Source(
        "Bu, Mao and Xu",
        2022,
        "Scalable and efficient training of large convolutional neural networks with "
        "differential privacy",
        "2205.10683",
    ),
    "chellapilla": Source(
        "Chellapilla, Puri and Simard",
        2006,
        "High performance convolutional neural networks for document processing",
        where="International Workshop on Frontiers in Handwriting Recognition",
    ),
    "de": Source(
        "De, Berrada, Hayes, Smith and Balle",
        2022,
        "Unlocking high-accuracy differentially private image classification "
        "through scale",
        "2204.13650",
    ),
    "goodfellow": Source(
        "Goodfellow",
        2015,
        "Efficient per-example gradient computations",
        "1510.01799",
    ),
    "hod": Source(
        "Hod and Canetti",
        2024,
        "Differentially private release of Israel’s National Registry of Live Births",
        "2405.00267",
    ),
    "kairouz_ftrl": Source(
        "Kairouz, McMahan, Song, Thakkar, Thakurta and Xu",
        2021,
        "Practical and private (deep) learning without sampling or shuffling",
        "2103.00039",
    ),
    "li": Source(
        "Li, Tramèr, Liang and Hashimoto",
        2021,
        "Large language models can be strong differentially private learners",
        "2110.05679",
    ),
    "mcmahan": Source(
        "McMahan, Ramage, Talwar and Zhang",
        2017,
        "Learning differentially private recurrent language models",
        "1710.06963",
    ),
    "opacus": Source(
        "Yousefpour and others",
        2021,
        "Opacus: user-friendly differential privacy library in PyTorch",
        "2109.12298",
    ),
    "opacus_part_1": Source(
        "Testuggine and Mironov",
        2020,
        "Differential privacy series, part 1: DP-SGD algorithm explained",
        where="PyTorch blog on Medium",
    ),
    "opacus_part_2": Source(
        "Yousefpour, Testuggine, Sablayrolles and Mironov",
        2021,
        "Differential privacy series, part 2: efficient per-sample gradient "
        "computation in Opacus",
        where="PyTorch blog on Medium",
    ),
    "opacus_part_3": Source(
        "Sablayrolles and others",
        2022,
        "Differential privacy series, part 3: efficient per-sample gradient "
        "computation for more layers in Opacus",
        where="PyTorch blog on Medium",
    ),
    "papernot_pate": Source(
        "Papernot, Abadi, Erlingsson, Goodfellow and Talwar",
        2016,
        "Semi-supervised knowledge transfer for deep learning from private "
        "training data",
        "1610.05755",
    ),
    "ponomareva": Source(
        "Ponomareva and others",
        2023,
        "How to DP-fy ML: a practical guide to machine learning with differential "
        "privacy",
        "2303.00654",
    ),
    "rogers_linkedin": Source(
        "Rogers and others",
        2020,
        "LinkedIn’s audience engagements API: a privacy preserving data analytics "
        "system at scale",
        "2002.05839",
    ),
    "torch_extending": Source(
        "PyTorch contributors",
        2025,
        "Extending PyTorch",
        where="notes in the documentation of PyTorch",
    ),
    "torch_hooks": Source(
        "Chintala",
        2017,
        "PyTorch for former Torch users: nn package, on forward and backward hooks",
        where="PyTorch tutorials",
    ),
    "tramer": Source(
        "Tramèr and Boneh",
        2021,
        "Differentially private learning needs better features (or much more data)",
        "2011.11660",
    ),
    "tramer_public": Source(
        "Tramèr, Kamath and Carlini",
        2022,
        "Considerations for differentially private learning with large-scale "
        "public pretraining",
        "2212.06470",
    ),
    "vaultgemma": Source(
        "VaultGemma Team",
        2025,
        "VaultGemma: a differentially private Gemma model",
        "2510.15001",
    ),
    "xu": Source(
        "Xu, Zhang, Andrew, Choquette-Choo, Kairouz, McMahan, Rosenstock and Zhang",
        2023,
        "Federated learning of Gboard language models with differential privacy",
        "2305.18465",
    ),
}
