"""The same step by the engine of this site."""

from dpsgd_explorer.dp import PrivacyEngine


def private_step(model, loss, x, y, optimizer, plan):
    """Takes the same step; ``plan`` has C, σ, batch and steps."""
    engine = PrivacyEngine(model, **plan)
    engine.attach(optimizer)
    loss(model(x), y).backward()
    optimizer.step()  # clip, add, noise, divide, move
    return engine
