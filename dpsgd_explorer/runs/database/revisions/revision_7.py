"""Visitors' own tables, which were files of one machine."""

import sqlalchemy as sa
from alembic import op

revision = "7"
down_revision = "6"


def upgrade() -> None:
    """Make the table; files of before are not taken over."""
    op.create_table(
        "own_tables",
        sa.Column("owner", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("stated", sa.Text),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("stored_at", sa.Float, nullable=False),
    )
    # Programs of the time before Alembic read this, and refuse the number.
    op.execute("UPDATE schema_version SET version = 7")
