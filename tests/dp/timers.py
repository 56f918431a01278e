"""A timer in place of ``method_times`` that says which norm methods are quick."""

from dpsgd_explorer.dp.engines import hooks
from dpsgd_explorer.dp.engines.methods.method_cache import MethodCache


class Timer:
    """Says that some methods are quick, and remembers what it was asked."""

    def __init__(self, *quick):
        self.quick, self.asked = quick, []

    def __call__(self, call, methods, keeps, batch_size):
        shape = tuple(call.backprops.shape[1:])
        self.asked.append((shape, tuple(methods), keeps, batch_size))
        return {m: 1.0 if m in self.quick else 2.0 for m in methods}


def refuse_timing(*args):
    raise AssertionError("nothing is to be measured")


def prefer(monkeypatch, *quick):
    """Let engines ask such a timer, with nothing cached; return it."""
    timer = Timer(*quick)
    monkeypatch.setattr(hooks, "method_times", timer)
    monkeypatch.setattr(MethodCache, "_of_user", MethodCache())
    return timer


def refuse(monkeypatch):
    """Let a test fail whose engines ask any timer."""
    monkeypatch.setattr(hooks, "method_times", refuse_timing)
    monkeypatch.setattr(MethodCache, "_of_user", MethodCache())
