"""Classes: members, the shared quota, and their end."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import update

from dpsgd_explorer.errors import (
    ClassNotFoundError,
    ClassOverError,
    ConfigError,
    QuotaError,
)
from dpsgd_explorer.quotas import Quotas
from dpsgd_explorer.runs.classes import classes as module
from dpsgd_explorer.runs.classes import membership
from dpsgd_explorer.runs.classes.classes import DAY, DAYS, LAUNCHES, Classes
from dpsgd_explorer.runs.store import retention
from dpsgd_explorer.runs.store.site import class_tables as tables
from tests.runs.servers import DATABASES as DATABASES


@pytest.fixture
def opened(store, clock):
    """Returns a function that opens the classes of the store with quotas."""
    return lambda **quotas: Classes(
        store.database, clock, quotas=Quotas(**quotas), cost_limit=float("inf")
    )


@pytest.fixture
def classes(opened):
    return opened()


@pytest.fixture
def physics(classes):
    """A class of "teacher" that ann and bob joined."""
    made = classes.create("Physics", visitor="teacher")
    classes.join(made.id, "ann", "Ann")
    return classes.join(made.id, "bob")


def launched(classes, config, made, visitor):
    return classes.launch(config, class_id=made.id, visitor=visitor).id


def test_a_class_has_one_quota_and_one_term(classes):
    physics = classes.create("  Physics  class ", visitor="teacher", setup="seed=1")
    assert (physics.name, physics.setup) == ("Physics class", "seed=1")
    assert (physics.launches, physics.launched) == (LAUNCHES, 0)
    assert physics.ends_at == physics.created_at + DAYS * DAY
    assert physics.member("teacher").is_teacher
    maths = classes.create("Maths", visitor="teacher")
    assert {one.id for one in classes.of("teacher")} == {physics.id, maths.id}


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("name", {"name": " "}),
        ("name", {"name": "x" * 61}),
        ("name", {"name": "two\nlines"}),
        ("setup", {"setup": "x" * 2001}),
    ],
)
def test_an_invalid_value_of_a_class_is_named(classes, field, values):
    with pytest.raises(ConfigError) as refused:
        classes.create(**{"name": "Physics", "visitor": "teacher", **values})
    assert refused.value.field == field
    assert classes.of("teacher") == []


def test_a_visitor_and_a_network_create_few_classes_a_day(opened, clock):
    classes = opened(launches_a_day=20)

    def create(visitor, network="192.0.2.0/24"):
        return classes.create("A", visitor=visitor, network=network)

    for i in range(module.MAX_CLASSES_A_DAY):
        made = create(f"visitor {i}")
    classes.delete(made.id, f"visitor {i}")  # still counts
    with pytest.raises(QuotaError, match="already created 6 classes"):
        create("another")
    for _ in range(module.MAX_CLASSES_A_DAY):
        create("ann", network="")  # an exempt network is not counted, a visitor is
    with pytest.raises(QuotaError):
        create("ann", network="")
    clock.forward(DAY + 1)
    create("another")


def test_a_site_without_a_daily_limit_has_none_for_classes(classes):
    for _ in range(module.MAX_CLASSES_A_DAY + 1):
        classes.create("A", visitor="ann", network="192.0.2.0/24")


def test_students_are_numbered_and_named_apart(classes, physics):
    classes.join(physics.id, "cy", "ann")
    classes.join(physics.id, "dan", "Teacher")
    found = classes.get(physics.id, "bob")
    names = {member.number: member.name for member in found.members}
    assert names == {
        0: "Teacher",
        1: "Ann (1)",
        2: "Student 2",
        3: "ann (3)",
        4: "Teacher (4)",
    }
    again = classes.join(physics.id, "bob", "Bob")  # has joined already
    assert again == found
    assert classes.join(physics.id, "teacher", "Me").member("teacher").is_teacher


@pytest.mark.parametrize("nickname", ["x" * 31, "two\x00", "\ud800"])
def test_an_invalid_nickname_is_rejected(classes, physics, nickname):
    with pytest.raises(ConfigError, match="nickname must have at most 30"):
        classes.join(physics.id, "cy", nickname)


def test_ten_students_join_at_once_and_the_next_finds_it_full(classes, monkeypatch):
    monkeypatch.setattr(membership, "MAX_STUDENTS", 10)
    made = classes.create("Physics", visitor="teacher")
    visitors = [f"visitor {i}" for i in range(10)]
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda visitor: classes.join(made.id, visitor), visitors))
    found = classes.get(made.id, "teacher")
    assert [one.number for one in found.students] == list(range(1, 11))
    with pytest.raises(QuotaError, match="already has 10 students"):
        classes.join(made.id, "visitor 10")
    classes.join(made.id, "visitor 3")  # is in it already
    classes.leave(made.id, "visitor 0")
    assert classes.join(made.id, "visitor 10").member("visitor 10").number == 11


def test_launches_count_for_the_class_and_not_for_visitor_or_network(
    store, limited, clock, config
):
    quotas = Quotas(launches_a_day=1, network_launches_a_day=1)
    classes = Classes(store.database, clock, quotas=quotas, cost_limit=float("inf"))
    made = classes.create("Physics", visitor="teacher")
    classes.join(made.id, "ann")
    for _ in range(3):
        launched(classes, config, made, "ann")
    own = limited(launches_a_day=1, network_launches_a_day=1)
    own.create(config, visitor="ann", network="192.0.2.0/24")
    with pytest.raises(QuotaError, match="1 launches in the last 24 hours"):
        own.create(config, visitor="ann", network="198.51.100.0/24")


def test_all_members_share_one_quota(classes, config, monkeypatch):
    monkeypatch.setattr(module, "LAUNCHES", 3)
    made = classes.create("Physics", visitor="teacher")
    for visitor in ("ann", "bob"):
        classes.join(made.id, visitor)
    for visitor in ("ann", "bob", "teacher"):
        launched(classes, config, made, visitor)
    classes.leave(made.id, "ann")  # frees no quota
    with pytest.raises(QuotaError, match="launched 3 runs, the maximum") as refused:
        launched(classes, config, made, "bob")
    assert 0 < refused.value.retry_after <= DAYS * DAY
    assert classes.get(made.id, "bob").launched == 3


def test_a_rejected_launch_does_not_count(opened, config):
    classes = opened(queued=1)
    made = classes.create("Physics", visitor="teacher")
    launched(classes, config, made, "teacher")
    with pytest.raises(QuotaError, match="1 launches in the queue"):
        launched(classes, config, made, "teacher")
    assert classes.get(made.id, "teacher").launched == 1


def test_students_take_turns_in_the_queue(classes, store, config, physics, clock):
    mine = []
    for _ in range(3):
        mine.append(launched(classes, config, physics, "ann"))
        clock.forward(1)
    other = launched(classes, config, physics, "bob")
    assert [store.queue_place(run).position for run in (*mine, other)] == [1, 3, 4, 2]


def test_only_members_launch_and_see_the_roster(classes, config, physics):
    run_id = launched(classes, config, physics, "ann")
    [row] = classes.roster(physics, "bob")
    assert (row.run.id, row.member.number) == (run_id, 1)
    events = classes.events(physics, "bob", 0, 10)
    assert [(one.run_id, one.kind) for one in events] == [(run_id, "state")]
    assert classes.events(physics, "bob", events[-1].id, 10) == []
    for visitor in ("eve", ""):
        with pytest.raises(ClassNotFoundError, match="not joined it"):
            classes.get(physics.id, visitor)
        with pytest.raises(ClassNotFoundError):
            launched(classes, config, physics, visitor)
    with pytest.raises(ClassNotFoundError):
        classes.find("none")


def test_each_change_has_a_number(classes, config, physics):
    seen = [physics.version]
    for act in (
        lambda: launched(classes, config, physics, "ann"),
        lambda: classes.join(physics.id, "cy"),
        lambda: classes.leave(physics.id, "cy"),
        lambda: classes.close(physics.id, "teacher"),
    ):
        act()
        seen.append(classes.get(physics.id, "ann").version)
    assert seen == sorted(set(seen))


def test_a_teacher_removes_a_student_with_all_runs(classes, store, config, physics):
    first, second = (launched(classes, config, physics, "ann") for _ in range(2))
    other = launched(classes, config, physics, "bob")
    with pytest.raises(ClassNotFoundError):
        classes.remove_student(physics.id, 2, "ann")
    with pytest.raises(ConfigError, match="number must be the number of a student"):
        classes.remove_student(physics.id, 9, "teacher")
    classes.remove_student(physics.id, 1, "teacher")
    assert [row.run.id for row in classes.roster(physics, "teacher")] == [other]
    with pytest.raises(ClassNotFoundError, match="removed you"):
        classes.join(physics.id, "ann")
    with pytest.raises(ClassNotFoundError):
        launched(classes, config, physics, "ann")
    assert {run.id for run in store.runs_of("ann")} == {first, second}
    assert classes.get(physics.id, "teacher").launched == 3  # frees no quota


@pytest.mark.parametrize("end", ["closed", "its time is up"])
def test_a_class_that_is_over_can_be_read_and_not_joined(
    classes, config, physics, clock, end
):
    if end == "closed":
        classes.close(physics.id, "teacher")
    else:
        clock.forward(DAYS * DAY)
    with pytest.raises(ClassOverError, match="from your teacher"):
        classes.join(physics.id, "cy")
    with pytest.raises(ClassOverError):
        launched(classes, config, physics, "ann")
    assert classes.get(physics.id, "ann").is_over
    assert classes.teach(physics.id, "another browser").member("another browser")


def test_a_deleted_class_leaves_its_runs_going(classes, store, config, physics):
    run_id = launched(classes, config, physics, "ann")
    with pytest.raises(ClassNotFoundError):
        classes.delete(physics.id, "ann")
    classes.delete(physics.id, "teacher")
    with pytest.raises(ClassNotFoundError):
        classes.get(physics.id, "ann")
    assert classes.of("ann") == []
    assert store.get(run_id).state == "queued"
    assert store.leases.claim(run_id)


def test_a_teacher_closes_a_class_and_does_not_leave_it(classes, physics):
    classes.teach(physics.id, "ann")  # the teacher's link, in another browser
    for teacher in ("teacher", "ann"):
        with pytest.raises(ConfigError, match="Close the class, or delete it"):
            classes.leave(physics.id, teacher)
    assert classes.close(physics.id, "ann").is_over


def test_a_forgotten_visitor_is_in_no_class(classes, store, config, physics):
    launched(classes, config, physics, "ann")
    store.forget_visitor("ann")
    found = classes.get(physics.id, "bob")
    assert [one.visitor for one in found.students] == ["bob"]
    assert classes.roster(physics, "bob") == []
    assert found.launched == 1
    store.forget_visitor("teacher")
    with pytest.raises(ClassNotFoundError):
        classes.get(physics.id, "bob")


def test_a_forgotten_teacher_still_counts_for_the_network(opened, store):
    classes = opened(launches_a_day=20)
    for _ in range(module.MAX_CLASSES_A_DAY):
        classes.create("A", visitor="ann", network="192.0.2.0/24")
    store.forget_visitor("ann")
    with pytest.raises(QuotaError):
        classes.create("A", visitor="bob", network="192.0.2.0/24")


def test_a_deleted_run_leaves_the_roster_and_comes_back(
    classes, store, config, physics
):
    run_id = launched(classes, config, physics, "ann")
    store.delete(run_id, "ann")
    assert classes.roster(physics, "bob") == []
    assert classes.events(physics, "bob", 0, 10) == []
    store.restore(run_id, "ann")
    assert [row.run.id for row in classes.roster(physics, "bob")] == [run_id]


def test_old_classes_are_swept_with_old_runs(classes, store, physics, clock):
    classes.close(physics.id, "teacher")
    clock.forward(2 * DAY)
    retention.step(store, 3)
    assert classes.get(physics.id, "ann")
    clock.forward(2 * DAY)
    retention.step(store, 3)
    with pytest.raises(ClassNotFoundError):
        classes.get(physics.id, "ann")


def test_a_class_of_an_earlier_version_keeps_its_quota_and_its_end(
    classes, store, config, physics, clock
):
    """Its teacher chose both, and a quota per student that is no longer read."""
    with store.database.write() as connection:
        values = {"launches": 1, "launches_each": 1, "ends_at": clock() + DAY}
        connection.execute(update(tables.classes).values(values))
        former = {"nickname": "Ann", "launched": 1}
        connection.execute(update(tables.class_members).values(former))
    launched(classes, config, physics, "ann")
    with pytest.raises(QuotaError, match="launched 1 runs"):
        launched(classes, config, physics, "bob")
    clock.forward(DAY)
    assert classes.get(physics.id, "ann").is_over


def test_a_teacher_who_left_under_an_earlier_version_returns_as_a_student(
    classes, store, physics
):
    with store.database.write() as connection:
        is_ann = tables.class_members.c.visitor == "ann"
        left = update(tables.class_members).where(is_ann)
        connection.execute(left.values(number=0, left_at=1.0))
    assert not classes.join(physics.id, "ann").member("ann").is_teacher
