"""Notes, stars, deleted runs, and the orders of visitors."""

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Add the columns."""
    note = sa.Column("note", sa.String(500), nullable=False, server_default="")
    starred = sa.Column("starred", sa.Boolean, nullable=False, server_default="0")
    op.add_column("runs", note)
    op.add_column("runs", starred)
    op.add_column("runs", sa.Column("deleted_at", sa.Float))
    op.create_index("deleted_runs", "runs", ["deleted_at"])
    op.add_column("runs", sa.Column("until_step", sa.Integer))
    op.add_column("runs", sa.Column("changes", sa.Text))
