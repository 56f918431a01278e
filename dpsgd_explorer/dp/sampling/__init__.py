"""Poisson sampling and the loader that draws by it."""
