"""The tutorial for teachers names controls that the pages have."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "tutorials" / "teach-a-class.md"
NAMES = re.findall(r"\*\*(.+?)\*\*", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_each_name_of_the_tutorial_is_on_a_page(open_page, finished_run):
    texts = []

    def read(page):
        texts.append(re.sub(r"\s+", " ", page.locator("body").text_content()))

    for path in ("/teach/?for=trainer", "/teach/dp-concepts/"):
        read(open_page(path))
    read(open_page(f"/runs/{finished_run['id']}/"))
    teacher = open_page("/classes/")
    read(teacher)
    teacher.get_by_label("Name", exact=True).fill("Statistics")
    teacher.get_by_role("button", name="Create the class").click()
    link = teacher.get_by_label("Link for students").input_value()
    read(teacher)
    student = open_page(link[link.index("/class/") :], new_visitor=True)
    read(student)
    student.get_by_role("button", name="Join").click()
    student.get_by_role("link", name="Launch for this class").wait_for()
    read(student)
    student.get_by_role("link", name="Launch for this class").click()
    student.get_by_role("button", name="Predict the end first").wait_for()
    read(student)
    shown = " ".join(texts)
    assert len(NAMES) > 30
    assert [n for n in NAMES if " ".join(n.split()) not in shown and n != "bold"] == []
