"""Classes, their members and runs; launches that count for a class."""

import sqlalchemy as sa
from alembic import op

revision = "6"
down_revision = "5"


def _classes() -> None:
    op.create_table(
        "classes",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(60), nullable=False),
        sa.Column("maker", sa.String(64), nullable=False),
        sa.Column("network", sa.String(43), nullable=False),
        sa.Column("setup", sa.String(2000), nullable=False),
        sa.Column("launches", sa.Integer, nullable=False),
        sa.Column("launches_each", sa.Integer, nullable=False),
        sa.Column("launched", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("ends_at", sa.Float, nullable=False),
        sa.Column("closed_at", sa.Float),
        sa.Column("deleted_at", sa.Float),
        sa.Column("links", sa.Integer, nullable=False),
        sa.Column("students", sa.Integer, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
    )
    for whose in ("maker", "network"):
        op.create_index(f"classes_of_{whose}", "classes", [whose, "created_at"])


def _members_and_runs() -> None:
    op.create_table(
        "class_members",
        sa.Column("class_id", sa.String(16), primary_key=True),
        sa.Column("visitor", sa.String(64), primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("nickname", sa.String(30), nullable=False),
        sa.Column("launched", sa.Integer, nullable=False),
        sa.Column("joined_at", sa.Float, nullable=False),
        sa.Column("left_at", sa.Float),
        sa.Column("removed", sa.Boolean, nullable=False),
    )
    op.create_index("classes_of_visitor", "class_members", ["visitor"])
    op.create_table(
        "class_runs",
        sa.Column("run_id", sa.String(43), primary_key=True),
        sa.Column("class_id", sa.String(16), nullable=False),
    )
    op.create_index("ix_class_runs_class_id", "class_runs", ["class_id"])


def upgrade() -> None:
    """Make the tables; launches so far count for no class."""
    _classes()
    _members_and_runs()
    class_id = sa.Column("class_id", sa.String(16), nullable=False, server_default="")
    op.add_column("launches", class_id)
    # Programs of the time before Alembic read this, and refuse the number.
    op.execute("UPDATE schema_version SET version = 6")
