"""Accessors of the services in ``app.extensions``."""

from __future__ import annotations

from flask import current_app

from dpsgd_explorer.runs.classes.classes import Classes
from dpsgd_explorer.runs.doorbell import Doorbell
from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.settings import Settings
from dpsgd_explorer.signatures import SigningKeys


def run_store() -> RunStore:
    """Return the store of runs."""
    store: RunStore = current_app.extensions["run_store"]
    return store


def classes() -> Classes:
    """Return the classes of the site."""
    site_classes: Classes = current_app.extensions["classes"]
    return site_classes


def doorbell() -> Doorbell:
    """Return the doorbell, which wakes a worker."""
    bell: Doorbell = current_app.extensions["doorbell"]
    return bell


def settings() -> Settings:
    """Return the settings of the server."""
    environment: Settings = current_app.extensions["settings"]
    return environment


def signing_keys() -> SigningKeys | None:
    """Return the keys that sign receipts; None if the site has none."""
    keys: SigningKeys | None = current_app.extensions["signing_keys"]
    return keys
