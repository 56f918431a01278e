"""The tables that were made at start before there was Alembic."""

import sqlalchemy as sa
from alembic import op

revision = "5"
down_revision = "4"


def _launches() -> None:
    columns = (
        sa.Column("run_id", sa.String(43), primary_key=True),
        sa.Column("visitor", sa.String(64), nullable=False),
        sa.Column("network", sa.String(43), nullable=False),
        sa.Column("launch", sa.String(60), nullable=False),
        sa.Column("cost", sa.Float, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("joined", sa.Integer, nullable=False),
        sa.Column("started", sa.Integer),
    )
    op.create_table("launches", *columns, if_not_exists=True)
    for whose in ("visitor", "network"):
        name = f"launches_of_{whose}"
        op.create_index(name, "launches", [whose, "at"], if_not_exists=True)


def _groups_and_weights() -> None:
    op.create_table(
        "groups",
        sa.Column("id", sa.String(43), primary_key=True),
        sa.Column("visitor", sa.String(64), nullable=False),
        sa.Column("purpose", sa.String(20), nullable=False),
        sa.Column("setting", sa.String(40), nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "weights",
        sa.Column("run_id", sa.String(43), primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("stored_at", sa.Float, nullable=False),
        if_not_exists=True,
    )


def upgrade() -> None:
    """Make the tables."""
    _launches()
    _groups_and_weights()
    # Programs of the time before Alembic read this, and refuse the number.
    op.execute("UPDATE schema_version SET version = 5")
