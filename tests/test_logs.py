"""The log: text as ever, or JSON, a line an object."""

import io
import json
import logging
import threading

import pytest

from dpsgd_explorer import logs


@pytest.fixture
def lines(monkeypatch):
    """Configure the log of this process; give what it wrote since."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    written = io.StringIO()

    def lines(log_format=None):
        if log_format is not None:
            logs.configure(log_format, written)
        return written.getvalue().splitlines()

    yield lines
    logs.configure("text")
    logs.name_process("")
    root.handlers[:], root.level = before


def test_text_is_as_it_was_and_has_no_requests(lines, capsys):
    lines("text")
    logging.getLogger("some.module").warning("run %s: late", "r1")
    logging.getLogger(logs.REQUESTS).info("answered", extra={"path": "/"})
    logs.notice("it starts")
    assert lines() == ["WARNING some.module: run r1: late"]
    assert capsys.readouterr().out == "it starts\n"


def test_json_is_an_object_a_line_with_the_run_of_its_thread(lines, capsys):
    lines("json")
    log = logging.getLogger("some.module")

    def elsewhere():
        with logs.of_run("r2"):
            log.warning("two\nlines")

    with logs.of_run("r1"):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        log.warning("ε is 1")
    log.warning("of no run")
    logs.name_process("r3")
    log.warning("of the process")
    logs.notice("it starts")
    read = [json.loads(line) for line in lines()]
    assert [line.get("run_id") for line in read] == ["r2", "r1", None, "r3", "r3"]
    assert [line["message"] for line in read][:2] == ["two\nlines", "ε is 1"]
    assert {line["time"][-6:] for line in read} == {"+00:00"}
    assert read[-1]["message"] == "it starts"
    assert capsys.readouterr().out == ""


def test_an_exception_stays_on_one_line(lines):
    lines("json")
    try:
        raise ValueError("what came")
    except ValueError:
        logging.getLogger("some.module").exception("it failed")
    [line] = map(json.loads, lines())
    assert line["level"] == "ERROR"
    assert line["error"].endswith("ValueError: what came")
