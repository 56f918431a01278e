"""Tasks of a page's main thread, read from a trace of Chromium."""

import json

import pytest

from benchmarks.site.main_thread import Load, Task, tasks_of

SITE = "http://127.0.0.1:1"
NAMES = [
    {"name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
    for pid, tid, name in [
        (1, 1, "CrRendererMain"),
        (2, 1, "CrRendererMain"),
        (1, 2, "Compositor"),
    ]
]


def task(start, wall, cpu, pid=1, tid=1, **more):
    """Return the event of a task; times are in milliseconds, as of no trace."""
    name = "ThreadControllerImpl::RunTask"
    times = {"ts": 1000 * start, "dur": 1000 * wall, "tdur": 1000 * cpu}
    return {"name": name, "ph": "X", "pid": pid, "tid": tid, "args": {}} | times | more


def script(at, path, name="FunctionCall", pid=1, tid=1):
    """Return the event of a script that runs."""
    data = {"data": {"url": f"{SITE}{path}"}}
    return task(at, 1, 1, pid, tid, name=name, args=data)


def test_tasks_are_those_of_the_page_and_know_plotly():
    events = [
        *NAMES,
        task(0, 50, 20),
        script(5, "/static/js/page.js"),
        script(7, "/static/js/page.js"),
        task(100, 900, 700),
        script(110, "/static/plotly.min.js", "EvaluateScript"),
        task(0, 400, 400, pid=2),
        script(5, "/static/js/other.js", pid=2),
        task(0, 300, 300, tid=2),
    ]
    tasks = tasks_of(json.dumps({"traceEvents": events}).encode(), SITE)
    assert tasks == [Task(20, 50), Task(700, 900, runs_plotly=True)]
    load = Load.of(tasks, 2.0)
    assert load == Load(0.36, 700, 900)


def test_a_trace_without_the_page_is_rejected():
    events = [*NAMES, task(0, 50, 20)]
    with pytest.raises(ValueError, match="trace must have scripts of"):
        tasks_of(json.dumps({"traceEvents": events}).encode(), SITE)
