"""Files that are not in the package: found, or fetched from real servers."""

import gzip
import hashlib
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dpsgd_explorer.errors import DataError
from dpsgd_explorer.experiments.data_files.fetched import FetchedFile, FetchedSet
from dpsgd_explorer.settings import DataSources
from dpsgd_explorer.training.datasets.download import read

CONTENT = b"idx, or whatever; " * 60
PACKED = gzip.compress(CONTENT, mtime=0)
OTHER = gzip.compress(b"another file", mtime=0)


@contextmanager
def serving(answers):
    """A web server on this machine; {path: bytes, or a status}; yields url and log."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            answer = answers.get(self.path, 404)
            status, body = (200, answer) if isinstance(answer, bytes) else (answer, b"")
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without the data set, and without a proxy on the way."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path


def data_of(machine, *urls):
    file = FetchedFile(
        "set/train.gz",
        hashlib.sha256(CONTENT).hexdigest(),
        hashlib.sha256(PACKED).hexdigest(),
        len(PACKED),
        urls,
        machine / "system",
    )
    return FetchedSet("set", "A set", (file,), "a package")


def content(data, sources):
    return read(data, data.files[0], sources)


def put(place, packed=PACKED):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(packed)


@pytest.mark.parametrize("folder", ["chosen/set", "cache/dpsgd-explorer/set", "system"])
def test_a_file_is_found_wherever_it_is_and_whoever_packed_it(machine, folder):
    put(machine / folder / "train.gz", gzip.compress(CONTENT, 1))
    sources = DataSources(data_dir=machine / "chosen", is_offline=True)
    data = data_of(machine)
    assert data.missing(sources) == []
    assert content(data, sources) == CONTENT


def test_a_file_that_is_nowhere_is_fetched_once(machine):
    with serving({"/train.gz": PACKED}) as (url, asked):
        data = data_of(machine, f"{url}/train.gz")
        sources = DataSources(data_dir=machine / "chosen")
        assert data.missing(sources) == list(data.files)
        assert [content(data, sources) for _ in range(2)] == [CONTENT] * 2
        assert asked == ["/train.gz"]
    assert data.missing(sources) == []
    assert [path.name for path in (machine / "chosen/set").iterdir()] == ["train.gz"]


@pytest.mark.parametrize(
    "first",
    [404, 503, OTHER, PACKED[:-9], b""],
    ids=["not there", "busy", "another file", "cut", "empty"],
)
def test_the_next_server_is_asked_if_the_first_fails(machine, first):
    with serving({"/first": first, "/second": PACKED}) as (url, asked):
        data = data_of(machine, f"{url}/first", f"{url}/second")
        assert content(data, DataSources(data_dir=machine / "chosen")) == CONTENT
        assert asked == ["/first", "/second"]


def test_nothing_that_is_not_the_file_gets_in(machine):
    with serving({"/train.gz": OTHER, "/busy": 503}) as (url, _):
        urls = f"{url}/train.gz", f"{url}/busy", "http://127.0.0.1:9/train.gz"
        data = data_of(machine, *urls)
        with pytest.raises(DataError) as refusal:
            content(data, DataSources(data_dir=machine / "chosen"))
    told = (
        "A set needs the data file train.gz",
        f"put the file into {machine / 'chosen' / 'set'}",
        data.files[0].sha256,
        "a package",
        "Run `dpsgd data fetch set`",
        "Adult income can be used now",
        f"{url.removeprefix('http://')}: sent a different file",
        "answered 503",
        "127.0.0.1:9: cannot be reached",
    )
    assert [part for part in told if part not in str(refusal.value)] == []
    assert list((machine / "chosen").rglob("*.gz")) == []


def test_offline_no_server_is_asked(machine):
    with serving({"/train.gz": PACKED}) as (url, asked):
        data = data_of(machine, f"{url}/train.gz")
        with pytest.raises(DataError, match="DPSGD_OFFLINE=1 forbids downloads"):
            content(data, DataSources(is_offline=True))
        assert asked == []


def test_a_damaged_copy_is_passed_over_and_made_good(machine):
    chosen = machine / "chosen" / "set" / "train.gz"
    put(chosen, OTHER)
    sources = DataSources(data_dir=machine / "chosen")
    offline = replace(sources, is_offline=True)
    data = data_of(machine)
    with pytest.raises(DataError, match=hashlib.sha256(b"another file").hexdigest()):
        content(data, offline)
    put(machine / "system" / "train.gz")
    assert content(data, offline) == CONTENT
    (machine / "system" / "train.gz").unlink()
    with serving({"/train.gz": PACKED}) as (url, _):
        assert content(data_of(machine, f"{url}/train.gz"), sources) == CONTENT
    assert chosen.read_bytes() == PACKED


def test_a_folder_that_cannot_be_written_to_is_named(machine):
    (machine / "chosen").write_bytes(b"a file in the way")
    with serving({"/train.gz": PACKED}) as (url, _):
        data = data_of(machine, f"{url}/train.gz")
        with pytest.raises(DataError, match="put the file into"):
            content(data, DataSources(data_dir=machine / "chosen"))
