"""Titles of runs, which every list computed from all runs of its visitor."""

import sqlalchemy as sa
from alembic import op

revision = "8"
down_revision = "7"


def upgrade() -> None:
    """Add the column; runs of before are named as they are read."""
    op.add_column("runs", sa.Column("title", sa.Text))
    op.execute("UPDATE schema_version SET version = 8")
