"""Settings survive the way to another process."""

from dataclasses import replace

import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.quotas import QUOTAS, REPLACED
from dpsgd_explorer.settings import Settings
from tests.keys import private_pem

TOKEN = "k7Zp-2vQx9_LmN4tR8wA"


def test_settings_are_the_same_in_a_process_that_gets_their_environment(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("dpsgd_explorer.settings.LANGUAGES_DIR", tmp_path)
    (tmp_path / "de.po").touch()
    settings = Settings.from_environment(
        {
            "DPSGD_INSTANCE_DIR": str(tmp_path / "here"),
            "DPSGD_DATABASE_URL": "sqlite:////elsewhere/runs.sqlite3",
            "DPSGD_QUEUE_URL": "sqlite:////elsewhere/queue.sqlite3",
            "DPSGD_PROFILE": "public",
            "DPSGD_WORKERS": "29",
            "DPSGD_THREADS": "3",
            "DPSGD_KERNELS": "off",
            "DPSGD_DEVICE": "cuda:1",
            "DPSGD_WEB_THREADS": "40",
            "DPSGD_RUN_SECONDS": "60",
            "DPSGD_RUN_MEMORY_MIB": "700",
            "DPSGD_RUN_COST": "1e12",
            "DPSGD_HOSTS": "dp.example.org,[fd00::1]",
            "DPSGD_PUBLIC_URL": "https://dp.example.org",
            "DPSGD_LANGUAGE": "de",
            "DPSGD_FRONT": "nginx",
            "DPSGD_ALLOW_DIRECT": "1",
            "DPSGD_BEHIND_PROXY": "1",
            "DPSGD_KEEP_DAYS": "7",
            "DPSGD_OWN_DATA": "0",
            "DPSGD_DATA_DIR": "/elsewhere/data",
            "DPSGD_OFFLINE": "1",
            "DPSGD_LOG_FORMAT": "json",
            "DPSGD_TRUSTED_PROXIES": "10.0.0.7, 192.0.2.0/24",
            "DPSGD_USER_HEADER": "X-Remote-User",
            "DPSGD_METRICS_TOKEN": TOKEN,
            "DPSGD_SECRET_KEY": TOKEN,
            "DPSGD_RECEIPT_KEY": private_pem(),
            "DPSGD_QUOTA_QUEUED": "5",
            "HOST": "0.0.0.0",
            "PORT": "8080",
        }
    )
    plain = Settings.from_environment({"DPSGD_INSTANCE_DIR": str(tmp_path)})
    for name, value in vars(settings).items():
        assert value != getattr(plain, name), f"the test must change {name}"
    assert Settings.from_environment(settings.to_environment()) == settings


PUBLIC = {"DPSGD_PROFILE": "public"}
PROXY = {"DPSGD_BEHIND_PROXY": "1"}
FRONT = {"DPSGD_FRONT": "nginx"}
DIRECT = {"DPSGD_ALLOW_DIRECT": "1"}
SITE = {"DPSGD_HOSTS": " dp.example.org, www.dp.example.org,"}


@pytest.mark.parametrize(
    ("given", "at_fault"),
    [
        (PUBLIC, ""),
        (PUBLIC | {"HOST": "::1"}, ""),
        (PUBLIC | {"HOST": "localhost"}, ""),
        (PUBLIC | {"HOST": "0.0.0.0"}, "HOST"),
        (PUBLIC | {"HOST": "192.0.2.1"}, "HOST"),
        (PUBLIC | SITE | {"HOST": "::"}, "HOST"),
        (PUBLIC | {"HOST": "0.0.0.0"} | DIRECT, ""),
        (PUBLIC | {"HOST": "0.0.0.0"} | FRONT, ""),
        (PUBLIC | PROXY, "DPSGD_HOSTS"),
        (PUBLIC | PROXY | SITE, ""),
        (PUBLIC | PROXY | SITE | {"HOST": "0.0.0.0"}, ""),
        (PROXY, ""),
        ({"HOST": "0.0.0.0"}, "HOST"),
        ({"HOST": "classroom.example"}, "HOST"),
        ({"HOST": "0.0.0.0"} | PROXY, ""),
        ({"HOST": "0.0.0.0"} | FRONT, ""),
        ({"HOST": "0.0.0.0"} | DIRECT, ""),
        ({"DPSGD_FRONT": "apache"}, "DPSGD_FRONT"),
        ({"DPSGD_ALLOW_DIRECT": "yes"}, "DPSGD_ALLOW_DIRECT"),
        ({"DPSGD_HOSTS": "http://dp.example.org"}, "DPSGD_HOSTS"),
        ({"DPSGD_HOSTS": "dp.example.org:80"}, "DPSGD_HOSTS"),
        ({"DPSGD_HOSTS": "*"}, "DPSGD_HOSTS"),
        ({"DPSGD_BEHIND_PROXY": "yes"}, "DPSGD_BEHIND_PROXY"),
        ({"DPSGD_TRUSTED_PROXIES": "10.0.0.0/8"}, ""),
        ({"DPSGD_TRUSTED_PROXIES": "10.0.0.7/8"}, "DPSGD_TRUSTED_PROXIES"),
        ({"DPSGD_TRUSTED_PROXIES": "proxy.example"}, "DPSGD_TRUSTED_PROXIES"),
        ({"DPSGD_USER_HEADER": "X-Remote-User"}, "DPSGD_TRUSTED_PROXIES"),
        (
            {"DPSGD_TRUSTED_PROXIES": "::1", "DPSGD_USER_HEADER": "X: a"},
            "DPSGD_USER_HEADER",
        ),
    ],
    ids=str,
)
def test_a_site_in_a_network_has_a_proxy(tmp_path, given, at_fault):
    environment = {"DPSGD_INSTANCE_DIR": str(tmp_path)} | given
    if at_fault:
        with pytest.raises(ConfigError, match=f"^{at_fault} must") as raised:
            Settings.from_environment(environment)
        assert raised.value.field == at_fault
    else:
        Settings.from_environment(environment)


@pytest.mark.parametrize(
    ("given", "profile"),
    [
        (FRONT, "local"),
        (FRONT | {"DPSGD_HOSTS": "localhost,127.0.0.1"}, "local"),
        (FRONT | SITE, "public"),
        (FRONT | SITE | {"DPSGD_PROFILE": "local"}, "local"),
        (SITE, "local"),
    ],
    ids=str,
)
def test_a_container_with_a_name_in_the_network_is_public(tmp_path, given, profile):
    environment = {"DPSGD_INSTANCE_DIR": str(tmp_path), "HOST": "127.0.0.1"} | given
    assert Settings.from_environment(environment).profile == profile


def test_a_run_may_not_have_less_memory_than_torch_takes(tmp_path):
    given = {"DPSGD_INSTANCE_DIR": str(tmp_path), "DPSGD_RUN_MEMORY_MIB": "300"}
    with pytest.raises(ConfigError, match=r"MIB must .* at least 600, got '300'"):
        Settings.from_environment(given)


def test_names_of_the_site_stand_apart_by_commas(tmp_path):
    environment = {"DPSGD_INSTANCE_DIR": str(tmp_path)} | SITE
    hosts = Settings.from_environment(environment).hosts
    assert hosts == ("dp.example.org", "www.dp.example.org")


@pytest.mark.parametrize("name", ["DPSGD_KERNELS", "DPSGD_PROFILE"])
def test_a_word_that_is_no_choice_is_refused_by_name(tmp_path, name):
    with pytest.raises(ConfigError, match=f"{name} must be one of .*, got 'turbo'"):
        Settings.from_environment({"DPSGD_INSTANCE_DIR": str(tmp_path), name: "turbo"})


def test_a_quota_is_set_by_its_variable(tmp_path):
    texts = {
        "RUNNING": "2",
        "QUEUED": "none",
        "QUEUED_IN_ALL": "50",
        "EXEMPT_NETWORKS": "192.0.2.0/24, 2001:db8::/48",
    }
    own = {f"DPSGD_QUOTA_{name}": text for name, text in texts.items()}
    settings = Settings.from_environment(
        {"DPSGD_INSTANCE_DIR": str(tmp_path), "DPSGD_PROFILE": "public"} | own
    )
    assert settings.quotas == replace(
        QUOTAS["public"],
        running=2,
        queued=None,
        queued_in_all=50,
        exempt_networks=("192.0.2.0/24", "2001:db8::/48"),
    )
    assert Settings.from_environment(settings.to_environment()) == settings


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("DPSGD_QUOTA_QUEUED", "0"),
        ("DPSGD_QUOTA_QUEUED", "1e3"),
        ("DPSGD_QUOTA_QUEUED", "\u00b2"),
        ("DPSGD_QUOTA_QUEUED_IN_ALL", "none"),
        ("DPSGD_QUOTA_EXEMPT_NETWORKS", "192.0.2.1/24"),
        ("DPSGD_QUOTA_QUEUE", "3"),
        ("DPSGD_QUOTA_SHARES_QUEUE", "1"),
        ("DPSGD_RETENTION_DAYS", "0"),
        ("DPSGD_WORKERS", "inf"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(tmp_path, name, text):
    with pytest.raises(ConfigError, match=name):
        Settings.from_environment({"DPSGD_INSTANCE_DIR": str(tmp_path), name: text})


def test_a_secret_is_read_from_the_file_its_variable_leads_to(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n", encoding="utf-8")
    given = {"DPSGD_INSTANCE_DIR": str(tmp_path), "DPSGD_METRICS_TOKEN_FILE": str(file)}
    settings = Settings.from_environment(given)
    assert settings.operation.metrics_token == TOKEN
    file.unlink()
    with pytest.raises(ConfigError, match="No such file") as raised:
        Settings.from_environment(given)
    assert raised.value.field == "DPSGD_METRICS_TOKEN_FILE"


@pytest.mark.parametrize("token", ["short", "ä" * 40])
def test_a_token_that_can_be_guessed_is_refused(tmp_path, token):
    given = {"DPSGD_INSTANCE_DIR": str(tmp_path), "DPSGD_METRICS_TOKEN": token}
    with pytest.raises(
        ConfigError, match="at least 16 random ASCII characters"
    ) as raised:
        Settings.from_environment(given)
    assert raised.value.field == "DPSGD_METRICS_TOKEN"
    assert token not in str(raised.value)


def test_the_former_name_of_the_retention_still_counts(tmp_path):
    given = {"DPSGD_INSTANCE_DIR": str(tmp_path), "DPSGD_KEEP_DAYS": "7"}
    assert Settings.from_environment(given).keep_days == 7
    both = given | {"DPSGD_RETENTION_DAYS": "3"}
    assert Settings.from_environment(both).keep_days == 3
    with pytest.raises(ConfigError, match="DPSGD_RETENTION_DAYS must be"):
        Settings.from_environment(given | {"DPSGD_KEEP_DAYS": "soon"})


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("", ""),
        ("https://dp.example.org", "https://dp.example.org"),
        (" https://dp.example.org:8443/ ", "https://dp.example.org:8443"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_the_public_address_is_read_and_passed_on(tmp_path, text, url):
    environment = {"DPSGD_INSTANCE_DIR": str(tmp_path), "DPSGD_PUBLIC_URL": text}
    settings = Settings.from_environment(environment)
    assert settings.public_url == url
    assert Settings.from_environment(settings.to_environment()) == settings


@pytest.mark.parametrize(
    "text", ["dp.example.org", "ftp://a.b", "https://a/b", 'https://a"', "https://a b"]
)
def test_what_is_no_public_address_is_refused(tmp_path, text):
    environment = {"DPSGD_INSTANCE_DIR": str(tmp_path), "DPSGD_PUBLIC_URL": text}
    with pytest.raises(ConfigError, match="DPSGD_PUBLIC_URL must be scheme and name"):
        Settings.from_environment(environment)


@pytest.mark.parametrize("name", REPLACED)
def test_a_former_quota_is_rejected_with_the_limit_that_replaces_it(tmp_path, name):
    environment = {"DPSGD_INSTANCE_DIR": str(tmp_path), name: "5"}
    with pytest.raises(ConfigError) as error:
        Settings.from_environment(environment)
    assert error.value.field == name
    assert REPLACED[name] in str(error.value)
