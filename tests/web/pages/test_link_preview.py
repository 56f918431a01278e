"""What other sites show beside a link: title, sentence, and one picture."""

import re
from html import unescape

import pytest

from dpsgd_explorer.web.content.site import DESCRIPTION, NAME
from dpsgd_explorer.web.figures.exports.share_card import HEIGHT, WIDTH
from dpsgd_explorer.web.figures.exports.site_preview import site_preview

SITE = "https://dp.example.org"
PUBLIC = [
    "/",
    "/learn/",
    "/learn/short/",
    "/train/",
    "/labs/",
    "/labs/accountants/",
    "/glossary/",
]


def said(page):
    """Return what a page says of itself, by property."""
    metas = re.findall(r'<meta (?:property|name)="([^"]+)" content="([^"]*)">', page)
    return {name: unescape(content) for name, content in metas}


@pytest.fixture
def reader(make_app):
    return make_app(public_url=SITE).test_client()


@pytest.mark.parametrize("path", PUBLIC)
def test_a_page_says_its_title_and_sentence_once_for_all(client, path):
    page = client.get(path).text
    about = said(page)
    [title] = re.findall(r"<title>(.*?)</title>", page)
    assert about["og:title"] == unescape(title)
    assert about["og:description"] == about["description"] != ""
    assert not [name for name in about if "image" in name or name == "og:url"]


@pytest.mark.parametrize("path", PUBLIC)
def test_absolute_addresses_are_of_the_configured_site_alone(reader, path):
    answer = reader.get(f"{path}?steps=5", headers={"Host": "127.0.0.1"})
    about = said(answer.text)
    assert about["og:url"] == SITE + path
    assert about["og:image"].startswith(f"{SITE}/static/")
    assert about["twitter:card"] == "summary_large_image"
    assert "127.0.0.1" not in str(about)


def test_the_picture_is_there_and_has_the_size_of_a_card(reader):
    address = said(reader.get("/").text)["og:image"].removeprefix(SITE)
    answer = reader.get(address, buffered=True)
    assert (answer.status_code, answer.mimetype) == (200, "image/png")
    assert answer.data.startswith(b"\x89PNG\r\n\x1a\n")
    size = [int.from_bytes(answer.data[i : i + 4]) for i in (16, 20)]
    assert size == [WIDTH, HEIGHT]


def test_what_is_drawn_says_what_the_site_does():
    assert f">{NAME}</text>" in site_preview(NAME, DESCRIPTION)
    assert f">{DESCRIPTION}</text>" in site_preview(NAME, DESCRIPTION)


def test_a_name_that_a_visitor_gave_stays_text(client):
    run = client.post("/api/v1/runs", json={"dataset": "adult", "model": "logistic"})
    name = '"><script>alert(1)</script>'
    client.patch(f"/api/v1/runs/{run.json['id']}", json={"name": name})
    page = client.get(f"/runs/{run.json['id']}/").text
    assert "<script>alert" not in page
    assert name in said(page)["og:title"]
