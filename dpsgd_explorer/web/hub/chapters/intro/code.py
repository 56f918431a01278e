"""Randomised response: protect every answer, and still learn the share."""

import math
import random

from dpsgd_explorer.accounting import round_up

people, true_share, epsilon = 100_000, 0.3, math.log(3)
p = math.exp(epsilon) / (1 + math.exp(epsilon))  # how often an answer is the truth

coins = random.Random(7)
truths = [coins.random() < true_share for _ in range(people)]
answers = [t if coins.random() < p else not t for t in truths]

recorded = sum(answers) / people
estimate = (recorded - (1 - p)) / (2 * p - 1)
print(f"epsilon {round_up(epsilon)}: recorded {recorded:.3f}, estimate {estimate:.3f}")
