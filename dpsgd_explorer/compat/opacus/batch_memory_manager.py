"""Opacus's ``BatchMemoryManager``: batches in parts."""

from __future__ import annotations

from torch.optim import Optimizer

from dpsgd_explorer import dp
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.validation import whole

#: Upper limit of sizes of parts: more samples than any machine holds.
MAX_SAMPLES = 2**40


class BatchMemoryManager:
    """Context manager: the loader splits each batch into parts.

    ``optimizer.step()`` and ``optimizer.zero_grad()`` have no effect before the last
    part of a batch.

    Args:
        data_loader: The loader of ``make_private``.
        max_physical_batch_size: Maximum number of samples of a part.
        optimizer: Not used: the engine knows where a batch ends.

    Raises:
        ConfigError: the loader is not the loader of ``make_private``, or the size is
            not a whole number above 0.

    Example:
        >>> import torch
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> from dpsgd_explorer.compat.opacus import BatchMemoryManager, PrivacyEngine
        >>> data = TensorDataset(torch.randn(100, 3), torch.randn(100, 1))
        >>> model = torch.nn.Linear(3, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> model, optimizer, loader = PrivacyEngine().make_private(
        ...     module=model,
        ...     optimizer=optimizer,
        ...     data_loader=DataLoader(data, batch_size=20),
        ...     noise_multiplier=1.0,
        ...     max_grad_norm=1.0,
        ... )
        >>> with BatchMemoryManager(
        ...     data_loader=loader, max_physical_batch_size=4, optimizer=optimizer
        ... ) as parts:
        ...     for x, y in parts:  # x: (n, 3), n <= 4
        ...         optimizer.zero_grad()
        ...         torch.nn.functional.mse_loss(model(x), y).backward()
        ...         optimizer.step()
    """

    def __init__(
        self,
        *,
        data_loader: dp.PoissonLoader,
        max_physical_batch_size: int,
        optimizer: Optimizer,
    ) -> None:
        if not isinstance(data_loader, dp.PoissonLoader):
            raise ConfigError(
                "data_loader",
                "data_loader must be the loader that make_private returned, got a "
                f"{type(data_loader).__name__}.",
            )
        self._loader = data_loader
        self._size = whole(
            "max_physical_batch_size", max_physical_batch_size, 1, MAX_SAMPLES
        )
        self._size_outside: int | None = None

    def __repr__(self) -> str:
        return f"BatchMemoryManager({self._size} samples per part)"

    def __enter__(self) -> dp.PoissonLoader:
        self._size_outside = self._loader.physical_batch_size
        self._loader.physical_batch_size = self._size
        return self._loader

    def __exit__(self, *error: object) -> None:
        self._loader.physical_batch_size = self._size_outside
