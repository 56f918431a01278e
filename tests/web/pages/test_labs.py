"""The list of labs."""

from dpsgd_explorer.web.pages.labs import LABS
from tests.web.reading import Page


def test_the_list_leads_to_every_lab_and_the_header_to_the_list(reading):
    text = reading.get("/labs/").text
    links = [a["href"] for a in Page(text).all("a")]
    for lab, card in zip(LABS, text.split('class="thumb"')[1:], strict=True):
        assert lab.title in card
        drawn = card[: card.index("</svg>")].count("<path")
        assert drawn >= 2  # from the data of the lab
    assert "/labs/linear-regression/" in links
    assert links.count("/labs/") == 2  # header and footer
    for link in set(links) - {"#main"}:
        assert reading.get(link, buffered=True).status_code == 200, link
