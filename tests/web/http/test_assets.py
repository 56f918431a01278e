"""Static files: their addresses, their caching and where they are kept."""

import gzip
import re
import stat
from pathlib import Path

import brotli
import pytest

from dpsgd_explorer.web.http import assets

STATIC = assets.FRONT_DIR / "static"


@pytest.fixture
def source(tmp_path):
    """A small tree of static files that a test may change."""
    folder = tmp_path / "static"
    (folder / "js").mkdir(parents=True)
    (folder / "js" / "main.js").write_text("export const one = 1;\n" * 100)
    (folder / "icon.svg").write_text("<svg/>")
    (folder / ".hidden").write_text("not for others")
    return folder


@pytest.fixture
def publish(source, tmp_path, shelf):
    """Publish that tree; plotly.js is there already."""
    instance = tmp_path / "instance"
    (instance / "assets").mkdir(parents=True)
    for folder in shelf.glob("plotly-*"):
        (instance / "assets" / folder.name).symlink_to(folder)
    return lambda: assets.publish(source, instance)


def url_of(app, name):
    return app.jinja_env.globals["static_url"](name)


def test_every_file_is_served_for_ever_and_compressed(app, client):
    names = [p.relative_to(STATIC).as_posix() for p in STATIC.rglob("*.css")]
    assert names
    for name in [*names, assets.PLOTLY]:
        answer = client.get(
            url_of(app, name), headers={"Accept-Encoding": "gzip"}, buffered=True
        )
        assert answer.status_code == 200
        assert "immutable" in answer.headers["Cache-Control"]
        assert "max-age=315360000" in answer.headers["Cache-Control"]
        assert answer.headers["Content-Encoding"] == "gzip"
        source = assets.plotly_bundle() if name == assets.PLOTLY else STATIC / name
        assert gzip.decompress(answer.data) == source.read_bytes()
        smallest = client.get(
            url_of(app, name), headers={"Accept-Encoding": "gzip, br"}, buffered=True
        )
        assert smallest.headers["Content-Encoding"] == "br"
        assert brotli.decompress(smallest.data) == source.read_bytes()
        assert len(smallest.data) < len(answer.data)
        plain = client.get(url_of(app, name), buffered=True)
        assert "Content-Encoding" not in plain.headers
        assert plain.data == source.read_bytes()


def test_fonts_are_served_for_ever_with_their_type(app, client):
    fonts = sorted(STATIC.rglob("*.woff2"))
    assert len(fonts) > 2
    for font in fonts:
        address = url_of(app, font.relative_to(STATIC).as_posix())
        answer = client.get(address, buffered=True)
        assert answer.status_code == 200
        assert answer.mimetype == "font/woff2"
        assert "immutable" in answer.headers["Cache-Control"]
        assert answer.data == font.read_bytes()


def test_the_fonts_of_the_style_sheet_are_those_of_the_folder():
    text = (STATIC / "css" / "fonts.css").read_text("utf-8")
    named = set(re.findall(r'url\("../fonts/([^"]+)"\)', text))
    assert named == {font.name for font in STATIC.glob("fonts/*.woff2")}
    faces = text.split("@font-face")[1:]
    served = [face for face in faces if "url(" in face]
    assert all("swap" in face and "unicode-range" in face for face in served)


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("br;q=0", None),
        ("br;q=0, gzip", "gzip"),
        ("gzip;q=0, br;q=0.1", "br"),
        ("identity", None),
        ("*", "br"),
    ],
)
def test_an_encoding_that_the_client_forbids_is_not_sent(
    app, client, accepted, encoding
):
    address = url_of(app, assets.PLOTLY)
    answer = client.get(address, headers={"Accept-Encoding": accepted}, buffered=True)
    assert answer.headers.get("Content-Encoding") == encoding


@pytest.mark.parametrize("part", ["bytes=0-0", "bytes=-1", "bytes=5-2", "bytes=x"])
def test_who_asks_for_a_part_gets_the_whole_file(app, client, part):
    address = url_of(app, "css/base.css")
    answer = client.get(address, headers={"Range": part}, buffered=True)
    assert answer.status_code == 200
    assert answer.data == (STATIC / "css/base.css").read_bytes()


def test_scripts_have_the_type_that_modules_need(app, client):
    answer = client.get(url_of(app, assets.PLOTLY), buffered=True)
    assert answer.mimetype == "text/javascript"


def test_plotly_has_an_address_of_its_own(app):
    assert re.fullmatch(
        r"/static/plotly-\d+\.\d+\.\d+/plotly\.min\.js", url_of(app, assets.PLOTLY)
    )


def test_a_changed_file_has_another_address_after_a_restart(publish, source):
    before = publish().url("js/main.js")
    assert publish().url("js/main.js") == before
    (source / "icon.svg").write_text("<svg></svg>")
    after = publish()
    assert after.url("js/main.js") != before  # modules import each other: all move
    (source / "js" / "main.js").rename(source / "js" / "other.js")
    assert publish().url("icon.svg") != after.url("icon.svg")


def test_a_file_that_is_not_there_fails_where_it_is_named(publish):
    published = publish()
    with pytest.raises(FileNotFoundError, match=r"no static file 'js/gone\.js'"):
        published.url("js/gone.js")
    with pytest.raises(FileNotFoundError):
        published.url(".hidden")


def test_nothing_is_written_twice(publish):
    shelf = publish().shelf
    before = {path: path.stat().st_mtime_ns for path in shelf.rglob("*")}
    publish()
    assert {path: path.stat().st_mtime_ns for path in shelf.rglob("*")} == before


def test_old_trees_are_forgotten_the_current_one_is_not(publish, source):
    first = publish()
    for version in range(assets.KEPT_TREES + 2):
        (source / "icon.svg").write_text(f"<svg>{version}</svg>")
        last = publish()
    kept = {path.name for path in last.shelf.iterdir()}
    assert last.folders["icon.svg"] in kept
    assert first.folders["icon.svg"] not in kept
    assert len(kept) == assets.KEPT_TREES + 1  # and plotly


def test_copies_of_a_read_only_tree_can_be_replaced(publish, source):
    for path in source.rglob("*.*"):
        path.chmod(0o444)
    published = publish()
    for name, folder in published.folders.items():
        if name != assets.PLOTLY:
            assert (published.shelf / folder / name).stat().st_mode & stat.S_IWUSR


@pytest.mark.parametrize(
    "path",
    [
        "/static/",
        "/static/css/base.css",
        "/static/000000000000/css/base.css",
        "/static/plotly-0.0.0/plotly.min.js",
        "/static/{tree}/../../cookie.key",
        "/static/{tree}/%2e%2e/%2e%2e/cookie.key",
        "/static/{tree}/..%2f..%2fcookie.key",
    ],
)
def test_nothing_else_lies_there(app, client, path):
    tree = url_of(app, "css/base.css").split("/")[2]
    answer = client.get(path.format(tree=tree))
    assert answer.status_code == 404
    assert answer.json["error"]["code"] == "not_found"


def test_a_crash_while_publishing_leaves_nothing_half_done(publish, monkeypatch):
    def full(*paths):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(OSError, match="no space"):
            publish()
    assert not list(publish().shelf.glob(".*"))


def test_every_class_of_the_drawings_in_templates_has_a_style():
    root = Path(__file__).parents[3]
    css = "".join(file.read_text("utf-8") for file in root.glob("static/css/*.css"))
    drawings = list(root.glob("templates/**/*.svg"))
    assert drawings
    for drawing in drawings:
        for name in re.findall(r'class="([\w-]+)"', drawing.read_text("utf-8")):
            assert f".{name} " in css, f"{drawing.name}: {name}"
