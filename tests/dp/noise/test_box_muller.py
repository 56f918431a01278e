"""Normal numbers from given bits, by torch and compiled."""

import math
import re

import numpy as np
import pytest
import torch

from dpsgd_explorer.dp.backends import box_muller
from dpsgd_explorer.dp.backends.box_muller import add_products, rounds_once
from dpsgd_explorer.dp.backends.native import box_muller as compiled
from dpsgd_explorer.dp.noise.secure import GRID_RATIO, SecureNoise, grid_shift
from tests.dp.c_sources import compiled_with_fault
from tests.dp.noise.transforms import NAMES, transforms
from tools.compile_noise import ROOT
from tools.fit_box_muller import constants, fits, written

SOURCE = "dpsgd_explorer/dp/backends/native/box_muller.c"
EITHER = pytest.mark.parametrize("name", NAMES)
QUARTERS = [0, 1, -1, 2**29, 2**29 - 1, -(2**29), 2**30, -(2**30), 2**31 - 1, -(2**31)]
EXTREMES = [0, 1, 2**31, 2**61, 2**62, round(2**62 * math.sqrt(2)), 2**63 - 1, -1]
LOW = 2**31 - 1


def bits_of(radius_bits, angle_bits):
    """Return uint8 [12 n]: the bits as a key stream brings them."""
    parts = np.array(radius_bits, np.int64), np.array(angle_bits, np.int32)
    return torch.tensor(np.frombuffer(b"".join(p.tobytes() for p in parts), np.uint8))


def pairs_of(add_normals, radius_bits, angle_bits):
    """Return float64 [2, n], the normal numbers that are made of these bits."""
    values = torch.zeros(2 * len(radius_bits))
    add_normals(values, bits_of(radius_bits, angle_bits), math.sqrt(2), 0.0)
    return values.double().view(2, -1).numpy()


def random_bits(count):
    generator = np.random.default_rng(0)
    return (
        generator.integers(-(2**63), 2**63 - 1, count),
        generator.integers(-(2**31), 2**31 - 1, count),
    )


def logarithms(name, radius_bits):
    """Return ln U, long double."""
    words = np.array(radius_bits, np.int64)
    if name == "torch":
        return np.log(np.abs(words.astype(np.longdouble)) / np.longdouble(2) ** 63)
    bits = (words >> 32 & LOW) * 2**31 + (words & LOW)
    below, above = (
        (one.astype(np.longdouble) + 0.5) / np.longdouble(2) ** 62
        for one in (bits, 2**62 - 1 - bits)
    )
    return np.where(below < 0.5, np.log(below), np.log1p(-above))


def expected_pairs(name, radius_bits, angle_bits):
    angles = np.array(angle_bits, np.longdouble) * (np.longdouble(np.pi) / 2**31)
    waves = np.stack([np.cos(angles), np.sin(angles)])
    return np.sqrt(-2 * logarithms(name, radius_bits)) * waves


@EITHER
def test_they_agree_with_the_formula(name):
    bits = random_bits(10_000)
    drawn = pairs_of(transforms()[name], *bits)
    np.testing.assert_allclose(
        drawn, expected_pairs(name, *bits).astype(float), atol=GRID_RATIO / 8
    )


def is_exact(add_normals):
    """Whether each number is exact to 2^-21 of itself, extreme bits included."""
    radius_bits, angle_bits = random_bits(200_000)
    radius_bits = np.r_[radius_bits, np.repeat(EXTREMES, len(QUARTERS))]
    angle_bits = np.r_[angle_bits, np.tile(QUARTERS, len(EXTREMES))]
    expected = expected_pairs("compiled", radius_bits, angle_bits)
    errors = np.abs(pairs_of(add_normals, radius_bits, angle_bits) - expected)
    # A cosine of 0 is one of the rounded pi; here it is exactly 0.
    tiny = 2.0**-40 * np.sqrt(-2 * logarithms("compiled", radius_bits))
    return bool((errors <= np.maximum(2.0**-21 * np.abs(expected), tiny)).all())


def test_compiled_numbers_are_exact_to_two_millionths_of_a_percent():
    assert is_exact(transforms()["compiled"])


@EITHER
def test_tails_reach_beyond_eight_standard_deviations(name):
    unit = {"compiled": 2**62, "torch": 2**63}[name]
    beyond_eight = round(unit * math.exp(-32))
    least = {"compiled": 0, "torch": 1}[name]
    cosines, _ = pairs_of(
        transforms()[name], [beyond_eight, least, least + 1, -1], [0, 0, 0, 0]
    )
    assert cosines[0] == pytest.approx(8.0, abs=1e-5)
    assert cosines[1] == pytest.approx(math.sqrt(126 * math.log(2)))
    assert 9.2 < cosines[2] < cosines[1]
    # All bits set: the least negative number for torch, the greatest U compiled.
    assert cosines[3] == pytest.approx(
        {"compiled": math.sqrt(2 * 2.0**-63), "torch": cosines[1]}[name]
    )


@EITHER
def test_at_eight_standard_deviations_radii_are_as_dense_as_the_grid(name):
    unit = {"compiled": 2**62, "torch": 2**63}[name]
    start = round(unit * math.exp(-32))
    cosines, _ = pairs_of(
        transforms()[name], list(range(start, start + 1000)), [0] * 1000
    )
    assert 0 < np.abs(np.diff(cosines)).max() < GRID_RATIO / 80


@pytest.mark.parametrize("size", [2, 7, 66, 1001])
@pytest.mark.parametrize("fused", {False, rounds_once("cpu")})
def test_a_product_is_added_before_it_is_rounded(size, fused, monkeypatch):
    monkeypatch.setattr(box_muller, "rounds_once", lambda device: fused)
    torch.manual_seed(0)
    half = (size + 1) // 2
    radii, waves = torch.randn(half), torch.randn(2, half)
    products = (0.5 * radii.double() * waves).view(-1)[:size]
    values = -products.float()  # what is left is what rounding would have lost
    expected = (values.double() + products).float()
    add_products(values, radii, waves, 0.5)
    assert torch.equal(values, expected)
    assert values.count_nonzero() > size / 2


def rounds_a_sum_once(add_normals, size):
    """Whether what is added is one product of 48 bits, whatever it is added to."""
    bits = bits_of(*random_bits((size + 1) // 2))

    def added_to(values):
        sums = values.clone()
        add_normals(sums, bits, 1.0, 0.0)
        return sums

    rounded = added_to(torch.zeros(size))
    lost = added_to(-rounded)
    product = rounded.double() + lost.double()
    torch.manual_seed(0)
    base = torch.randn(size) * 100
    return (
        bool(lost.count_nonzero() > size / 2)
        and bool((lost.abs() <= rounded.abs() * 2.0**-24).all())
        and torch.equal(added_to(base), (base.double() + product).float())
    )


@pytest.mark.parametrize("size", [2, 7, 66, 1001])
def test_a_compiled_product_is_added_before_it_is_rounded(size):
    assert rounds_a_sum_once(transforms()["compiled"], size)


def keeps_to_the_grid(add_normals):
    """Whether all results are whole steps of the grid, of hundreds of unlike steps."""
    values = torch.linspace(-3, 3, 2001)
    add_normals(values, bits_of(*random_bits(1001)), 1.0, grid_shift(1.0, values.dtype))
    steps = values.double() / GRID_RATIO
    return torch.equal(steps, steps.round()) and len(steps.unique()) > 1000


@EITHER
def test_results_are_on_the_grid(name):
    assert keeps_to_the_grid(transforms()[name])


def divides(add_normals, size):
    """Whether all are divided, to the bit, and measured as they were before."""
    torch.manual_seed(size)
    values = torch.randn(size)
    before, undivided = values.clone(), values.clone()
    bits = bits_of(*random_bits((size + 1) // 2))
    shift = grid_shift(1.0, values.dtype)
    square = add_normals(values, bits, 1.0, shift, 97.0)
    add_normals(undivided, bits, 1.0, shift)
    exact = before.double().square().sum().item()
    return torch.equal(values, undivided / 97.0) and math.isclose(
        square, exact, rel_tol=1e-5
    )


@EITHER
@pytest.mark.parametrize("size", [1, 2, 67, 1001])
def test_a_sum_is_measured_noised_and_divided(name, size):
    assert divides(transforms()[name], size)


def ends_alike(add_normals):
    """Whether the last of an odd count is the same number as of an even one."""
    bits, even, odd = bits_of(*random_bits(2)), torch.zeros(4), torch.zeros(3)
    add_normals(even, bits, 1.7, 0.0)
    add_normals(odd, bits, 1.7, 0.0)
    return torch.equal(odd, even[:3])


@EITHER
def test_the_last_of_an_odd_count_is_a_number_like_the_others(name):
    assert ends_alike(transforms()[name])


@EITHER
@pytest.mark.parametrize("size", [1, 2, 3, 16, 31, 4097])
def test_nothing_is_written_beside_the_values(name, size):
    room = torch.zeros(size + 64)
    bits = bits_of(*random_bits((size + 1) // 2))
    transforms()[name](room[32:-32], bits, 1.0, 0.0)
    assert room[:32].count_nonzero() == room[-32:].count_nonzero() == 0
    assert room.count_nonzero() == size


def test_its_constants_are_those_that_the_fit_prints():
    source = (ROOT / SOURCE).read_text(encoding="utf-8")
    found = {
        name: re.findall(r"-?0x[\d.a-f]+p-?\d+f", text)
        for name, text in re.findall(r"static const float (\w+)\S* = ([^;]+);", source)
    }
    assert found == {name: [*map(written, v)] for name, v in constants().items()}
    assert all(fit.error < 1 / 7 for fit in fits().values())


FAULTS = {
    "the grid is left out": ("return (value + shift) - shift;", "return value;"),
    "a product is rounded": ("fmaf(r, w.sine, second[i])", "r * w.sine + second[i]"),
    "the scale is left out": (
        "radius(radius_bits[i]) * scale",
        "radius(radius_bits[i])",
    ),
    "a sign is lost": ("? cosine : sine) ^ sine_sign", "? cosine : sine)"),
    "cosines only": ("fmaf(r, w.sine, second[i])", "fmaf(r, w.cosine, second[i])"),
    "few bits": ("low = (int32_t)bits & MAX_INT32", "low = 0"),
    "a coefficient": ("-0x1.000226p-2f", "-0x1.010226p-2f"),
    "U near 1 is rounded": ("? -least : f", "? f : f"),
    "sines are not divided": (
        "second[i] = on_grid(fmaf(r, w.sine, second[i]), shift) / divisor",
        "second[i] = on_grid(fmaf(r, w.sine, second[i]), shift)",
    ),
    "the last is not divided": ("on_grid(sum, shift) / divisor", "on_grid(sum, shift)"),
    "the scale of the last": (
        "radius(radius_bits[pairs]) * scale",
        "radius(radius_bits[pairs])",
    ),
    "a half is measured": (" + second[i] * second[i]", ""),
    "the last is not measured": ("square += first[pairs] * first[pairs]", ""),
}


@pytest.mark.long("mutation of every rule")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_source_is_seen(fault, tmp_path):
    add_normals = compiled_with_fault(tmp_path, compiled, SOURCE, FAULTS[fault])
    checks = (
        is_exact,
        keeps_to_the_grid,
        lambda add: rounds_a_sum_once(add, 66),
        lambda add: divides(add, 3),
        ends_alike,
    )
    assert not all(check(add_normals) for check in checks)


def test_without_a_compiled_file_torch_draws(monkeypatch, tmp_path):
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    compiled.installed.cache_clear()
    try:
        assert compiled.installed() is None
        values = torch.zeros(1001)
        SecureNoise().add_to(values, 1.0)
        assert values.count_nonzero() > 990
    finally:
        compiled.installed.cache_clear()


@pytest.mark.parametrize(
    "values",
    [torch.zeros(4, dtype=torch.float64), torch.zeros(8)[::2]],
    ids=["float64", "strided"],
)
def test_what_it_cannot_take_is_left_to_torch(values):
    assert compiled.is_supported(torch.zeros(4))
    assert not compiled.is_supported(values)
    SecureNoise().add_to(values, 1.0)
    assert values.count_nonzero() > 0
