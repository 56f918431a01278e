"""Every exception we raise on purpose, one small hierarchy.

A message names the subject in the user's word, the rule, what came, and what to do.
"""

from __future__ import annotations

from typing import Any


class ExplorerError(Exception):
    """Base of all of them: catching it catches nothing that is a bug.

    Each can be sent from one process to another.
    """

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.args, vars(self))


def _restored(kind: type[ExplorerError], args: Any, values: Any) -> ExplorerError:
    """Return the error again, without its own arguments, which it does not keep."""
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(values)
    return error


class ConfigError(ExplorerError, ValueError):
    """A setting is outside its domain.

    ``field`` is its name, "" if there is none; ``fields`` holds a message for each
    setting that was found wrong.
    """

    def __init__(
        self, field: str, message: str, *, fields: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.field = field
        self.fields = fields or {field: message}


class CheckpointError(ConfigError):
    """A run cannot resume from its checkpoint; it can be started anew.

    ``is_damaged``: it cannot be read; else it is another run's.
    """

    def __init__(self, message: str, *, is_damaged: bool) -> None:
        super().__init__("checkpoint", message)
        self.is_damaged = is_damaged


class AccountingError(ExplorerError, ValueError):
    """The privacy question has no answer under the accountant that was asked.

    ``field`` is the name of the argument at fault, "" if there is none.
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class PrivacyError(ExplorerError, RuntimeError):
    """The guarantee would not hold if this went on."""


class PrivacyViolationError(PrivacyError):
    """A run's own audit proves that it spent more than its accountant promised."""


class UnsupportedModuleError(PrivacyError):
    """A trainable module has no rule, or mixes the samples of a batch."""


class MixedLossError(UnsupportedModuleError):
    """The loss of a batch is no mean or sum of a term for each sample."""


class PrivacyWarning(UserWarning):
    """Epsilon may not be what was spent: something is not counted here."""


class DataError(ExplorerError, RuntimeError):
    """A data file is missing, or its hash is not the expected one."""


class MissingPackageError(ExplorerError, ImportError):
    """A package is not installed that only an extra of this one brings."""


class DivergedError(ExplorerError, RuntimeError):
    """Parameters or loss became non-finite during a run."""


class ReceiptError(ExplorerError, ValueError):
    """There is no whole receipt, or a figure of it is not of its kind.

    ``figure`` is its place, such as "told.steps".
    """

    def __init__(self, figure: str, rule: str) -> None:
        super().__init__(f"{figure}: {rule}")
        self.figure = figure


class RunNotFoundError(ExplorerError, LookupError):
    """There is no run with this id, or it is not this visitor's."""


class ClassNotFoundError(ExplorerError, LookupError):
    """There is no such class, or this visitor is not in it."""


class ClassOverError(ExplorerError, RuntimeError):
    """The class was closed, or its time is up."""


class QuotaError(ExplorerError, RuntimeError):
    """The visitor or the site has too many runs; ``retry_after`` is in seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class LeaseLostError(ExplorerError, RuntimeError):
    """Another worker owns the run now; nothing more may be written for it."""


class StorageFullError(ExplorerError, OSError):
    """The disk has no room for another event or run."""


class StorageBusyError(ExplorerError, OSError):
    """Another process held the database longer than we wait for it."""


class StorageUnreachableError(StorageBusyError):
    """The database's server does not answer; the transaction changed nothing."""


class StorageReadOnlyError(StorageBusyError):
    """The database takes no writes for now."""


class ReplayError(ExplorerError, RuntimeError):
    """A resumed run did not repeat the events it had already stored."""
