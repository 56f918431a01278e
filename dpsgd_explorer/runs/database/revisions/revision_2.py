"""Launches count turns of the queue, and runs name the process that holds them."""

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Forget the launches of the last day; bring up the runs."""
    op.drop_table("launches")
    op.add_column("runs", sa.Column("holder", sa.String(120)))
