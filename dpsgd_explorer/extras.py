"""Optional packages, which an extra installs."""

from __future__ import annotations

from importlib.util import find_spec

from dpsgd_explorer.errors import MissingPackageError

#: The packages of the extra ``site``, by the names under which they are imported.
SITE = (
    "alembic",
    "brotli",
    "flask",
    "gunicorn",
    "huey",
    "itsdangerous",
    "jinja2",
    "latex2mathml",
    "plotly",
    "pooch",
    "prometheus_client",
    "safetensors",
    "sqlalchemy",
    "whitenoise",
)


def require(use: str, *packages: str) -> None:
    """Checks that packages are installed, without importing them.

    Args:
        use: The feature that needs them, as the subject of the error message.
        packages: Names of packages of the extra ``site``.

    Raises:
        MissingPackageError: at least one package is not installed; the message names
            the packages and the extra that installs them.
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        noun = "packages that are" if missing[1:] else "a package that is"
        raise MissingPackageError(
            f"{use} needs {noun} not installed: {', '.join(missing)}. "
            "Run: pip install 'dpsgd-explorer[site]'"
        )
