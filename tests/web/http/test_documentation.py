"""The built documentation: served where it is, and no link to it where it is not."""

import pytest

from dpsgd_explorer.web.http import assets
from dpsgd_explorer.web.http.headers import SECURITY_HEADERS

LINK = '<a href="/docs/">Documentation</a>'
INDEX = "<!doctype html><title>Index</title>" + "<p>private training</p>" * 100


@pytest.fixture
def built(tmp_path, monkeypatch):
    """A folder of built pages, with a file that is nobody's business above it."""
    folder = tmp_path / "built_docs"
    (folder / "start").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX)
    (folder / "start" / "installation.html").write_text("<title>Installation</title>")
    (folder / "search.js").write_text("const index = [];")
    (folder / ".buildinfo").write_text("not for others")
    (tmp_path / "secret.txt").write_text("secret")
    monkeypatch.setattr(assets, "DOCUMENTATION_DIR", folder)
    return folder


@pytest.fixture
def client(built, make_app):
    return make_app().test_client()


def test_pages_are_served_under_the_policy_of_the_site(client):
    answers = {
        "/docs/": ("text/html", INDEX),
        "/docs/start/installation.html": ("text/html", "<title>Installation</title>"),
        "/docs/search.js": ("text/javascript", "const index = [];"),
    }
    for address, (kind, text) in answers.items():
        answer = client.get(address, buffered=True)
        assert (answer.status_code, answer.mimetype) == (200, kind)
        assert answer.text == text
        for name, value in SECURITY_HEADERS.items():
            assert answer.headers.getlist(name) == [value]


def test_a_browser_asks_whether_a_page_has_changed(client):
    first = client.get("/docs/", headers={"Accept-Encoding": "br"}, buffered=True)
    assert first.headers["Content-Encoding"] == "br"
    assert first.headers["Cache-Control"] == "max-age=0, public"
    seen = {"If-None-Match": first.headers["ETag"], "Accept-Encoding": "br"}
    assert client.get("/docs/", headers=seen, buffered=True).status_code == 304


@pytest.mark.parametrize(
    ("address", "to"), [("/docs", "docs/"), ("/docs/index.html", "./")]
)
def test_other_addresses_of_the_index_lead_to_it(client, address, to):
    answer = client.get(address, buffered=True)
    assert (answer.status_code, answer.headers["Location"]) == (302, to)
    for name, value in SECURITY_HEADERS.items():
        assert answer.headers.getlist(name) == [value]


@pytest.mark.parametrize(
    "path",
    [
        "gone.html",
        "start/",
        "start",
        ".buildinfo",
        "../secret.txt",
        "%2e%2e/secret.txt",
        "..%2fsecret.txt",
        "start/../../secret.txt",
        "//etc/passwd",
        "index.html.br",
    ],
)
def test_nothing_else_is_served(client, path):
    answer = client.get(f"/docs/{path}", buffered=True)
    assert answer.status_code == 404
    assert "secret" not in answer.text


def test_pages_cannot_be_changed(client):
    assert client.post("/docs/", data="x", buffered=True).status_code == 405


def test_the_footer_links_to_what_is_built(client):
    assert LINK in client.get("/about/").text


def test_where_it_is_not_built_no_link_leads_there(built, make_app):
    (built / "index.html").unlink()
    client = make_app().test_client()
    assert 'href="/docs/' not in client.get("/about/").text
    assert client.get("/docs/").status_code == 404


def test_old_pages_are_forgotten_the_current_ones_are_not(built, tmp_path):
    instance = tmp_path / "instance"
    static = tmp_path / "static"
    static.mkdir()
    (instance / "assets").mkdir(parents=True)
    names = []
    for version in range(assets.KEPT_TREES + 2):
        (built / "index.html").write_text(f"<title>{version}</title>")
        names.append(assets.publish(static, instance, built).documentation)
    kept = {path.name for path in (instance / "assets").glob("docs-*")}
    assert names[-1] in kept
    assert len(kept) == assets.KEPT_TREES
