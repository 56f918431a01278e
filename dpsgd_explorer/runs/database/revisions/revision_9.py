"""Programs of checkpoints, classes whose students see themselves, /48 networks."""

import ipaddress

import sqlalchemy as sa
from alembic import op

revision = "9"
down_revision = "8"
PREFIX_BITS = 48


def upgrade() -> None:
    """Add the columns; checkpoints so far are of an unknown program."""
    program = sa.Column("program", sa.String(40), nullable=False, server_default="")
    op.add_column("checkpoints", program)
    shares = sa.Column("shares_runs", sa.Boolean, nullable=False, server_default="1")
    if op.get_bind().dialect.name == "postgresql":
        shares.server_default = sa.DefaultClause(sa.text("true"))
    op.add_column("classes", shares)
    for table in ("launches", "classes"):
        _widen_networks(table)
    # Programs of the time before Alembic read this, and refuse the number.
    op.execute("UPDATE schema_version SET version = 9")


def _widen_networks(name: str) -> None:
    """Store IPv6 networks as quotas count them: by 48 bits, in place of 64."""
    table = sa.table(name, sa.column("network", sa.String))
    connection = op.get_bind()
    stored = sa.select(table.c.network).where(table.c.network.like("%:%")).distinct()
    for network in connection.scalars(stored).all():
        wide = ipaddress.ip_network(network).supernet(new_prefix=PREFIX_BITS)
        changed = sa.update(table).where(table.c.network == network)
        connection.execute(changed.values(network=str(wide)))
