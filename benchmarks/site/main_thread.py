"""Load of the trainer's main thread, from traces of Chromium.

One trace opens the trainer until its charts are drawn by Plotly; another watches a run
on Adult with four charts for ``WATCHED_S`` seconds.

A task is one turn of the event loop.  Its CPU time is the time of the thread alone and
does not count the time in which other processes had the core, so that a busy machine
does not change it; its wall time counts everything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from benchmarks import record
from benchmarks.site.service import served
from tools.browser import browser_path

WATCHED_S = 8.0
PATIENCE_MS = 180_000  # until the run's first evaluation
SETTLED_MS = 2000  # from the first drawing of a chart to the end of all of them
RUN = "dataset=adult&model=logistic&noise_multiplier=1&expected_batch_size=256"
LONG = f"/train/?{RUN}&steps=20000&learning_rate=2&max_grad_norm=0.5&evaluations=100"
# Counts the drawings of the chart of accuracy.
WATCH = """() => {
  globalThis.drawings = 0;
  let last = 0;
  new MutationObserver(() => {
    const now = performance.now();
    if (now - last < 60) return;  // the changes of one drawing come together
    last = now;
    globalThis.drawings += 1;
  }).observe(document.querySelector('.accuracy-box'), {
    childList: true, attributes: true, subtree: true
  });
}"""
CATEGORIES = ["toplevel", "devtools.timeline", "__metadata"]
TASKS = ("ThreadControllerImpl::RunTask", "RunTask")
THREAD = "CrRendererMain"


@dataclass(frozen=True)
class Task:
    """A task of the main thread.

    Attributes:
        cpu_ms: CPU time of the thread.
        wall_ms: Time from its start to its end.
        runs_plotly: If True, the task evaluates the script of Plotly.
    """

    cpu_ms: float
    wall_ms: float
    runs_plotly: bool = False


@dataclass(frozen=True)
class Load:
    """Load of the main thread over some seconds.

    Attributes:
        busy_share: CPU time of all tasks, as a fraction of the seconds.
        longest_cpu_ms: CPU time of the longest task.
        longest_wall_ms: Wall time of the longest task.
    """

    busy_share: float
    longest_cpu_ms: float
    longest_wall_ms: float

    @classmethod
    def of(cls, tasks: Sequence[Task], seconds: float) -> Load:
        """Return the load that tasks make in a number of seconds."""
        return cls(
            sum(task.cpu_ms for task in tasks) / 1000 / seconds,
            max((task.cpu_ms for task in tasks), default=0),
            max((task.wall_ms for task in tasks), default=0),
        )


def tasks_of(trace: bytes, page: str) -> list[Task]:
    """Return the tasks of the main thread that ran scripts of a page.

    Args:
        trace: JSON of Chromium with ``CATEGORIES``.
        page: Address of the site; the thread with most of its scripts is the page's.

    Raises:
        ValueError: No thread of the trace ran a script of the page.
    """
    events = json.loads(trace)["traceEvents"]
    mains = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == THREAD
    }
    calls = [event for event in events if _script(event).startswith(page)]
    threads = [(call["pid"], call["tid"]) for call in calls]
    counts = {thread: threads.count(thread) for thread in mains & set(threads)}
    if not counts:
        raise ValueError(f"trace must have scripts of {page}, got none.")
    thread = max(counts, key=lambda one: counts[one])
    plotly = [
        call["ts"]
        for call in calls
        if (call["pid"], call["tid"]) == thread
        and call["name"] == "EvaluateScript"
        and "plotly" in _script(call)
    ]
    return [
        Task(
            event.get("tdur", 0) / 1000,
            event["dur"] / 1000,
            any(event["ts"] <= at <= event["ts"] + event["dur"] for at in plotly),
        )
        for event in events
        if (event["pid"], event["tid"]) == thread
        and event["name"] in TASKS
        and event.get("ph") == "X"
    ]


def _script(event: dict[str, Any]) -> str:
    """Return the address of the script that an event runs, "" without one."""
    data = event.get("args", {}).get("data", {})
    return str(data.get("url", "")) if isinstance(data, dict) else ""


def traced(browser: Browser, page: Page, act: Callable[[], None]) -> list[Task]:
    """Return the tasks of the page's main thread while a function runs."""
    browser.start_tracing(page=page, categories=CATEGORIES)
    act()
    return tasks_of(browser.stop_tracing(), _origin(page))


def measured(browser: Browser, page: Page) -> list[dict[str, Any]]:
    """Return the load of the main thread by situation, with drawings per second."""
    plot = page.locator(".accuracy-box .main-svg").first

    def open_trainer() -> None:
        page.goto(LONG)
        plot.wait_for()
        page.wait_for_timeout(SETTLED_MS)

    page.goto("/train/")  # computes everything that a server computes only once
    tasks = traced(browser, page, open_trainer)
    others = [task for task in tasks if not task.runs_plotly]
    seconds = sum(task.wall_ms for task in tasks) / 1000
    opening = asdict(Load.of(others, seconds)) | {
        "plotly_cpu_ms": sum(task.cpu_ms for task in tasks if task.runs_plotly)
    }
    page.locator("[data-run]").click()
    page.locator('[data-status="accuracy"]', has_text="%").wait_for(timeout=PATIENCE_MS)
    page.evaluate(WATCH)
    tasks = traced(browser, page, lambda: page.wait_for_timeout(1000 * WATCHED_S))
    drawn = page.evaluate("() => globalThis.drawings") / WATCHED_S
    page.locator("[data-stop]").click()
    run = asdict(Load.of(tasks, WATCHED_S)) | {"drawings_per_second": drawn}
    return [{"situation": "opening", **opening}, {"situation": "a run", **run}]


def _origin(page: Page) -> str:
    return "/".join(page.url.split("/")[:3])


def main() -> None:
    """Measure, print and write the results."""
    with served() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path())
        size = ViewportSize(width=1280, height=900)
        page = browser.new_page(viewport=size, base_url=address)
        rows = measured(browser, page)
        browser.close()
    for row in rows:
        print(row)
    print(record.write("main_thread", {"rows": rows}))
