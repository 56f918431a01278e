"""The real product, started as a user starts it, and a browser that looks at it.

Nothing here is stubbed: ``python -m dpsgd_explorer serve`` brings web and worker, and
runs really train.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page

from tests.conftest import PATIENCE_MS
from tests.ports import free_port
from tests.stored_runs import end_runs

ROOT = Path(__file__).resolve().parents[2]
TINY = {
    "dataset": "adult",
    "model": "logistic",
    "target_epsilon": 1.0,
    "expected_batch_size": 1024,
    "steps": 30,
    "learning_rate": 4.0,
    "max_grad_norm": 0.5,
    "evaluations": 10,
}
START_S = 240  # on a machine that does other things too
STOP_S = 20


@pytest.fixture(scope="session")
def instance_folders():
    """The folder of each product that was started, by its address."""
    return {}


@pytest.fixture(scope="session")
def serve(tmp_path_factory, instance_folders):
    """Start a copy of the product; its address. Each must end cleanly on SIGTERM."""
    with contextlib.ExitStack() as started:

        def start(**environment):
            folder = tmp_path_factory.mktemp("instance")
            address = started.enter_context(_served(folder, environment))
            instance_folders[address] = folder
            return address

        yield start


@pytest.fixture(scope="module", autouse=True)
def _idle_afterwards(instance_folders):
    """No run of these tests waits or trains when the next file's begin."""
    yield
    for folder in instance_folders.values():
        end_runs(folder)


@pytest.fixture(scope="session")
def address(serve):
    return serve()


@pytest.fixture(scope="session")
def visit(browser):
    """One browser profile for all tests: what it has loaded once stays in its cache."""
    context = browser.new_context()
    yield context
    context.close()


@pytest.fixture
def open_page(browser, visit, address):
    """Open a page of the product, as a visitor who has no runs yet.

    At the end of the test every page must have been clean: no console error, no
    script error, no report of the content policy, no request to another host.
    A ``new_visitor`` comes with a browser profile of its own.
    """
    visit.clear_cookies()
    with _clean_pages(browser, visit, address) as open_page:
        yield open_page


@pytest.fixture(scope="module")
def open_for_all(browser, visit, address):
    """As ``open_page``, for a page that the tests of a module share."""
    with _clean_pages(browser, visit, address) as open_page:
        yield open_page


@pytest.fixture(scope="session")
def finished_run(address):
    """A run of somebody else that has ended: its id, and how it went."""
    body = json.dumps(TINY).encode()
    asked = urllib.request.Request(
        f"{address}/api/v1/runs", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked) as answer:
        run = json.load(answer)
    end = time.monotonic() + START_S
    while run["state"] in ("queued", "running"):
        assert time.monotonic() < end, run
        time.sleep(0.1)
        with urllib.request.urlopen(f"{address}/api/v1/runs/{run['id']}") as answer:
            run = json.load(answer)
    assert run["state"] == "done", run
    return run


@pytest.fixture(scope="session")
def axe():
    """The source of axe, the accessibility checker."""
    import axe_playwright_python

    [path] = Path(axe_playwright_python.__file__).parent.rglob("axe.min.js")
    return path.read_text()


@contextlib.contextmanager
def _clean_pages(browser, visit, address):
    pages, profiles = [], []

    def open_page(path, *, at=address, expected=(), size=(1280, 844), **rest):
        context, media = visit, {}
        for name in ("color_scheme", "reduced_motion"):
            media |= {name: rest.pop(name)} if name in rest else {}
        if rest.pop("new_visitor", False) or rest:
            context = browser.new_context(**rest)
            profiles.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.emulate_media(**media)
        pages.append((page, _watch(page, [re.compile(text) for text in expected])))
        page.goto(at + path)
        return page

    yield open_page
    for page, _ in pages:
        page.close()
    for context in profiles:
        context.close()
    assert [fault for _, faults in pages for fault in faults] == []


def _watch(page: Page, expected):
    faults = []

    def note(fault):
        if not any(pattern.search(fault) for pattern in expected):
            faults.append(fault)

    page.on("pageerror", lambda error: note(f"script: {error}"))
    page.on(
        "console",
        lambda said: (
            said.type in ("error", "warning") and note(f"console: {said.text}")
        ),
    )
    page.on(
        "request",
        lambda request: (
            urlsplit(request.url).hostname not in ("127.0.0.1", None)
            and note(f"other host: {request.url}")
        ),
    )
    return faults


@contextlib.contextmanager
def _served(folder, environment):
    port = free_port()
    command = [sys.executable, "-m", "dpsgd_explorer", "serve"]
    own = {
        "PORT": str(port),
        "HOST": "127.0.0.1",
        "DPSGD_INSTANCE_DIR": str(folder),
        "DPSGD_WORKERS": "1",
    }
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | own | environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_for(address, process, folder / "output.txt")
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(STOP_S)
    assert code == 0, (folder / "output.txt").read_text()


def _wait_for(address, process, output):
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        assert process.poll() is None, output.read_text()
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{address}/healthz").close()
            return
        time.sleep(0.1)
    pytest.fail(f"the product did not start in {START_S} s: {output.read_text()}")
