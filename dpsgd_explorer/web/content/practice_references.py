"""References on practice: engines, libraries, public data, deployed systems."""

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
    "hu": Source(
        "Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Wang and Chen",
        2021,
        "LoRA: low-rank adaptation of large language models",
        "2106.09685",
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
        address="https://medium.com/pytorch/differential-privacy-series-part-1-dp-s"
        "gd-algorithm-explained-12512c3959a3",
    ),
    "opacus_part_2": Source(
        "Yousefpour, Testuggine, Sablayrolles and Mironov",
        2021,
        "Differential privacy series, part 2: efficient per-sample gradient "
        "computation in Opacus",
        where="PyTorch blog on Medium",
        address="https://medium.com/pytorch/differential-privacy-series-part-2-effi"
        "cient-per-sample-gradient-computation-in-opacus-5bf4031d9e22",
    ),
    "opacus_part_3": Source(
        "Sablayrolles and others",
        2022,
        "Differential privacy series, part 3: efficient per-sample gradient "
        "computation for more layers in Opacus",
        where="PyTorch blog on Medium",
        address="https://pytorch.medium.com/differential-privacy-series-part-3-effi"
        "cient-per-sample-gradient-computation-for-more-layers-in-39bd25df2"
        "37",
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
        address="https://pytorch.org/docs/stable/notes/extending.html",
    ),
    "torch_hooks": Source(
        "Chintala",
        2017,
        "PyTorch for former Torch users: nn package, on forward and backward hooks",
        where="PyTorch tutorials",
        address="https://pytorch.org/tutorials/beginner/former_torchies/nnft_tutori"
        "al.html",
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
    "autodp": Source(
        "Wang and others",
        2018,
        "autodp: automating differential privacy computation",
        where="software",
        address="https://github.com/yuxiangw/autodp",
    ),
    "birrell": Source(
        "Birrell, Ebrahimi, Behnia and Pacheco",
        2024,
        "Differentially private stochastic gradient descent with fixed-size "
        "minibatches: tighter RDP guarantees with or without replacement",
        "2408.10456",
    ),
    "feldman_allocation": Source(
        "Feldman and Shenfeld",
        2025,
        "Privacy amplification by random allocation",
        "2502.08202",
    ),
    "feldman_loss": Source(
        "Feldman and Shenfeld",
        2026,
        "Efficient privacy loss accounting for subsampling and random allocation",
        "2602.17284",
    ),
    "ganesh": Source(
        "Ganesh",
        2024,
        "Tight group-level DP guarantees for DP-SGD with sampling via mixture of "
        "Gaussians mechanisms",
        "2401.10294",
    ),
    "keinan": Source(
        "Keinan, Shenfeld and Ligett",
        2025,
        "How well can differential privacy be audited in one run?",
        "2503.07199",
    ),
    "mahloujifar": Source(
        "Mahloujifar, Melis and Chaudhuri",
        2024,
        "Auditing f-differential privacy in one run",
        "2410.22235",
    ),
    "nasr2023_extraction": Source(
        "Nasr and others",
        2023,
        "Scalable extraction of training data from (production) language models",
        "2311.17035",
    ),
    "nist": Source(
        "Near, Darais, Lefkovitz and Howarth",
        2025,
        "Guidelines for evaluating differential privacy guarantees",
        where="NIST Special Publication 800-226",
        address="https://doi.org/10.6028/NIST.SP.800-226",
    ),
    "schuchardt": Source(
        "Schuchardt and others",
        2024,
        "Unified mechanism-specific amplification by subsampling and group privacy "
        "amplification",
        "2403.04867",
    ),
    "xiang": Source(
        "Xiang, Wang, Xiao, Tian and Wang",
        2025,
        "Tight privacy audit in one run",
        "2509.08704",
    ),
}
