"""Every exception that the project raises on purpose, in one small hierarchy.

A message names the subject in the user's words, the rule, the value and the remedy.
Each docstring states when the error is raised and, after "Remedy:", what to do:
docs/reference/errors.md is written from them.
"""

from __future__ import annotations

from typing import Any


class ExplorerError(Exception):
    """Base class of all errors below: catching it never hides a bug.

    Every error can be pickled, and so sent from one process to another.

    Remedy: Catch this class to handle every error that the project raises on purpose.
    """

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.args, vars(self))


def _restored(kind: type[ExplorerError], args: Any, values: Any) -> ExplorerError:
    """Returns the error without a call of ``__init__``, whose arguments are lost."""
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(values)
    return error


class ConfigError(ExplorerError, ValueError):
    """A setting is outside its domain.

    Remedy: Change the named setting to a value that the message allows.

    Attributes:
        field: Name of the setting, or "" if the error concerns no single setting.
        fields: Message about each wrong setting, by its name.
    """

    def __init__(
        self, field: str, message: str, *, fields: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.field = field
        self.fields = fields or {field: message}


class CheckpointError(ConfigError):
    """A run cannot resume from its checkpoint.

    Remedy: Use the settings of the checkpoint, or start the run again with a new
    checkpoint file.

    Attributes:
        is_damaged: If True, the file cannot be read; else it belongs to another run.
    """

    def __init__(self, message: str, *, is_damaged: bool) -> None:
        super().__init__("checkpoint", message)
        self.is_damaged = is_damaged


class AccountingError(ExplorerError, ValueError):
    """The accountant has no valid answer: an argument is outside its domain.

    Remedy: Change the named argument, or choose another accountant.

    Attributes:
        field: Name of the argument, or "" if the error concerns no single argument.
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class PrivacyError(ExplorerError, RuntimeError):
    """The privacy guarantee would not hold if the training continued.

    Remedy: Follow the message. The page on sharp edges explains frequent causes.
    """


class PrivacyViolationError(PrivacyError):
    """The audit of a run proves that it spent more than its accountant promised.

    Remedy: Do not use the results, and report the fault to the maintainers.
    """


class UnsupportedModuleError(PrivacyError):
    """A trainable module has no layer rule, or mixes the samples of a batch.

    Remedy: Call ``make_private_ready(model)``, replace or freeze the module, or
    register a layer rule.
    """


class MixedLossError(UnsupportedModuleError):
    """The loss of a batch is not a mean or a sum of one term per sample.

    Remedy: Compute a loss for each sample, and average them with ``per_sample_mean``.
    """


class PrivacyWarning(UserWarning):
    """The reported ε may be too low: the engine cannot count every use of the data.

    Remedy: Follow the message. For example, pass an earlier engine as ``after=``.
    """


class DataError(ExplorerError, RuntimeError):
    """A data file is missing or damaged, or has another hash than expected.

    Remedy: Restore the named file. ``dpsgd data fetch`` downloads a data set again.
    """


class MissingPackageError(ExplorerError, ImportError):
    """A package of an extra is not installed.

    Remedy: Run the ``pip install`` command of the message.
    """


class DivergedError(ExplorerError, RuntimeError):
    """Parameters, gradients or scores became infinite or NaN during a run.

    Remedy: Lower the learning rate, or raise the target ε.
    """


class ReceiptError(ExplorerError, ValueError):
    """A receipt is incomplete, or one of its figures has the wrong type.

    Remedy: Export the receipt again. A receipt that was edited cannot be verified.

    Attributes:
        figure: Place of the figure, such as ``told.steps``.
    """

    def __init__(self, figure: str, rule: str) -> None:
        super().__init__(f"{figure}: {rule}")
        self.figure = figure


class RunNotFoundError(ExplorerError, LookupError):
    """No run has this id, or the run belongs to another visitor.

    Remedy: Check the address. Old runs are deleted after the retention time of the
    site.
    """


class ClassNotFoundError(ExplorerError, LookupError):
    """No class has this id, or the visitor is not a member of it.

    Remedy: Open the link that the teacher has sent.
    """


class ClassOverError(ExplorerError, RuntimeError):
    """The class was closed, or its time is over.

    Remedy: Ask the teacher for the link of another class.
    """


class QuotaError(ExplorerError, RuntimeError):
    """A visitor, a class or the site has reached a limit, such as its number of runs.

    Remedy: Follow the message. For example, stop a run, or wait until one has ended.

    Attributes:
        retry_after: Seconds after which another attempt may succeed.
    """

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class LeaseLostError(ExplorerError, RuntimeError):
    """Another worker owns the run now, so this worker may not write to it.

    Remedy: None is needed: the other worker continues the run.
    """


class StorageFullError(ExplorerError, OSError):
    """The disk has no room for another event or run.

    Remedy: Free space, for example by ``dpsgd prune``.
    """


class StorageBusyError(ExplorerError, OSError):
    """The database was locked, or all its connections were in use, for too long.

    Remedy: Try again after some seconds.
    """


class StorageUnreachableError(StorageBusyError):
    """The database server does not answer. The transaction has changed nothing.

    Remedy: Check that the server runs and can be reached, then try again.
    """


class StorageReadOnlyError(StorageBusyError):
    """The database or its disk is read-only at present.

    Remedy: Make it writable again. Stored runs can be read meanwhile.
    """


class ReplayError(ExplorerError, RuntimeError):
    """A resumed run did not repeat the events that it had already stored.

    Its noise may have been drawn twice, so the run is stopped.

    Remedy: Start the run again.
    """
