"""Names of visitors' own tables."""

import sqlalchemy as sa
from alembic import op

revision = "10"
down_revision = "9"


def upgrade() -> None:
    """Add the column; tables so far have no name."""
    title = sa.Column("title", sa.String(80), nullable=False, server_default="")
    op.add_column("own_tables", title)
    # Programs of the time before Alembic read this, and refuse the number.
    op.execute("UPDATE schema_version SET version = 10")
