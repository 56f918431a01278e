"""What a run's own audit proved stands on its page, its report and its exports."""

import json
import re

import pytest

from dpsgd_explorer.audit.receipts import file
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.web.questions.looked_at import totals
from dpsgd_explorer.web.run_views.listing import looked_at
from tests.web.conftest import SMALL, ended, error_of, recorded_events

RUNS = "/api/v1/runs"
AUDIT = {
    "epsilon_lower": 0.4871,
    "epsilon_promised": 0.9981,
    "delta": 1e-5,
    "confidence": 0.95,
    "canaries": 2000,
    "steps": 4,
    "method": "exact family",
    "others": {"one run": 0.3199},
}
RECEIPT = {"version": 1}


@pytest.fixture
def audited(client, store):
    """Make a run that is done, with an audit; values of it may be changed."""

    def audited(receipt=RECEIPT, **changes):
        *before, end = recorded_events()
        data = end.data | {"audit": AUDIT | changes, "receipt": receipt}
        run_id = client.post(RUNS, json=SMALL).json["id"]
        return ended(store, run_id, [*before, Event("end", data)])

    return audited


def words(client, address):
    """Return the text of the part on the audit, white space made one."""
    text = client.get(address).text
    found = re.search(
        r"<h2[^>]*>Result of its (?:own )?audit</h2>(.*?)<(/section|figure)",
        text,
        re.S,
    )
    return " ".join(re.sub(r"<[^>]+>", "", found[1]).split()) if found else ""


@pytest.mark.parametrize("address", ["/runs/{}/", RUNS + "/{}/export.html"])
def test_page_and_report_say_what_was_promised_and_what_is_proven(
    address, client, audited
):
    text = words(client, address.format(audited()))
    assert "Promised: ε ≤ 1.00." in text
    assert "This run’s own audit proves ε ≥ 0.48 at 95 % confidence, of all 4" in text
    assert "One correct run in twenty may exceed its promise" in text
    assert "without this assumption the audit proves ε ≥ 0.31" in text
    assert "cannot detect errors in the network’s own random numbers" in text
    assert "above the counted ε" not in text
    assert "the exact accountant counts" not in text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"epsilon_lower": 0.0}, "proves nothing above 0 at 95 % confidence"),
        ({"epsilon_lower": 0.004}, "proves nothing above 0"),
        ({"epsilon_promised": 0.8}, "≤ 1.00; of the audited steps the exact acc"),
        ({"steps": 3}, "of its last 3 steps, since its plan was changed"),
        (
            {"steps": 3, "unscored": [{"steps": 1, "reason": "lost before a resume"}]},
            "of 3 steps; not scored: 1 steps lost before a resume.",
        ),
        ({"epsilon_lower": 1.2}, "This is above the counted ε. One in twenty correct"),
    ],
)
def test_the_words_are_those_of_the_numbers(changes, says, client, audited):
    assert says in words(client, f"/runs/{audited(**changes)}/")


def test_a_run_without_an_audit_says_why_and_how_to_get_one(client, store, finished):
    before = words(client, f"/runs/{finished}/")
    assert before.startswith("This run is older than the audit. Train")
    run_id = client.post(RUNS, json=SMALL | {"audit": 0}).json["id"]
    without = words(client, f"/runs/{ended(store, run_id, recorded_events())}/")
    assert without.startswith("This run had no canaries (audit = 0). Train again with")
    open_ = client.post(RUNS, json=SMALL | {"private": False}).json["id"]
    assert words(client, f"/runs/{open_}/") == ""
    assert words(client, f"{RUNS}/{finished}/export.html") == ""
    assert "audit" not in client.get(f"{RUNS}/{finished}").json["summary"]


def test_exports_hold_the_audit_and_the_receipt(client, audited):
    run_id = audited()
    whole = client.get(f"{RUNS}/{run_id}/export.json").json
    assert whole["summary"]["audit"] == AUDIT
    assert file.receipt_of_json(json.dumps(whole).encode()) == RECEIPT
    given = client.get(f"{RUNS}/{run_id}/receipt.json")
    assert given.json == RECEIPT
    assert given.headers["Content-Disposition"].endswith('.receipt.json"')
    assert f"{RUNS}/{run_id}/receipt.json" in client.get(f"/runs/{run_id}/").text


def test_a_run_without_a_receipt_has_none_to_download(client, run_id, audited):
    error_of(client.get(f"{RUNS}/{run_id}/receipt.json"), 404, says="no receipt")
    assert "receipt.json" not in client.get(f"/runs/{run_id}/").text
    error_of(client.get(f"{RUNS}/{audited(receipt=None)}/receipt.json"), 404)


@pytest.fixture
def refuted(client, store):
    """A run that ended as refuted by its own audit."""
    run_id = client.post(RUNS, json=SMALL).json["id"]
    claim = store.leases.claim(run_id)
    store.leases.append(claim, recorded_events()[:-1])
    error = {"code": "privacy_violation", "message": "its own audit proves more."}
    store.leases.finish(claim, "failed", error=error)
    return run_id


def test_a_refuted_run_claims_nothing(client, refuted):
    spent = client.get(f"{RUNS}/{refuted}").json["privacy"]
    assert (spent["epsilon"], spent["status"]) == (None, "not private")
    page = client.get(f"/runs/{refuted}/").text
    assert "its own audit proves that it spent more than was promised" in page
    assert "is (ε, δ)-differentially private" not in page
    assert (
        "is (ε, δ)-differentially private"
        not in client.get(f"{RUNS}/{refuted}/export.html").text
    )


def test_no_accountant_s_epsilon_is_said_of_a_refuted_run(client, refuted):
    fault = error_of(client.get(f"{RUNS}/{refuted}/epsilon"), 422)
    assert "its own audit proves" in fault["message"]
    assert "spent more than promised" in fault["message"]
    exported = client.get(f"{RUNS}/{refuted}/export.json").json
    assert exported["odometer"] is exported["filter"] is None


def test_beside_others_a_refuted_run_is_not_covered(client, store, refuted, audited):
    runs = [store.get(refuted), store.get(audited())]
    phases = store.phases_of([run.id for run in runs])
    looked = [looked_at(run, phases[run.id]) for run in runs]
    [total] = totals(looked).values()
    assert (total.covered, total.uncovered, total.refuted) == (1, 1, 1)
    [alone] = totals(looked[1:]).values()
    assert total.spent == alone.spent
    [nothing] = totals(looked[:1]).values()
    assert nothing.covered == 0
    addresses = [f"ids={run.id}" for run in runs]
    text = client.get(f"/runs/compare?{'&'.join(addresses)}").text
    assert "less than was promised, as the audit of 1 run proves" in text


def test_a_group_with_a_refuted_run_has_no_joint_epsilon(client, store):
    asked = {
        "purpose": "seeds",
        "base": SMALL,
        "variations": [{"seed": 1}, {"seed": 2}],
    }
    group = client.post("/api/v1/groups", json=asked).json
    assert group["together"]["epsilon"] > 0
    claim = store.leases.claim(group["runs"][0]["id"])
    error = {"code": "privacy_violation", "message": "its own audit proves more."}
    store.leases.finish(claim, "failed", error=error)
    assert client.get(group["links"]["self"]).json["together"] is None
    assert "refuted by its own audit" in client.get(group["links"]["page"]).text


def test_a_card_says_what_the_audit_proves(client, audited):
    def card(run_id):
        return client.get(f"{RUNS}/{run_id}/card.svg").text

    assert "its own audit proves ε ≥ 0.48, at 95 % confidence" in card(audited())
    assert "audit" not in card(audited(epsilon_lower=0.0049))


def test_canaries_are_asked_for_behind_more(client):
    page = client.get("/train/").text
    field = r'<input[^>]*name="audit"[^>]*'
    assert re.search(field + 'value="2000"', page)
    wrong = client.get("/train/?audit=20001").text
    assert "20,000" in wrong or "20000" in wrong
    [none] = re.findall(field, client.get("/train/?audit=0").text)
    assert 'value="0"' in none
    error = error_of(client.post(RUNS, json=SMALL | {"audit": -1}), 422)
    assert error["fields"].keys() == {"audit"}
