"""Bugs that have been made in DP-SGD, each as a patch of the real code.

The first thirteen are those of an audit study: an audit alone misses five of them, so
each names the family of tests that must see it.  "Noise before all-reduce on every
rank" waits for training on several processes.
"""

from dataclasses import dataclass

RELEASE, CLIPPING, SUM = (
    "ledger/noisy_release.py",
    "clipping/clipper.py",
    "clipping/clipped_sum.py",
)
REPORT = "engine_report.py"
BLOCKS = "clipping/groups.py"
SECURE, STREAM, SAMPLING = (
    "noise/secure.py",
    "noise/aes_stream.py",
    "sampling/sampler.py",
)

NOISE = ("noise/test_noise_law.py::test_every_parameter_gets_its_own_share[secure]",)
INDEPENDENCE = (
    "noise/test_noise_law.py::test_steps_layers_and_neighbours_are_independent[secure]",
)
SENSITIVITY = (
    "clipping/test_sensitivity.py::test_a_huge_record_moves_it_by_all_of_c[Abadi-mlp]",
)
SAMPLER = (
    "sampling/test_sampler_law.py::test_each_record_joins_each_step_by_its_own_coin[secure]",
)


@dataclass(frozen=True)
class Mutation:
    """A bug.

    Attributes:
        name: What goes wrong.
        edits: (file of ``dpsgd_explorer/dp``, what stands there once, what instead).
        tests: Files or tests of ``tests/dp`` that must fail.
    """

    name: str
    edits: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...]


def bug(name, file, old, new, tests):
    return Mutation(name, ((file, old, new),), tests)


SCALE = "scale = MARGIN * math.sqrt(2) * standard_deviation"
DEVIATION = "noise_plan.standard_deviation_at(step)"
ALL_LAYERS = "return dict.fromkeys(blocks[0], function(norms, bound))"
WHILE = "        while self.position < self.steps:\n"
NEXT_BATCH = WHILE + "            indices = self.draw()\n"
SHUFFLED = (
    WHILE
    + """\
            size = round(self.sample_size * self.sample_rate)
            start = self.position * size % self.sample_size
            if start == 0:
                self._order = self._uniforms(self.sample_size).argsort()
            indices = self._order[start : start + size].sort().values
"""
)
FIXED = (
    WHILE
    + """\
            size = round(self.sample_size * self.sample_rate)
            start = self.position * size % self.sample_size
            indices = torch.arange(start, start + size)
"""
)

PLANTED = [
    bug("noise x 0.9", SECURE, SCALE, f"{SCALE} * 0.9", NOISE),
    bug("noise x 0.8", SECURE, SCALE, f"{SCALE} * 0.8", NOISE),
    bug("noise / sqrt 2", SECURE, SCALE, f"{SCALE} / math.sqrt(2)", NOISE),
    bug("noise / 2", SECURE, SCALE, f"{SCALE} / 2", NOISE),
    bug(
        "noise / sqrt B",
        RELEASE,
        DEVIATION,
        f"{DEVIATION} / noise_plan.divisor**0.5",
        NOISE,
    ),
    bug("noise / B", RELEASE, DEVIATION, f"{DEVIATION} / noise_plan.divisor", NOISE),
    bug("no noise", RELEASE, "meter if noise_plan.is_private else None", "None", NOISE),
    bug(
        "clipped at 2 C",
        CLIPPING,
        "bound = self.bounds[0]",
        "bound = 2 * self.bounds[0]",
        SENSITIVITY,
    ),
    bug(
        "not clipped",
        CLIPPING,
        ALL_LAYERS,
        "return dict.fromkeys(blocks[0], torch.ones_like(norms))",
        SENSITIVITY,
    ),
    bug("shuffled epochs", SAMPLING, NEXT_BATCH, SHUFFLED, SAMPLER),
    bug("fixed batches", SAMPLING, NEXT_BATCH, FIXED, SAMPLER),
    bug(
        "the same noise at each step",
        SECURE,
        "self._stream.fill(scratch.bits)",
        "scratch.bits.bool().any() or self._stream.fill(scratch.bits)",
        INDEPENDENCE,
    ),
    bug(
        "one draw for all coordinates",
        SECURE,
        "values.view_as(waves).addcmul_(radii, waves, value=scale)",
        "values.add_(radii[0] * waves[0, 0], alpha=scale)",
        ("noise/test_secure.py::test_a_million_numbers_have_the_law",),
    ),
]

OTHERS = [
    bug(
        "mean before clipping",
        CLIPPING,
        ALL_LAYERS,
        ALL_LAYERS.replace("(norms,", "(norms.mean().expand_as(norms),"),
        SENSITIVITY,
    ),
    Mutation(
        "each layer clipped with all of C",
        (
            (
                BLOCKS,
                "return [list(names)]",
                "return [[name] for name in names]",
            ),
            (
                CLIPPING,
                "bound = max_grad_norm / math.sqrt(count)",
                "bound = max_grad_norm",
            ),
        ),
        SENSITIVITY,
    ),
    bug(
        "delta returned for epsilon",
        REPORT,
        "return self.odometer().epsilon(self._delta(delta), plan.accountant)",
        "return self._delta(delta)",
        ("engines/test_code_between_layers.py::test_epsilon_is_epsilon",),
    ),
    bug(
        "the sum not cleared between steps",
        "logical_batch.py",
        "            self.total.reset()\n            self._backward_ran = True",
        "            self._backward_ran = True",
        (
            "clipping/test_sensitivity.py::test_a_step_leaves_nothing_behind_for_the_next",
        ),
    ),
    bug(
        "dropout off while training",
        "attachment.py",
        "        self._gradient_engine.start()\n",
        "        self._gradient_engine.start()\n        module.eval()\n",
        ("engines/test_code_between_layers.py::test_dropout_stays_on_while_training",),
    ),
    bug(
        "momentum made of gradients without noise",
        "attachment.py",
        "parameter.grad = gradient\n",
        "parameter.grad = gradient * 0.0\n",
        ("noise/test_noise_law.py::test_momentum_is_made_of_noisy_gradients",),
    ),
    bug(
        "noise drawn twice",
        SUM,
        "noise.add_to(piece, standard_deviation)",
        "[noise.add_to(piece, standard_deviation) for _ in range(2)]",
        NOISE,
    ),
    bug(
        "divided by the batch as drawn",
        RELEASE,
        "        noise_plan.divisor,\n    )",
        "        float(total.size),\n    )",
        ("clipping/test_sensitivity.py::test_the_sum_is_divided_by_a_public_constant",),
    ),
    bug(
        "samples that are not finite kept",
        SUM,
        "kept = torch.isfinite(norms).nonzero()",
        "kept = torch.ones_like(norms).nonzero()",
        (
            "clipping/test_sensitivity.py::test_a_sample_left_out_leaves_the_others_alone",
        ),
    ),
    bug(
        "rate 3 % too high",
        SAMPLING,
        "        q = self.sample_rate\n",
        "        q = 1.03 * self.sample_rate\n",
        (
            *SAMPLER,
            "sampling/test_poisson_sampling.py::test_each_record_has_its_own_coin",
        ),
    ),
    bug(
        "empty batches skipped",
        SAMPLING,
        "            self.position += 1\n",
        "            self.position += 1\n            if not len(indices):\n"
        "                continue\n",
        ("sampling/test_sampler_law.py::test_empty_batches_are_steps_and_get_noise",),
    ),
    bug(
        "secure batches from a seed",
        "noise/generators.py",
        "return Generators(NOISES[noise](0), KeyStream(), None)",
        'return Generators(NOISES[noise](0), seeded_generator(0, "sampling"), None)',
        (
            "engines/test_code_between_layers.py::test_nobody_can_repeat_the_batches_of_a_secure_run",
        ),
    ),
    bug(
        "a forked child keeps the key",
        STREAM,
        "if self._process != os.getpid():",
        "if False:",
        ("noise/test_secure.py::test_a_forked_child_draws_other_noise",),
    ),
    bug(
        "a resumed run keeps the key",
        STREAM,
        '        """Take a fresh key, so that no bit is used twice."""\n'
        "        self._take_key()",
        '        """Take no fresh key."""',
        (
            "noise/test_secure.py::test_a_state_holds_nothing_and_a_resume_takes_a_fresh_key",
        ),
    ),
    bug(
        "the release shows the sum's low bits",
        SECURE,
        "            round_to_grid(piece, standard_deviation)\n",
        "",
        (
            "noise/test_secure.py::test_what_is_released_does_not_show_the_low_bits_of_the_sum",
        ),
    ),
    bug(
        "the receipt repeats what was told",
        RELEASE,
        "bound = total.clipper.max_grad_norm",
        "bound = noise_plan.max_grad_norm_at(step)",
        ("ledger/test_receipt.py::test_options_changed_once_attached_give_no_epsilon",),
    ),
    bug(
        "lost steps not counted",
        "ledger/ledger.py",
        "        self._add(release)\n        self.lost_steps",
        "        self.lost_steps",
        (
            "ledger/test_receipt.py::test_lost_steps_are_counted_where_noise_is_not_repeated",
        ),
    ),
]

MUTATIONS = {mutation.name: mutation for mutation in PLANTED + OTHERS}
