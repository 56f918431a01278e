"""Tables of classes: a teacher's group of visitors with a shared quota.

No secret of a link is stored: links are signed with the key of the site, see ``web``.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, Index, Integer, String, Table

from dpsgd_explorer.runs.store.site.tables import metadata

# Times are unix seconds.  The row of a deleted class remains for a day, without name,
# members and runs, because it counts for its creator's daily number of classes.
classes = Table(
    "classes",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("name", String(60), nullable=False),
    # Creator, for quotas:
    Column("maker", String(64), nullable=False),
    Column("network", String(43), nullable=False),
    # Query string of the trainer page that students start from; "" is the default.
    Column("setup", String(2000), nullable=False),
    # Maximum number of runs of all members together.
    Column("launches", Integer, nullable=False),
    # Not read since decision 0030; new classes store 0.
    Column("launches_each", Integer, nullable=False, default=0),
    Column("launched", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("ends_at", Float, nullable=False),
    Column("closed_at", Float),
    Column("deleted_at", Float),
    # If True, students see each other and each other's runs.
    Column("shares_runs", Boolean, nullable=False, default=True, server_default="1"),
    # Numbers of the valid links (above 1 only in classes whose links were replaced
    # before decision 0030), of the last student and of the last change.
    Column("links", Integer, nullable=False),
    Column("students", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Index("classes_of_maker", "maker", "created_at"),
    Index("classes_of_network", "network", "created_at"),
)

# Members who left or were removed keep their rows: a removed student cannot return.
class_members = Table(
    "class_members",
    metadata,
    Column("class_id", String(16), primary_key=True),
    Column("visitor", String(64), primary_key=True),
    Column("number", Integer, nullable=False),  # 1, 2, … of students; 0: a teacher
    Column("nickname", String(30), nullable=False),
    # Not read since decision 0030; new members store 0.
    Column("launched", Integer, nullable=False, default=0),
    Column("joined_at", Float, nullable=False),
    Column("left_at", Float),
    Column("removed", Boolean, nullable=False),
    Index("classes_of_visitor", "visitor"),
)

class_runs = Table(
    "class_runs",
    metadata,
    Column("run_id", String(43), primary_key=True),
    Column("class_id", String(16), nullable=False, index=True),
)
