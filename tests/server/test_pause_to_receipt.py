"""A run with correlated noise from its launch to its receipt, in the whole product."""

import json
import subprocess
import sys
import urllib.request
from http.cookiejar import CookieJar

import pytest

from tests.runs.system_processes import wait_until

pytestmark = pytest.mark.long("servers")
STEPS = 600
SETTINGS = {
    "kind": "training",
    "dataset": "signals",
    "model": "conv1d",
    "target_epsilon": 8.0,
    "audit": 0,
    "noise_bands": 8,
    "expected_batch_size": 128,
    "steps": STEPS,
    "learning_rate": 4.0,
    "evaluations": 5,
    "seed": 5,
}
SECONDS = 120


def test_the_receipt_of_a_paused_run_is_verified(product, tmp_path):
    _, address = product
    cookies = urllib.request.HTTPCookieProcessor(CookieJar())
    opener = urllib.request.build_opener(cookies)

    def answer(path, data=None):
        sent = None if data is None else json.dumps(data).encode()
        headers = {"Content-Type": "application/json", "Origin": address}
        request = urllib.request.Request(address + path, sent, headers)
        with opener.open(request, timeout=SECONDS) as reply:
            return json.load(reply)

    opener.open(f"{address}/train/", timeout=SECONDS).close()
    run = f"/api/v1/runs/{answer('/api/v1/runs', SETTINGS)['id']}"

    def becomes(state):
        wait_until(lambda: answer(run)["state"] == state, seconds=SECONDS)

    becomes("running")
    answer(f"{run}/pause", {})
    becomes("paused")
    answer(f"{run}/resume", {})
    becomes("done")
    receipt = answer(f"{run}/receipt.json")
    assert receipt["told"]["sampling"] == "cyclic Poisson"
    assert receipt["told"]["steps"] == STEPS

    def verified(content):
        path = tmp_path / "receipt.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        command = [sys.executable, "-m", "dpsgd_explorer", "verify", str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    result = verified(receipt)
    assert result.returncode == 0, result.stdout
    assert "Stated: ε = 8.0000" in result.stdout
    receipt["told"]["noise_correlation"] = [1.0]  # independent noise has another ε
    assert verified(receipt).returncode == 1
