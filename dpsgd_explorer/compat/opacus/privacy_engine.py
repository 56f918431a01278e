"""Opacus's ``PrivacyEngine``."""

from __future__ import annotations

import warnings
from os import PathLike
from typing import IO, Any, Unpack

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from dpsgd_explorer import dp
from dpsgd_explorer.compat.opacus.arguments import (
    CLIPPING,
    GRAD_SAMPLE_MODES,
    Options,
    adaptive_clipping,
    checked,
    checked_size,
)
from dpsgd_explorer.compat.opacus.module_validator import ModuleValidator
from dpsgd_explorer.errors import (
    ConfigError,
    PrivacyError,
    PrivacyWarning,
    UnsupportedModuleError,
)
from dpsgd_explorer.validation import one_of

#: Accountant of this library by its name in Opacus.
ACCOUNTANTS: dict[str, Any] = {"prv": "exact", "rdp": "rdp"}


class PrivacyEngine:
    """Opacus's ``PrivacyEngine`` over this library's engine.

    Args:
        accountant: "prv", the exact accountant of this library; or "rdp".
        secure_mode: Accepted; noise is unpredictable with either value.

    Attributes:
        engine: The ``dp.PrivacyEngine`` of the last ``make_private``, or None.

    Raises:
        ConfigError: the accountant is "gdp", whose epsilon is an approximation, or has
            another name.

    Source: Yousefpour et al. (2021), arXiv:2109.12298 (Opacus).

    Example:
        >>> import torch
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> from dpsgd_explorer.compat.opacus import PrivacyEngine
        >>> data = TensorDataset(torch.randn(100, 3), torch.randint(0, 2, (100,)))
        >>> model = torch.nn.Linear(3, 2)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> privacy_engine = PrivacyEngine()
        >>> model, optimizer, loader = privacy_engine.make_private(
        ...     module=model,
        ...     optimizer=optimizer,
        ...     data_loader=DataLoader(data, batch_size=20, shuffle=True),
        ...     noise_multiplier=1.5,
        ...     max_grad_norm=1.0,
        ... )
        >>> for x, y in loader:
        ...     optimizer.zero_grad()
        ...     torch.nn.functional.cross_entropy(model(x), y).backward()
        ...     optimizer.step()
        >>> round(privacy_engine.get_epsilon(delta=1e-3), 2)
        1.09
    """

    def __init__(self, *, accountant: str = "prv", secure_mode: bool = False) -> None:
        if accountant == "gdp":
            raise ConfigError(
                "accountant",
                'accountant must be "prv" or "rdp": the epsilon of "gdp" is an '
                "approximation that may be too small.",
            )
        self._accounting_mode = ACCOUNTANTS[
            one_of("accountant", accountant, ACCOUNTANTS)
        ]
        self.secure_mode = secure_mode
        self.engine: dp.PrivacyEngine | None = None

    def __repr__(self) -> str:
        return f"PrivacyEngine(accountant={self._accounting_mode!r}, {self.engine!r})"

    def make_private(
        self,
        *,
        module: nn.Module,
        optimizer: Optimizer,
        data_loader: DataLoader[Any],
        noise_multiplier: float,
        max_grad_norm: float | list[float],
        **options: Unpack[Options],
    ) -> tuple[Any, ...]:
        """Makes the steps of the optimizer private, for any number of epochs.

        Args:
            module: The model, with inputs of shape ``(B, ...)``.
            optimizer: Its optimizer.
            data_loader: Its data set, batch size, collate function and workers are
                used.  Its sampler is replaced by Poisson sampling.
            noise_multiplier: Standard deviation of the noise divided by the bound.
            max_grad_norm: Clipping bound; with ``clipping="per_layer"`` a list with one
                bound for each parameter.
            options: Further arguments; see ``Options``.

        Returns:
            ``(module, optimizer, data_loader)``, or with ``grad_sample_mode="ghost"``
            ``(module, optimizer, criterion, data_loader)``.  Module, optimizer and
            criterion are the objects that were passed.

        Raises:
            ConfigError: an argument has no equivalent here, or is outside its domain.
            UnsupportedModuleError: the model cannot be trained with the guarantee.
        """
        length = {"noise_multiplier": noise_multiplier}
        return self._attach(
            module, optimizer, data_loader, max_grad_norm, length, options
        )

    def make_private_with_epsilon(
        self,
        *,
        module: nn.Module,
        optimizer: Optimizer,
        data_loader: DataLoader[Any],
        target_epsilon: float,
        target_delta: float,
        epochs: int,
        max_grad_norm: float | list[float],
        **options: Unpack[Options],
    ) -> tuple[Any, ...]:
        """Makes the steps of the optimizer private, with the noise for a target.

        Args:
            module: See ``make_private``.
            optimizer: See ``make_private``.
            data_loader: See ``make_private``.
            target_epsilon: Epsilon after all epochs.
            target_delta: Delta, below 1/N.
            epochs: Number of epochs.  After them the loader raises ``PrivacyError``.
            max_grad_norm: See ``make_private``.
            options: Further arguments; see ``Options``.

        Returns:
            As ``make_private``.

        Raises:
            ConfigError: an argument has no equivalent here, or is outside its domain.
            UnsupportedModuleError: the model cannot be trained with the guarantee.

        Warns:
            PrivacyWarning: the engine has made steps before, which the target excludes.
        """
        if self.engine is not None and self.engine.steps_done:
            warnings.warn(
                "target_epsilon excludes the steps that this engine made before; "
                "get_epsilon includes them.",
                PrivacyWarning,
                stacklevel=2,
            )
        length = {
            "target_epsilon": target_epsilon,
            "target_delta": target_delta,
            "epochs": epochs,
        }
        return self._attach(
            module, optimizer, data_loader, max_grad_norm, length, options
        )

    def _attach(
        self,
        module: nn.Module,
        optimizer: Optimizer,
        data_loader: DataLoader[Any],
        max_grad_norm: float | list[float],
        length: dict[str, Any],
        given: Options,
    ) -> tuple[Any, ...]:
        options = checked(given)
        if self.engine is not None and self.engine.module is not module:
            raise ConfigError(
                "module",
                "module must be the model of the first make_private: an engine trains "
                "one model. Create a PrivacyEngine for each model. All models together "
                "spend at most the sum of their epsilons, at the sum of their deltas.",
            )
        size = checked_size(data_loader)
        poisson = options["poisson_sampling"]
        engine = dp.PrivacyEngine(
            module,
            batch_size=data_loader.batch_size,
            sample_size=size,
            max_grad_norm=max_grad_norm,
            loss_reduction=options["loss_reduction"],
            accounting_mode=self._accounting_mode,
            sampling="poisson" if poisson else "unchecked",
            clipping_schedule=adaptive_clipping(options),
            after=self.engine,
            **length,
            **GRAD_SAMPLE_MODES[options["grad_sample_mode"]],
            **CLIPPING[options["clipping"]],
        )
        loader: Any = data_loader
        if poisson:
            loader = engine.poisson_loader(
                data_loader.dataset,
                collate=data_loader.collate_fn,
                num_workers=data_loader.num_workers,
            )
        if self.engine is not None:
            self.engine.detach()
        engine.attach(optimizer)
        self.engine = engine
        if options["grad_sample_mode"] == "ghost":
            return module, optimizer, options["criterion"], loader
        return module, optimizer, loader

    @property
    def accountant(self) -> dp.PrivacyEngine:
        """The engine, whose ``get_epsilon(delta)`` has the name of an accountant's.

        Raises:
            PrivacyError: ``make_private`` was not called.
        """
        return self._made()

    def get_epsilon(self, delta: float) -> float:
        """Returns the epsilon of the steps done so far.

        Args:
            delta: Delta, between 0 and 1.

        Raises:
            PrivacyError: ``make_private`` was not called, or the assumptions of the
                accountant do not hold.
        """
        engine = self._made()
        try:
            return engine.get_epsilon(delta)
        except PrivacyError as error:
            if engine.options.sampling == "unchecked":
                error.add_note("Leave out poisson_sampling=False to draw such batches.")
            raise

    def save_checkpoint(
        self,
        *,
        path: str | PathLike[str] | IO[bytes],
        module: nn.Module,
        optimizer: Optimizer | None = None,
        checkpoint_dict: dict[str, Any] | None = None,
        module_state_dict_kwargs: dict[str, Any] | None = None,
        torch_save_kwargs: dict[str, Any] | None = None,
    ) -> None:
        """Saves the states of model, optimizer and engine.

        Args:
            path: File to write.
            module: The model.
            optimizer: Its optimizer; None saves no state of it.
            checkpoint_dict: Further values to save.
            module_state_dict_kwargs: Arguments of ``module.state_dict``.
            torch_save_kwargs: Arguments of ``torch.save``.

        Raises:
            PrivacyError: ``make_private`` was not called, or a batch is between its
                draw and its step.
        """
        saved = dict(checkpoint_dict or {})
        saved["module_state_dict"] = module.state_dict(
            **(module_state_dict_kwargs or {})
        )
        saved["privacy_engine_state_dict"] = self._made().state_dict()
        if optimizer is not None:
            saved["optimizer_state_dict"] = optimizer.state_dict()
        torch.save(saved, path, **(torch_save_kwargs or {}))

    def load_checkpoint(
        self,
        *,
        path: str | PathLike[str] | IO[bytes],
        module: nn.Module,
        optimizer: Optimizer | None = None,
        module_load_dict_kwargs: dict[str, Any] | None = None,
        torch_load_kwargs: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Continues a run from a checkpoint, after ``make_private``.

        Args:
            path: File of ``save_checkpoint``.
            module: The model.
            optimizer: Its optimizer; None restores no state of it.
            module_load_dict_kwargs: Arguments of ``module.load_state_dict``.
            torch_load_kwargs: Arguments of ``torch.load``.

        Returns:
            Everything that the file contains.

        Raises:
            ConfigError: the checkpoint belongs to a run with other settings.
            PrivacyError: ``make_private`` was not called.
        """
        saved: dict[str, Any] = torch.load(path, **(torch_load_kwargs or {}))
        # The engine is first, since it rejects the state of another run.
        self._made().load_state_dict(saved["privacy_engine_state_dict"])
        module.load_state_dict(
            saved["module_state_dict"], **(module_load_dict_kwargs or {})
        )
        if optimizer is not None:
            optimizer.load_state_dict(saved["optimizer_state_dict"])
        return saved

    def is_compatible(
        self, *, module: nn.Module, optimizer: Optimizer, data_loader: DataLoader[Any]
    ) -> bool:
        """Returns True if ``make_private`` accepts the module and the loader."""
        try:
            self.validate(module=module, optimizer=optimizer, data_loader=data_loader)
        except (ConfigError, UnsupportedModuleError):
            return False
        return True

    def validate(
        self, *, module: nn.Module, optimizer: Optimizer, data_loader: DataLoader[Any]
    ) -> None:
        """Checks a module and a loader.

        Args:
            module: The model.
            optimizer: Not used, as in Opacus.
            data_loader: The loader.

        Raises:
            ConfigError: the loader cannot be sampled from.
            UnsupportedModuleError: the module contains unsupported layers.
        """
        ModuleValidator.validate(module, strict=True)
        checked_size(data_loader)

    @classmethod
    def get_compatible_module(cls, module: nn.Module) -> nn.Module:
        """Returns a repaired copy of a module; see ``ModuleValidator.fix``."""
        return ModuleValidator.fix(module)

    def _made(self) -> dp.PrivacyEngine:
        if self.engine is None:
            raise PrivacyError("no run was made private yet. Call make_private first.")
        return self.engine
