"""A receipt is read whole, or the reason why it cannot be is named."""

import json

import pytest

from dpsgd_explorer.audit.receipts import file
from dpsgd_explorer.errors import ReceiptError

HEADER = {"__metadata__": {"receipt": '{"version": 1}'}}


def weights(header, length=None):
    text = json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("alone.json", b'{"version": 1}'),
        (
            "export.json",
            b'{"events": [{"kind": "end", "data": {"receipt": null}}, {"kind": "end", '
            b'"data": {"receipt": {"version": 1}}}, {"kind": "state", "data": {}}]}',
        ),
        ("weights.safetensors", weights(HEADER) + bytes(100)),
    ],
)
def test_a_receipt_is_found_wherever_the_site_puts_it(name, data, tmp_path):
    path = tmp_path / name
    path.write_bytes(data)
    assert file.read_receipt(path) == {"version": 1}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "file: is empty"),
        (b"  \n", "file: is empty"),
        (b'{"version": 1', "cut short: line 1"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"PK\x03\x04 and more of it", "not JSON"),
        (b"null", "receipt: is null: the run was not private"),
        (b"[1, 2]", "receipt: must be an object"),
        (b"3", "receipt: must be an object, got 3"),
        (b'{"epsilon": NaN}', "finite numbers, got NaN"),
        (b'{"epsilon": -Infinity}', "finite numbers, got -Infinity"),
        (b'{"epsilon": 1e999}', "finite numbers, got 1e999"),
        (b'{"seed": %s}' % (b"9" * 5000), "smaller numbers, got 99999"),
        (b'{"seed": 36893488147419103232}', "smaller numbers"),
        (b'{"epsilon": 1, "epsilon": 2}', "epsilon: appears twice"),
        (b'{"told": {"steps": 1, "steps": 1}}', "steps: appears twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"events": []}', "events: the export does not contain a receipt"),
        (
            b'{"events": [{"kind": "end"}, 3]}',
            "events: the export does not contain a receipt",
        ),
        (b'{"events": [{"kind": "end", "data": {}}]}', "receipt: is null"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_receipt_is_refused_with_its_reason(data, words, tmp_path):
    path = tmp_path / "receipt.json"
    path.write_bytes(data)
    with pytest.raises(ReceiptError) as refused:
        file.read_receipt(path)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "file: is empty"),
        (weights(HEADER)[:20], "is cut short"),
        (weights(HEADER, length=2**63), "is cut short"),
        (weights({"w": {"dtype": "F32"}}), "header.__metadata__: must be an object"),
        (
            weights({"__metadata__": {"format": "pt"}}),
            "header: the header does not contain",
        ),
        (weights({"__metadata__": {"receipt": "null"}}), "receipt: is null"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_weights_without_a_whole_receipt_are_refused(data, words, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    with pytest.raises(ReceiptError) as refused:
        file.read_receipt(path)
    assert words in str(refused.value)


def test_a_huge_file_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(file, "MAX_BYTES", 1000)
    path = tmp_path / "receipt.json"
    path.write_bytes(b" " * 2000 + b"{}")
    with pytest.raises(ReceiptError, match="at most"):
        file.read_receipt(path)
