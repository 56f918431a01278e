"""Runs laid over each other, and the front of all, as a hand and a keyboard use them.

The runs are stored and not trained: what a page does with a log is what is tested.
"""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.site.test_pages import in_both_themes, too_narrow
from tests.browser.trainer import SHORT, focus
from tests.stored_runs import cookie_of, store_runs

VISITOR = "who-has-thirty-runs"
SEEDS = [{"seed": seed} for seed in (1, 2, 3)]
FIVE = [*SEEDS, {"learning_rate": 2.0}, {"private": False}]
THIRTY = [
    *FIVE,
    {"until": 12, "state": "cancelled"},
    {"until": 4, "state": "failed", "noise_multiplier": 1.0},
    *({"noise_multiplier": 0.6 + i / 4, "seed": i} for i in range(23)),
]


@pytest.fixture(scope="module")
def ids(address, instance_folders):
    """Ids of thirty runs of one visitor."""
    return store_runs(instance_folders[address], VISITOR, THIRTY)


@pytest.fixture
def become(visit, address, instance_folders, open_page):
    """Be some visitor from now on; ``open_page`` has forgotten the one before."""

    def become(visitor):
        name, value = cookie_of(instance_folders[address], visitor)
        visit.add_cookies([{"name": name, "value": value, "url": address}])

    return become


@pytest.fixture
def open_stocked(open_page, become, ids):
    """Open a page as the visitor whose runs they are."""
    become(VISITOR)
    return open_page


def lit(page):
    """Return the letters that are lit, by where."""
    shown = page.locator(".run-key .lit .letter").all_inner_texts()
    heads = page.locator(".differs thead .lit .letter").all_inner_texts()
    ends = page.locator("[data-overlay] svg text.private").all_text_contents()
    return {*shown, *heads, *(text.split()[0] for text in ends)}


def test_runs_are_chosen_in_the_list_compared_and_one_is_lit_everywhere(
    open_stocked,
):
    page = open_stocked("/runs/?sort=date&order=asc")
    boxes = page.get_by_role("checkbox", name=re.compile("^Compare "))
    for i in range(5):
        focus(boxes.nth(i))
        page.keyboard.press("Space")
    focus(page.get_by_role("button", name="Compare 5 runs"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/runs/compare\?ids=[\w,-]+$"))
    for chart in ("accuracy", "loss", "clipped"):
        lines = page.locator(f'[data-chart="{chart}"] path.line')
        # Without privacy there is no ε, and no gradient is clipped.
        expect(lines).to_have_count(4)
    expect(page.locator('[data-chart="accuracy"] [data-absent]')).to_contain_text("E:")
    expect(page.locator(".f-band")).to_have_count(3)
    for letter in "DB":
        focus(page.locator(f'[data-light="{letter}"]'))
        expect(page.locator(".differs thead .lit")).to_contain_text(letter)
        assert lit(page) == {letter}
    focus(page.get_by_label("step", exact=True))
    page.keyboard.press("Space")
    expect(page.locator('[data-chart="accuracy"] path.line')).to_have_count(5)
    focus(page.get_by_label(re.compile("^Read at")))
    page.keyboard.press("Home")
    expect(page.locator("[data-read-row]")).to_have_text(re.compile(r"^step \d+$"))
    expect(page.locator(".cursor")).to_have_count(3)


@pytest.mark.long("more journeys")
def test_five_runs_are_compared_by_keyboard_on_a_telephone(open_stocked, ids, axe):
    ids = ",".join(ids[:5])
    page = open_stocked(f"/runs/compare?ids={ids}", size=(390, 844))
    accuracy = page.locator('[data-chart="accuracy"]')
    expect(accuracy.locator("path.line")).to_have_count(4)
    focus(accuracy.get_by_role("button", name="Show as table"))
    page.keyboard.press("Enter")
    expect(accuracy.locator("tbody tr").first).to_be_visible()
    focus(page.get_by_role("button", name="Pin B on Train"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Pin B on Train")).to_have_attribute(
        "aria-pressed", "true"
    )
    assert too_narrow(page) == []
    page.locator("summary").first.click()
    assert in_both_themes(page, axe) == []
    page.get_by_role("button", name="Pin B on Train").click()
    focus(page.get_by_role("link", name="Take A away"))
    page.keyboard.press("Enter")
    expect(page.locator(".run-key li")).to_have_count(4)
    page.go_back()
    expect(page.locator(".run-key li")).to_have_count(5)
    expect(page.locator('[data-chart="loss"] path.line')).to_have_count(4)


@pytest.mark.long("more journeys")
def test_a_pointer_lights_the_run_that_it_is_at(open_stocked, ids):
    page = open_stocked(f"/runs/compare?ids={','.join(ids[:4])}")
    box = page.locator('[data-chart="accuracy"] svg')
    expect(box.locator("path.line")).to_have_count(4)
    size = box.bounding_box()
    box.hover(position={"x": size["width"] / 2, "y": size["height"] - 60})
    expect(page.locator(".differs thead .lit")).to_contain_text("D")  # the lowest
    expect(page.locator(".cursor")).to_have_count(3)
    page.locator("h1").hover()
    expect(page.locator(".cursor")).to_have_count(0)


@pytest.mark.long("more journeys")
def test_a_stranger_sees_the_comparison_of_a_link(open_page, ids):
    path = f"/runs/compare?ids={ids[0]},{ids[3]}"
    page = open_page(path, new_visitor=True)
    expect(page.locator('[data-chart="accuracy"] path.line')).to_have_count(2)
    page.get_by_role("link", name="Accuracy against ε").click()
    expect(page.locator(".run-dot:visible")).to_have_count(2)


@pytest.mark.long("more journeys")
def test_without_script_the_table_comes_first(open_page, ids):
    path = f"/runs/compare?ids={','.join(ids[:5])}"
    page = open_page(path, java_script_enabled=False)
    expect(page.locator(".differs thead")).to_be_visible()
    expect(page.locator("[data-overlay]")).to_be_hidden()
    expect(page.get_by_text("Accuracy at the end")).to_be_hidden()


@pytest.mark.long("more journeys")
@pytest.mark.parametrize("width", [390, 1280])
def test_thirty_runs_are_a_front_that_a_keyboard_replays(open_stocked, ids, axe, width):
    page = open_stocked("/runs/pareto", size=(width, 844))
    dots = page.locator(".run-dot:visible")
    expect(dots).to_have_count(29)
    expect(page.locator(".callout")).to_contain_text("All 30 were looked at")
    focus(dots.first)
    words = page.locator("[data-dot-words]")
    page.keyboard.press("ArrowRight")
    expect(dots.nth(1)).to_be_focused()
    expect(words).to_contain_text(" on the front")
    page.keyboard.press("End")
    expect(dots.nth(28)).to_be_focused()
    page.keyboard.press("Home")
    name = dots.first.get_attribute("aria-label")
    assert in_both_themes(page, axe) == []
    page.locator(".table-toggle summary").click()
    assert too_narrow(page) == []
    page.set_viewport_size({"width": width, "height": 844})
    focus(dots.first)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#replay$"))
    assert name.startswith(page.locator("h1").inner_text())
    expect(page.locator('[data-status="state"]')).to_have_text("Finished")


@pytest.mark.long("more journeys")
def test_thirty_runs_are_searched_sorted_and_ticked_across(open_stocked, ids, axe):
    page = open_stocked("/runs/")
    rows = page.locator("[data-run]")
    expect(rows).to_have_count(30)
    page.locator(f"[data-run='{ids[22]}']").get_by_role("checkbox").check()
    focus(page.get_by_label("Search names, notes and settings"))
    page.keyboard.type("seed 2")
    expect(rows).to_have_count(2)
    expect(page).to_have_url(re.compile(r"\?q=seed\+2$"))
    page.get_by_role("checkbox", name=re.compile("^Compare ")).first.check()
    page.keyboard.press("Escape")
    page.get_by_label("Search names, notes and settings").fill("")
    expect(rows).to_have_count(30)
    focus(page.get_by_role("link", name="ε spent"))
    page.keyboard.press("Enter")
    expect(page.locator("[aria-sort]")).to_have_text(re.compile("ε spent"))
    assert in_both_themes(page, axe) + too_narrow(page) == []
    page.reload()
    expect(page.locator("[aria-sort]")).to_have_text(re.compile("ε spent"))


@pytest.mark.long("more journeys")
def test_a_deletion_is_undone_from_another_tab_or_over_in_ten_seconds(
    open_page, become, address, instance_folders
):
    store_runs(instance_folders[address], "who-deletes", [{}, {"seed": 9}])
    become("who-deletes")
    page, other = open_page("/runs/"), open_page("/runs/")
    rows = page.locator("[data-run]")
    page.get_by_role("button", name=re.compile("^Delete .* seed 9")).click()
    expect(rows).to_have_count(1)
    other.reload()
    expect(other.locator("[data-run]")).to_have_count(1)
    other.get_by_role("button", name=re.compile("^Undo")).click()
    expect(other.locator("[data-run]")).to_have_count(2)
    page.reload()
    expect(rows).to_have_count(2)
    page.get_by_role("button", name=re.compile("^Delete .* seed 9")).click()
    expect(page.locator("[data-undo]")).to_have_count(1)
    expect(page.locator("[data-undo]")).to_have_count(0)
    expect(page.locator("h1")).to_be_focused()
    page.reload()
    expect(rows).to_have_count(1)


@pytest.mark.long("more journeys")
def test_a_run_streams_into_the_comparison_until_its_end(open_page, address, ids):
    watcher = open_page("/runs/")
    run = watcher.request.post(f"{address}/api/v1/runs", data=SHORT).json()
    watcher.goto(f"{address}/runs/compare?ids={ids[0]},{run['id']}")
    cells = watcher.locator('[data-of="B"]')
    expect(watcher.locator('[data-chart="loss"] path.line')).to_have_count(2)
    expect(cells.and_(watcher.locator('[data-out="state"]'))).to_have_text("Finished")
    expect(cells.and_(watcher.locator('[data-out="epsilon"]'))).to_have_text("1.00")
    expect(watcher.locator("[data-heading]")).to_contain_text("ends highest")


@pytest.mark.long("more journeys")
def test_charts_of_both_pages_are_saved_as_pictures_that_name_their_runs(
    open_stocked, ids, tmp_path
):
    def saved(page, place, kind):
        with page.expect_download() as download:
            place.get_by_role("button", name=kind, exact=True).click()
        file = tmp_path / download.value.suggested_filename
        download.value.save_as(file)
        return file

    page = open_stocked(f"/runs/compare?ids={ids[0]},{ids[3]}")
    for chart in ("accuracy", "loss", "clipped"):
        place = page.locator(f'[data-chart="{chart}"]')
        expect(place.locator("path.line")).to_have_count(2)
        svg = saved(page, place, "SVG")
        assert svg.name == f"compare-{chart}.svg"
        text = svg.read_text()
        assert "class=" not in text  # its colours are written out
        assert "A: " in text
        assert "B: " in text
        assert ("not private" in text) == (chart == "clipped")
        assert saved(page, place, "PNG").read_bytes()[:4] == b"\x89PNG"
    for size in ((1280, 844), (390, 844)):
        page = open_stocked("/runs/pareto", size=size)
        place = page.locator("figure[data-front]").first
        svg = saved(page, place, "SVG")
        assert svg.name == "accuracy-against-epsilon-adult-income.svg"
        text = svg.read_text()
        assert "href=" not in text
        assert "each ε covers one run" in text
        assert text.count("<circle") > 30
        assert saved(page, place, "PNG").read_bytes()[:4] == b"\x89PNG"
