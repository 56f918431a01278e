"""Settings survive the way to another process."""

import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.settings import Settings


def test_settings_are_the_same_in_a_process_that_gets_their_environment(tmp_path):
    settings = Settings.from_environment(
        {
            "DPSGD_INSTANCE_DIR": str(tmp_path / "here"),
            "DPSGD_DATABASE_URL": "sqlite:////elsewhere/runs.sqlite3",
            "DPSGD_QUEUE_URL": "sqlite:////elsewhere/queue.sqlite3",
            "DPSGD_PROFILE": "public",
            "DPSGD_WORKERS": "2",
            "DPSGD_THREADS": "3",
            "DPSGD_KERNELS": "off",
            "DPSGD_WEB_THREADS": "40",
            "DPSGD_RUN_SECONDS": "60",
            "DPSGD_RUN_MEMORY_MIB": "700",
            "DPSGD_RUN_COST": "1e12",
            "HOST": "0.0.0.0",
            "PORT": "8080",
        }
    )
    plain = Settings.from_environment({"DPSGD_INSTANCE_DIR": str(tmp_path)})
    for name, value in vars(settings).items():
        assert value != getattr(plain, name), f"the test must change {name}"
    assert Settings.from_environment(settings.to_environment()) == settings


@pytest.mark.parametrize("name", ["DPSGD_KERNELS", "DPSGD_PROFILE"])
def test_a_word_that_is_no_choice_is_refused_by_name(tmp_path, name):
    with pytest.raises(ConfigError, match=f"{name} must be one of .*, got 'turbo'"):
        Settings.from_environment({"DPSGD_INSTANCE_DIR": str(tmp_path), name: "turbo"})
