"""The log of every process: lines of text, or one JSON object per line.

A JSON line has ``time`` (UTC), ``level``, ``logger``, ``message`` and ``process``.  If
it concerns one run, it has ``run_id``; for an exception it has ``error`` with the
traceback.  Requests are logged as JSON only.  No line has a query, a body, a cookie or
an address.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TextIO

TEXT = "%(levelname)s %(name)s: %(message)s"
#: Logger of requests; it is silent if the log is text.
REQUESTS = "dpsgd_explorer.requests"
#: Names that a caller may add to a line by ``extra=``.
EXTRA = ("run_id", "method", "path", "status", "ms")
_run: ContextVar[str] = ContextVar("run", default="")
_NOTICES = "dpsgd_explorer.notices"


@dataclass
class _Process:
    """This process: the format of its log, and the id of its run or ""."""

    log_format: str = "text"
    run_id: str = ""


_process = _Process()


class JsonFormatter(logging.Formatter):
    """Formats a log record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat("T", "auto"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        if run_id := _run.get() or _process.run_id:
            line["run_id"] = run_id
        line |= {name: vars(record)[name] for name in EXTRA if name in vars(record)}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure(log_format: str, stream: TextIO | None = None) -> None:
    """Sets up the root logger of this process, which all other loggers use.

    Args:
        log_format: ``text`` or ``json``, see ``operation.LOG_FORMATS``.
        stream: Stream for the lines; None means standard error.
    """
    _process.log_format = log_format
    handler = logging.StreamHandler(stream or sys.stderr)
    is_json = log_format == "json"
    handler.setFormatter(JsonFormatter() if is_json else logging.Formatter(TEXT))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in (REQUESTS, _NOTICES):
        logging.getLogger(name).setLevel(logging.INFO if is_json else logging.CRITICAL)


def notice(message: str) -> None:
    """Prints a message for the operator, or logs it as a line of JSON."""
    if _process.log_format == "text":
        print(message, flush=True)
    else:
        logging.getLogger(_NOTICES).info(message)


def name_process(run_id: str) -> None:
    """Adds the id of a run to every line that any thread of this process logs."""
    _process.run_id = run_id


@contextmanager
def of_run(run_id: str) -> Iterator[None]:
    """Adds the id of a run to every line that this thread logs within the context."""
    token = _run.set(run_id)
    try:
        yield
    finally:
        _run.reset(token)
