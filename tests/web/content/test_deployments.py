"""What deployed systems state, and what is made of it."""

import re
from pathlib import Path

import pytest

from dpsgd_explorer.web.content.references import SOURCES
from dpsgd_explorer.web.hub.chapters.in_the_real_world import deployments
from dpsgd_explorer.web.hub.chapters.in_the_real_world.deployments import (
    DEPLOYMENTS,
    LIBRARIES,
)

CHAPTER = Path(__file__).parents[3] / "templates/learn/in-the-real-world.html"


@pytest.mark.parametrize("row", DEPLOYMENTS, ids=lambda row: row.source)
def test_a_system_has_a_source_and_each_cell(row):
    cited = re.search(r"cite\((.*?)\)", CHAPTER.read_text(encoding="utf-8"))[1]
    assert f'"{row.source}"' in cited
    assert all(len(cell.split()) >= 2 for cell in row.cells)
    assert re.search(r"[ερ]", row.stated)
    years = [int(year) for year in re.findall(r"\((20\d\d)\)", row.name)]
    assert all(abs(year - SOURCES[row.source].year) <= 1 for year in years)


def test_a_stated_rho_becomes_the_epsilon_that_its_systems_state():
    """The keyboard's first model states ρ = 0.81 and ε = 8.9 at δ = 1e-10."""
    assert float(deployments.epsilon_of_rho(0.81)) == pytest.approx(8.9, abs=0.05)
    [census] = [row for row in DEPLOYMENTS if row.source == "abowd"]
    assert float(deployments.epsilon_of_rho(census.rhos[0])) == pytest.approx(
        17.14, abs=0.05
    )
    assert deployments.epsilon_of_rho(census.rhos[0]) in census.cells[2]


def test_every_library_says_what_it_does_not_do():
    assert len({name for name, _, _ in LIBRARIES}) == len(LIBRARIES)
    assert all(does and lacks for _, does, lacks in LIBRARIES)
