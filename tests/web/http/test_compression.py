import gzip

import brotli
import pytest

from tests.web.conftest import SMALL

RUNS = "/api/v1/runs"
GZIP = {"Accept-Encoding": "deflate, gzip"}
READERS = {"br": brotli.decompress, "gzip": gzip.decompress}


@pytest.mark.parametrize(
    ("accept", "encoding"),
    [("gzip, deflate, br, zstd", "br"), ("br;q=0, gzip", "gzip"), ("gzip", "gzip")],
)
@pytest.mark.parametrize("path", ["/train/", "/openapi.json"])
def test_a_page_is_sent_compressed_to_who_can_read_it(reading, path, accept, encoding):
    plain = reading.get(path)
    small = reading.get(path, headers={"Accept-Encoding": accept})
    assert "Content-Encoding" not in plain.headers
    assert small.headers["Content-Encoding"] == encoding
    assert READERS[encoding](small.data) == plain.data
    assert int(small.headers["Content-Length"]) == len(small.data) < len(plain.data) / 2
    for answer in (plain, small):
        assert answer.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize("accept", ["", "identity", "gzip;q=0", "zstd"])
def test_nobody_gets_what_they_cannot_read(reading, accept):
    answer = reading.get("/train/", headers={"Accept-Encoding": accept})
    assert "Content-Encoding" not in answer.headers


def test_a_stream_and_a_short_answer_are_left_alone(client):
    run_id = client.post(RUNS, json=SMALL).json["id"]
    client.post(f"{RUNS}/{run_id}/cancel")
    for path in (f"{RUNS}/{run_id}/events", "/healthz"):
        answer = client.get(path, headers=GZIP)
        assert answer.status_code == 200
        assert "Content-Encoding" not in answer.headers


def test_an_answer_without_a_body_has_none(client):
    assert client.head("/train/", headers=GZIP).data == b""
    run_id = client.post(RUNS, json=SMALL).json["id"]
    assert client.delete(f"{RUNS}/{run_id}", headers=GZIP).data == b""
