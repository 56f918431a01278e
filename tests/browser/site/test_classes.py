"""A class: made by a teacher, joined by students, drawn on one chart as it trains."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import TINY
from tests.browser.trainer import REFUSED, is_too_wide, run_button, violations
from tests.conftest import PATIENCE_MS

SETUP = "/train/?" + "&".join(f"{name}={value}" for name, value in TINY.items())
BOTH_MS = 2 * PATIENCE_MS  # the runs follow each other


def curves(page):
    """Return the lines of the chart that have points, whether lit or not."""
    return page.locator("[data-plot] path.line[d^=M]")


def join(open_page, link, nickname):
    """Join as a new visitor; the page of the class."""
    page = open_page(link, new_visitor=True)
    page.get_by_label("Name that the class sees").fill(nickname)
    page.get_by_role("button", name="Join").click()
    expect(page.locator("h1")).to_have_text("Physics 101")
    return page


def launch(page, learning_rate):
    page.get_by_role("link", name="Launch for this class").click()
    expect(page.locator("[data-of-class]")).to_contain_text("Physics 101")
    page.wait_for_load_state()
    page.locator("#learning_rate").fill(learning_rate)
    expect(page).to_have_url(re.compile(rf"learning_rate={learning_rate}&.*class_id="))
    run_button(page).click()


@pytest.mark.long("more journeys")
@pytest.mark.timeout(900)  # two trainings and eight looks at a page
def test_a_teacher_sees_both_students_train_on_one_chart(open_page, axe):
    teacher = open_page("/classes/", new_visitor=True, expected=[REFUSED])
    teacher.wait_for_load_state()
    assert violations(teacher, axe) == []
    teacher.get_by_role("button", name="Create the class").click()
    expect(teacher.locator("#name-error")).to_contain_text("must not be empty")
    expect(teacher.get_by_label("Name")).to_be_focused()
    teacher.get_by_label("Name").fill("Physics 101")
    teacher.get_by_label("Settings to start from").fill(SETUP)
    teacher.keyboard.press("Enter")
    expect(teacher.locator("h1")).to_have_text("Physics 101")
    expect(teacher.get_by_text("No run yet.")).to_be_visible()
    link = teacher.get_by_label("Link for students").input_value()
    path = "/class/" + link.rpartition("/class/")[2]

    students = {name: join(open_page, path, name) for name in ("Ann", "Bob")}
    for (_, page), rate in zip(students.items(), ("2", "8"), strict=True):
        launch(page, rate)
    expect(curves(teacher)).to_have_count(2, timeout=BOTH_MS)
    rows = teacher.locator("tbody tr")
    expect(rows).to_have_count(2)
    done = rows.filter(has_text="Finished")
    expect(done).to_have_count(2, timeout=BOTH_MS)
    expect(teacher.locator("[data-conclusion]")).to_contain_text("2 runs are between")
    for column, form in ((4, r"[\d.]+"), (5, r"[\d.]+ %")):
        texts = rows.locator(f"> :nth-child({column})").all_inner_texts()
        assert all(re.fullmatch(form, text) for text in texts), texts
    expect(teacher.get_by_text("η 8")).to_be_visible()

    ann = teacher.get_by_role("button", name="Ann", exact=True)
    ann.click()
    expect(ann).to_have_attribute("aria-pressed", "true")
    expect(teacher.locator("[data-plot] text.private")).to_contain_text("Ann")
    with teacher.expect_download() as saved:
        teacher.get_by_role("link", name="CSV").click()
    table = saved.value.path().read_text("utf-8").splitlines()
    assert len(table) == 3
    assert table[0].startswith("student,number,run_id")
    for scheme in ("light", "dark"):
        teacher.emulate_media(color_scheme=scheme)
        for width in (1280, 390):
            teacher.set_viewport_size({"width": width, "height": 844})
            assert violations(teacher, axe) == [], (scheme, width)
            assert not is_too_wide(teacher)

    bob = students["Bob"]
    bob.locator("[data-of-class] a").click()
    expect(bob.locator(".class-state")).to_contain_text("you are Bob")
    bob.get_by_text("Leave the class").click()
    bob.get_by_role("button", name="Leave it").click()
    expect(bob.locator("h1")).to_have_text("Classes")
    expect(rows).to_have_count(1)
    expect(curves(teacher)).to_have_count(1)
