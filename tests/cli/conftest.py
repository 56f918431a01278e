import pytest


@pytest.fixture(autouse=True)
def instance_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("DPSGD_INSTANCE_DIR", str(tmp_path / "instance"))
