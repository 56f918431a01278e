"""The papers that the chapters lean on, one a line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A paper; ``arxiv`` is "" where it is not on arXiv."""

    authors: str
    year: int
    title: str
    arxiv: str = ""
    where: str = ""

    @property
    def url(self) -> str:
        """Address of the paper on arXiv."""
        return f"https://arxiv.org/abs/{self.arxiv}"


SOURCES = {
    "abadi": Source(
        "Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang",
        2016,
        "Deep learning with differential privacy",
        "1607.00133",
    ),
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
    "alghamdi": Source(
        "Alghamdi and others",
        2022,
        "The saddle-point accountant for differential privacy",
        "2208.09595",
    ),
    "annamalai": Source(
        "Annamalai and others",
        2024,
        "To shuffle or not to shuffle: auditing DP-SGD with shuffling",
        "2411.10614",
    ),
    "apple": Source(
        "Differential Privacy Team, Apple",
        2017,
        "Learning with privacy at scale",
        where="Apple Machine Learning Journal",
    ),
    "bagdasaryan": Source(
        "Bagdasaryan, Poursaeed and Shmatikov",
        2019,
        "Differential privacy has disparate impact on model accuracy",
        "1905.12101",
    ),
    "balle": Source(
        "Balle and Wang",
        2018,
        "Improving the Gaussian mechanism for differential privacy",
        "1805.06530",
    ),
    "balle_sampling": Source(
        "Balle, Barthe and Gaboardi",
        2018,
        "Privacy amplification by subsampling: tight analyses via couplings and "
        "divergences",
        "1807.01647",
    ),
    "bassily": Source(
        "Bassily, Smith and Thakurta",
        2014,
        "Private empirical risk minimization: efficient algorithms and tight error "
        "bounds",
        "1405.7085",
    ),
    "bitfit": Source(
        "Bu, Wang, Zha and Karypis",
        2022,
        "Differentially private bias-term fine-tuning of foundation models",
        "2210.00036",
    ),
    "bu": Source(
        "Bu, Wang, Zha and Karypis",
        2022,
        "Automatic clipping: differentially private deep learning made easier and "
        "stronger",
        "2206.07136",
    ),
    "bu_book_keeping": Source(
        "Bu, Wang, Zha and Karypis",
        2022,
        "Differentially private optimization on large model at small cost",
        "2210.00038",
    ),
    "bu_convolutions": Source(
        "Bu, Mao and Xu",
        2022,
        "Scalable and efficient training of large convolutional neural networks with "
        "differential privacy",
        "2205.10683",
    ),
    "canonne": Source(
        "Canonne, Kamath and Steinke",
        2020,
        "The discrete Gaussian for differential privacy",
        "2004.00010",
    ),
    "carlini2019": Source(
        "Carlini, Liu, Erlingsson, Kos and Song",
        2019,
        "The secret sharer: evaluating and testing unintended memorization in neural "
        "networks",
        "1802.08232",
    ),
    "carlini2021": Source(
        "Carlini and others",
        2021,
        "Extracting training data from large language models",
        "2012.07805",
    ),
    "chellapilla": Source(
        "Chellapilla, Puri and Simard",
        2006,
        "High performance convolutional neural networks for document processing",
        where="International Workshop on Frontiers in Handwriting Recognition",
    ),
    "chen": Source(
        "Chen, Wu and Hong",
        2020,
        "Understanding gradient clipping in private SGD: a geometric perspective",
        "2006.15429",
    ),
    "chua": Source(
        "Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha and Zhang",
        2024,
        "How private are DP-SGD implementations?",
        "2403.17673",
    ),
    "de": Source(
        "De, Berrada, Hayes, Smith and Balle",
        2022,
        "Unlocking high-accuracy differentially private image classification "
        "through scale",
        "2204.13650",
    ),
    "dinur": Source(
        "Dinur and Nissim",
        2003,
        "Revealing information while preserving privacy",
        where="PODS",
    ),
    "dong": Source(
        "Dong, Roth and Su",
        2019,
        "Gaussian differential privacy",
        "1905.02383",
    ),
    "dwork2006": Source(
        "Dwork, McSherry, Nissim and Smith",
        2006,
        "Calibrating noise to sensitivity in private data analysis",
        where="TCC",
    ),
    "dwork2010": Source(
        "Dwork, Rothblum and Vadhan",
        2010,
        "Boosting and differential privacy",
        where="FOCS",
    ),
    "dwork2014": Source(
        "Dwork and Roth",
        2014,
        "The algorithmic foundations of differential privacy",
        where="Foundations and Trends in Theoretical Computer Science",
    ),
    "dwork_gauss": Source(
        "Dwork, Talwar, Thakurta and Zhang",
        2014,
        "Analyze Gauss: optimal bounds for privacy-preserving principal component "
        "analysis",
        where="STOC",
    ),
    "feldman": Source(
        "Feldman and Zrnic",
        2020,
        "Individual privacy accounting via a Rényi filter",
        "2008.11193",
    ),
    "goodfellow": Source(
        "Goodfellow",
        2015,
        "Efficient per-example gradient computations",
        "1510.01799",
    ),
    "gopi": Source(
        "Gopi, Lee and Wutschitz",
        2021,
        "Numerical composition of differential privacy",
        "2106.02848",
    ),
    "hod": Source(
        "Hod and Canetti",
        2024,
        "Differentially private release of Israel’s National Registry of Live Births",
        "2405.00267",
    ),
    "kairouz": Source(
        "Kairouz, Oh and Viswanath",
        2015,
        "The composition theorem for differential privacy",
        "1311.0776",
    ),
    "kairouz_ftrl": Source(
        "Kairouz, McMahan, Song, Thakkar, Thakurta and Xu",
        2021,
        "Practical and private (deep) learning without sampling or shuffling",
        "2103.00039",
    ),
    "koskela": Source(
        "Koskela, Jälkö and Honkela",
        2020,
        "Computing tight differential privacy guarantees using FFT",
        "1906.03049",
    ),
    "li": Source(
        "Li, Tramèr, Liang and Hashimoto",
        2021,
        "Large language models can be strong differentially private learners",
        "2110.05679",
    ),
    "liu": Source(
        "Liu and Talwar",
        2018,
        "Private selection from private candidates",
        "1811.07971",
    ),
    "mcmahan": Source(
        "McMahan, Ramage, Talwar and Zhang",
        2017,
        "Learning differentially private recurrent language models",
        "1710.06963",
    ),
    "mironov2017": Source("Mironov", 2017, "Rényi differential privacy", "1702.07476"),
    "mironov2019": Source(
        "Mironov, Talwar and Zhang",
        2019,
        "Rényi differential privacy of the sampled Gaussian mechanism",
        "1908.10530",
    ),
    "narayanan": Source(
        "Narayanan and Shmatikov",
        2008,
        "Robust de-anonymization of large sparse datasets",
        "cs/0610105",
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
    "papernot": Source(
        "Papernot and Steinke",
        2022,
        "Hyperparameter tuning with Rényi differential privacy",
        "2110.03620",
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
    "raisa": Source(
        "Räisä, Jälkö and Honkela",
        2024,
        "Subsampling is not magic: why large batch sizes work for differentially "
        "private stochastic optimisation",
        "2402.03990",
    ),
    "rogers": Source(
        "Rogers, Roth, Ullman and Vadhan",
        2016,
        "Privacy odometers and filters: pay-as-you-go composition",
        "1605.08294",
    ),
    "rogers_linkedin": Source(
        "Rogers and others",
        2020,
        "LinkedIn’s audience engagements API: a privacy preserving data analytics "
        "system at scale",
        "2002.05839",
    ),
    "shokri": Source(
        "Shokri, Stronati, Song and Shmatikov",
        2017,
        "Membership inference attacks against machine learning models",
        "1610.05820",
    ),
    "song": Source(
        "Song, Chaudhuri and Sarwate",
        2013,
        "Stochastic gradient descent with differentially private updates",
        where="GlobalSIP",
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
    "vadhan": Source(
        "Vadhan",
        2017,
        "The complexity of differential privacy",
        where="Tutorials on the Foundations of Cryptography",
    ),
    "vaultgemma": Source(
        "VaultGemma Team",
        2025,
        "VaultGemma: a differentially private Gemma model",
        "2510.15001",
    ),
    "wang": Source(
        "Wang",
        2018,
        "Revisiting differentially private linear regression: optimal and adaptive "
        "prediction and estimation in unbounded domain",
        "1803.02596",
    ),
    "warner": Source(
        "Warner",
        1965,
        "Randomized response: a survey technique for eliminating evasive answer bias",
        where="Journal of the American Statistical Association",
    ),
    "xu": Source(
        "Xu, Zhang, Andrew, Choquette-Choo, Kairouz, McMahan, Rosenstock and Zhang",
        2023,
        "Federated learning of Gboard language models with differential privacy",
        "2305.18465",
    ),
    "zhu": Source(
        "Zhu, Liu and Han", 2019, "Deep leakage from gradients", "1906.08935"
    ),
    "zhu_dong": Source(
        "Zhu, Dong and Wang",
        2022,
        "Optimal accounting of differential privacy via characteristic function",
        "2106.08567",
    ),
}
