"""The web application: ``create_app`` wires it and holds no route."""

from __future__ import annotations

from typing import Any

from flask import Flask
from flask.json.provider import DefaultJSONProvider
from jinja2 import StrictUndefined

from dpsgd_explorer import __version__
from dpsgd_explorer.experiments.accountant_words import SAMPLING_WORDS
from dpsgd_explorer.runs.classes.classes import Classes
from dpsgd_explorer.runs.doorbell import Doorbell
from dpsgd_explorer.runs.feed import Hub
from dpsgd_explorer.runs.operation.fleet import Fleet
from dpsgd_explorer.runs.operation.readiness import Readiness
from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.settings import LANGUAGES_DIR, Settings
from dpsgd_explorer.signatures import SigningKeys
from dpsgd_explorer.web.api import events as events_api
from dpsgd_explorer.web.api import exports
from dpsgd_explorer.web.api import groups as groups_api
from dpsgd_explorer.web.api import price as price_api
from dpsgd_explorer.web.api import privacy as privacy_api
from dpsgd_explorer.web.api import recount as recount_api
from dpsgd_explorer.web.api import runs as runs_api
from dpsgd_explorer.web.api import service as service_api
from dpsgd_explorer.web.api import twin as twin_api
from dpsgd_explorer.web.api.answer_cache import PAGES as CACHED_PAGES
from dpsgd_explorer.web.api.answer_cache import AnswerCache
from dpsgd_explorer.web.classes import api as classes_api
from dpsgd_explorer.web.classes import pages as classes_pages
from dpsgd_explorer.web.content import site
from dpsgd_explorer.web.http import assets, own_tables
from dpsgd_explorer.web.http.compression import compress
from dpsgd_explorer.web.http.errors import add_error_handlers
from dpsgd_explorer.web.http.headers import add_security_headers, finish
from dpsgd_explorer.web.http.proxies import TrustedProxies
from dpsgd_explorer.web.http.request_guard import LARGEST_BODY, check_request
from dpsgd_explorer.web.http.stream_limit import Listeners
from dpsgd_explorer.web.http.visitor import make_signer
from dpsgd_explorer.web.hub.chapters.text import unbroken
from dpsgd_explorer.web.operation import metrics, requests
from dpsgd_explorer.web.operation.requests import RequestTimes
from dpsgd_explorer.web.pages import (
    about,
    compare_runs,
    data,
    embed,
    glossary,
    groups,
    home,
    labs,
    learn,
    train,
)
from dpsgd_explorer.web.pages import runs as runs_pages
from dpsgd_explorer.web.run_views.registry import register_views
from dpsgd_explorer.web.teach import pages as teach_pages
from dpsgd_explorer.web.teach import timed_class
from dpsgd_explorer.web.texts.catalogue import Catalogue, translate

PAGES = (
    home,
    learn,
    train,
    data,
    runs_pages,
    groups,
    labs,
    embed,
    glossary,
    about,
    teach_pages,
    timed_class,
    classes_pages,
)
RUNS = (compare_runs,)  # importing it adds its pages to runs_pages.bp
API = (
    runs_api,
    groups_api,
    classes_api,
    events_api,
    price_api,
    recount_api,
    twin_api,
    exports,
    privacy_api,
    service_api,
)
OPERATION = (metrics,)
NAVIGATION = [
    ("learn.index", "Learn"),
    ("train.index", "Train"),
    ("labs.index", "Labs"),
    ("runs.index", "Runs"),
]


class StrictJson(DefaultJSONProvider):
    """Standard JSON: NaN raises an error; the order of keys is preserved."""

    sort_keys = False

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        return super().dumps(obj, allow_nan=False, **kwargs)


def create_app(settings: Settings | None = None) -> Flask:
    """Return the application; settings default to those of the environment."""
    settings = settings or Settings.from_environment()
    app = Flask(
        __name__,
        static_folder=None,  # WhiteNoise serves static files, see assets
        template_folder=str(assets.FRONT_DIR / "templates"),
    )
    app.url_map.converters["class_id"] = classes_api.ClassId
    app.url_map.merge_slashes = False  # a doubled slash is an unknown address
    app.json = StrictJson(app)
    # One byte above the limit, because Flask silently truncates longer bodies.
    app.config["MAX_CONTENT_LENGTH"] = LARGEST_BODY + 1
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters["unbroken"] = unbroken
    app.jinja_env.undefined = StrictUndefined  # a misspelt name is an error
    catalogue = None
    if settings.language != Settings.language:
        catalogue = Catalogue.read(LANGUAGES_DIR / f"{settings.language}.po")
        translate(app, catalogue)
    compact = {"sort_keys": True, "separators": (",", ":")}
    app.jinja_env.policies["json.dumps_kwargs"] = compact
    app.extensions |= open_services(settings)
    published = assets.publish(
        assets.FRONT_DIR / "static",
        settings.instance_dir,
        assets.DOCUMENTATION_DIR,
        catalogue.script if catalogue else None,
    )
    app.jinja_env.globals |= {
        "sampling_words": SAMPLING_WORDS,
        "site": site,
        "language": settings.language,
        "public_url": settings.public_url,
        "static_url": published.url,
        "module_script": published.module_script,
        "documentation_url": published.documentation_url,
        "version": __version__,
        "navigation": NAVIGATION,
    }
    register_views()
    requests.measure(app)  # first, to include rejected requests
    for module in (*PAGES, *API, *OPERATION):
        app.register_blueprint(module.bp)
    for lab in labs.LABS:
        if lab.api:
            app.register_blueprint(lab.api)
    add_error_handlers(app)
    app.before_request(check_request)
    app.before_request(own_tables.let_own_tables_be_found)
    app.before_request(own_tables.hide_runs_of_others)
    app.after_request(finish)
    app.after_request(compress)
    if settings.has_front or settings.is_behind_proxy:
        operation = settings.operation
        # The front's socket has nginx as its only client, which has already checked
        # the headers of proxies.
        proxies = () if settings.has_front else operation.trusted_proxies
        app.wsgi_app = TrustedProxies(  # type: ignore[method-assign, assignment]
            app.wsgi_app, proxies, operation.user_header
        )
    app.wsgi_app = published.serve_before(  # type: ignore[method-assign]
        app.wsgi_app, add_security_headers
    )
    return app


def open_services(settings: Settings) -> dict[str, Any]:
    """Return the store of runs and the services that use it, by extension name."""
    store = RunStore.from_settings(settings)
    doorbell = Doorbell(settings)
    fleet = Fleet(store.database, store.clock)
    listeners = Listeners(settings.web_threads)
    registry = metrics.site_registry(fleet, listeners)
    return {
        "settings": settings,
        "run_store": store,
        "classes": Classes(
            store.database,
            store.clock,
            quotas=settings.quotas,
            cost_limit=settings.run_cost,
        ),
        "doorbell": doorbell,
        "readiness": Readiness(store.database, doorbell, store.clock),
        "hub": Hub(store),
        "pages": AnswerCache(CACHED_PAGES),
        "listeners": listeners,
        "metrics": registry,
        "request_times": RequestTimes(registry),
        "signing_keys": _signing_keys(settings.operation.receipt_key),
        "visitor_signer": make_signer(
            settings.instance_dir, settings.operation.secret_key
        ),
    }


def _signing_keys(text: str) -> SigningKeys | None:
    return SigningKeys.from_pem("DPSGD_RECEIPT_KEY", text) if text else None
