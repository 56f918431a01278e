"""Counters, signs of workers, orders of the operator."""

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"


def upgrade() -> None:
    """Make the tables; a file of that version has them."""
    op.create_table(
        "counters",
        sa.Column("name", sa.String(20), primary_key=True),
        sa.Column("kind", sa.String(20), primary_key=True),
        sa.Column("state", sa.String(12), primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "workers",
        sa.Column("name", sa.String(120), primary_key=True),
        sa.Column("host", sa.String(80), nullable=False),
        sa.Column("version", sa.String(20), nullable=False),
        sa.Column("places", sa.Integer, nullable=False),
        sa.Column("busy", sa.Integer, nullable=False),
        sa.Column("started_at", sa.Float, nullable=False),
        sa.Column("seen_at", sa.Float, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "orders",
        sa.Column("name", sa.String(20), primary_key=True),
        sa.Column("given_at", sa.Float, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "ended_runs",
        sa.Column("run_id", sa.String(43), primary_key=True),
        sa.Column("ended_at", sa.Float, nullable=False),
        if_not_exists=True,
    )
