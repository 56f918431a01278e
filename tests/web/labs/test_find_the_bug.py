"""The lab of planted bugs as its page has it, and a run launched from it."""

import html
import re

import pytest

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.web.labs.find_the_bug.exhibits import HONEST, exhibits, stored
from tests.web.conftest import ended, error_of
from tests.web.reading import page_data

LAB = "/labs/find-the-bug/"
RUNS = "/api/v1/runs"
NAMES = list(exhibits())
LOOPS = stored()["loops"]


def address(name):
    return f"{LAB}?loop={exhibits()[name].number}"


def plain(text):
    return html.unescape(re.sub(r"<[^>]+>", "", text))


@pytest.mark.parametrize("name", NAMES)
def test_a_loop_is_shown_whole_with_its_line_at_fault_marked(reading, name):
    text = reading.get(address(name)).text
    [code] = re.findall(r"<pre[^>]*><code[^>]*>(.*?)</code></pre>", text, re.DOTALL)
    assert plain(code).strip() == LOOPS[name]["source"].strip()
    marked = re.findall(r"data-at-fault>(.*?)\n", code)
    assert len(marked) == (name != HONEST)
    for line in marked:
        assert LOOPS[name]["at_fault"] in html.unescape(line)


@pytest.mark.parametrize("name", NAMES)
def test_without_script_code_and_verdict_are_there(reading, name):
    text = reading.get(address(name)).text
    [details] = re.findall(
        r'<details class="without-script">(.*?)</details>', text, re.DOTALL
    )
    loop, said = LOOPS[name], plain(details)
    assert loop["wrong"] in said
    assert loop["why"] in said
    assert loop["refused"] in said
    assert loop["error"] in said
    assert details.count("<tr>") == (len(loop["points"]) + 1 if loop["points"] else 0)


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_and_the_honest_one_are_among_the_choices(reading, name):
    values = re.findall(r'name="bug" value="(\w+)"', reading.get(address(name)).text)
    assert len(values) == len(set(values)) == 5
    assert {name, HONEST} <= set(values)


def test_where_the_answer_stands_tells_nothing():
    places = [[n for n, _ in exhibits()[name].choices].index(name) for name in NAMES]
    assert len(set(places)) > 2


@pytest.mark.parametrize("query", ["", "0", "18", "-1", "x", "1.0", "'\"<"])
def test_an_unknown_loop_is_the_first(reading, query):
    answer = reading.get(LAB, query_string={"loop": query})
    assert answer.status_code == 200
    assert page_data(answer.text)["name"] == NAMES[0]


def test_bounds_are_rounded_down_and_promises_up():
    rows = exhibits()["honest"].rows
    points = LOOPS["honest"]["points"]
    for (_, lower, promised), point in zip(rows, points, strict=True):
        assert 0 <= point["epsilon_lower"] - float(lower) < 0.01
        assert 0 <= float(promised) - point["epsilon_promised"] < 0.01


def run_of(client, store, name):
    run_id = client.post(RUNS, json={"kind": "planted_bug", "loop": name}).json["id"]
    loop = LOOPS[name]
    phase = {"step": 0, "private": False, "steps": 60, "refused": loop["refused"]}
    spent = {"epsilon": None, "seconds": 1.0}
    points = [Event("evaluation", spent | point) for point in loop["points"]]
    last = loop["points"][-1] if loop["points"] else {"step": 0}
    bounds = {n: last.get(n) for n in ("epsilon_lower", "epsilon_promised")}
    end = {"error": loop["error"], "seen_by": loop["seen_by"], "reason": "finished"}
    end |= spent | {"step": last["step"], "delta": None} | bounds
    return ended(store, run_id, [Event("phase", phase), *points, Event("end", end)])


def test_a_run_is_listed_shown_and_taken_away(client, store):
    run_id = run_of(client, store, "piled_up")
    run = client.get(f"{RUNS}/{run_id}").json
    assert run["privacy"] is None
    assert run["summary"]["epsilon_lower"] > run["summary"]["epsilon_promised"]
    listed = client.get("/runs/").text
    assert "Loop audited: the sum not cleared between steps" in listed
    assert f"ε ≥ {exhibits()['piled_up'].rows[-1][1]} of 4.00" in listed
    page = client.get(f"/runs/{run_id}/").text
    assert "no data set was used" in page
    assert f'href="{address("piled_up")}"' in page
    assert page_data(page)["plan"]["promise"]["epsilon"] > 3.9
    report = client.get(f"{RUNS}/{run_id}/export.html").text
    assert "Bound that the canaries prove" in report
    error_of(client.get(f"{RUNS}/{run_id}/epsilon"), 422, "accountant")


def test_a_loop_that_stopped_has_no_bound(client, store):
    run_id = run_of(client, store, "never_summed")
    assert client.get(f"{RUNS}/{run_id}").json["summary"]["epsilon_lower"] is None
    assert client.get("/runs/").status_code == 200
    assert client.get(f"/runs/{run_id}/").status_code == 200
    assert client.get(f"{RUNS}/{run_id}/export.csv").status_code == 200


@pytest.mark.parametrize("loop", ["", "no_such", 3, None])
def test_a_loop_that_there_is_not_is_refused(client, loop):
    asked = {"kind": "planted_bug", "loop": loop}
    error_of(client.post(RUNS, json=asked), 422, "loop")
