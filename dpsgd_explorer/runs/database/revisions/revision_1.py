"""The tables of the first version."""

revision = "1"
down_revision = None


def upgrade() -> None:
    """Do nothing: a database of that version has them."""
