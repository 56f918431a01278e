"""References of the chapters, by key."""

from __future__ import annotations

from dpsgd_explorer.web.content.practice_references import PRACTICE
from dpsgd_explorer.web.content.source import Source

THEORY = {
    "abowd2023": Source(
        "Abowd and others",
        2023,
        "The 2010 census confidentiality protections failed, here’s how and why",
        "2312.11283",
    ),
    "abadi": Source(
        "Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang",
        2016,
        "Deep learning with differential privacy",
        "1607.00133",
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
    "bu": Source(
        "Bu, Wang, Zha and Karypis",
        2022,
        "Automatic clipping: differentially private deep learning made easier and "
        "stronger",
        "2206.07136",
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
    "carlini2022": Source(
        "Carlini, Chien, Nasr, Song, Terzis and Tramèr",
        2022,
        "Membership inference attacks from first principles",
        "2112.03570",
    ),
    "carlini2023": Source(
        "Carlini and others",
        2023,
        "Extracting training data from diffusion models",
        "2301.13188",
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
    "clopper": Source(
        "Clopper and Pearson",
        1934,
        "The use of confidence or fiducial limits illustrated in the case of the "
        "binomial",
        where="Biometrika",
    ),
    "dinur": Source(
        "Dinur and Nissim",
        2003,
        "Revealing information while preserving privacy",
        where="PODS",
    ),
    "choquette_choo": Source(
        "Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta and Xu",
        2023,
        "(Amplified) banded matrix factorization: a unified approach to private "
        "training",
        "2306.08153",
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
    "feldman_allocation": Source(
        "Feldman and Shenfeld",
        2025,
        "Privacy amplification by random allocation",
        "2502.08202",
    ),
    "feldman_tail": Source(
        "Feldman",
        2019,
        "Does learning require memorization? A short tale about a long tail",
        "1906.05271",
    ),
    "gopi": Source(
        "Gopi, Lee and Wutschitz",
        2021,
        "Numerical composition of differential privacy",
        "2106.02848",
    ),
    "jagielski": Source(
        "Jagielski, Ullman and Oprea",
        2020,
        "Auditing differentially private machine learning: how private is private SGD?",
        "2006.07709",
    ),
    "kairouz": Source(
        "Kairouz, Oh and Viswanath",
        2015,
        "The composition theorem for differential privacy",
        "1311.0776",
    ),
    "koskela": Source(
        "Koskela, Jälkö and Honkela",
        2020,
        "Computing tight differential privacy guarantees using FFT",
        "1906.03049",
    ),
    "liu": Source(
        "Liu and Talwar",
        2018,
        "Private selection from private candidates",
        "1811.07971",
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
    "nasr2021": Source(
        "Nasr, Song, Thakurta, Papernot and Carlini",
        2021,
        "Adversary instantiation: lower bounds for differentially private machine "
        "learning",
        "2101.04535",
    ),
    "nasr2023": Source(
        "Nasr and others",
        2023,
        "Tight auditing of differentially private machine learning",
        "2302.07956",
    ),
    "papernot": Source(
        "Papernot and Steinke",
        2022,
        "Hyperparameter tuning with Rényi differential privacy",
        "2110.03620",
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
    "steinke": Source(
        "Steinke, Nasr and Jagielski",
        2023,
        "Privacy auditing with one (1) training run",
        "2305.08846",
    ),
    "suriyakumar": Source(
        "Suriyakumar, Papernot, Goldenberg and Ghassemi",
        2020,
        "Chasing your long tails: differentially private prediction in health care "
        "settings",
        "2010.06667",
    ),
    "tramer_debugging": Source(
        "Tramèr and others",
        2022,
        "Debugging differential privacy: a case study for privacy auditing",
        "2202.12219",
    ),
    "tran": Source(
        "Tran, Dinh and Fioretto",
        2021,
        "Differentially private empirical risk minimization under the fairness lens",
        "2106.02674",
    ),
    "vadhan": Source(
        "Vadhan",
        2017,
        "The complexity of differential privacy",
        where="Tutorials on the Foundations of Cryptography",
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
    "yeom": Source(
        "Yeom, Giacomelli, Fredrikson and Jha",
        2018,
        "Privacy risk in machine learning: analyzing the connection to overfitting",
        "1709.01604",
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
SOURCES = THEORY | PRACTICE
