"""Classes: joined by many, launched for within one quota, gone without its runs."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from dpsgd_explorer.errors import (
    ClassNotFoundError,
    ClassOverError,
    ConfigError,
    QuotaError,
    RunNotFoundError,
)
from dpsgd_explorer.quotas import QUOTAS, Quotas
from dpsgd_explorer.runs.classes.classes import DAY, Classes
from dpsgd_explorer.runs.classes.plan import ClassPlan
from dpsgd_explorer.runs.classes.records import names_of
from dpsgd_explorer.runs.store import retention
from tests.runs.servers import DATABASES as DATABASES


@pytest.fixture
def opened(store, clock):
    """Give the classes of the store under some quotas."""
    return lambda **quotas: Classes(
        store.database, clock, quotas=Quotas(**quotas), cost_limit=float("inf")
    )


@pytest.fixture
def classes(opened):
    return opened()


@pytest.fixture
def physics(classes):
    """A class of "teacher" that ann and bob joined."""
    made = classes.make(ClassPlan(name="Physics"), visitor="teacher")
    classes.join(made.id, "ann", "Ann")
    return classes.join(made.id, "bob")


def launched(classes, config, made, visitor):
    return classes.launch(config, class_id=made.id, visitor=visitor)


def test_a_class_is_made_as_asked_or_as_usual(opened):
    classes = opened(class_launches_usual=30, class_launches_each=3)
    usual = classes.make(ClassPlan(name="  Usual  class "), visitor="teacher")
    assert (usual.name, usual.launches, usual.launches_each) == ("Usual class", 30, 3)
    assert usual.ends_at == usual.created_at + 14 * DAY
    plan = ClassPlan(name="Own", launches=5, launches_each=2, days=1, setup="seed=1")
    own = classes.make(plan, visitor="teacher")
    assert (own.launches, own.launches_each, own.setup) == (5, 2, "seed=1")
    assert own.ends_at == own.created_at + DAY
    assert [one.id for one in classes.of("teacher")] == [usual.id, own.id]
    assert own.member("teacher").is_teacher


@pytest.mark.parametrize(
    ("field", "plan"),
    [
        ("name", {"name": " "}),
        ("name", {"name": "x" * 61}),
        ("name", {"name": "two\nlines"}),
        ("launches", {"launches": 0}),
        ("launches", {"launches": 101}),
        ("launches_each", {"launches": 5, "launches_each": 6}),
        ("launches_each", {"launches_each": 0}),
        ("days", {"days": 0}),
        ("days", {"days": 31}),
        ("setup", {"setup": "x" * 2001}),
    ],
)
def test_a_plan_outside_its_domain_names_what_is_wrong(opened, field, plan):
    classes = opened(class_launches=100, class_days=30)
    with pytest.raises(ConfigError) as refused:
        classes.make(ClassPlan(**{"name": "Physics", **plan}), visitor="teacher")
    assert refused.value.field == field
    assert classes.of("teacher") == []


def test_so_many_classes_a_day_are_made_by_a_visitor_or_a_network(opened, clock):
    classes = opened(classes_a_day=2, network_classes_a_day=3)
    for _ in range(2):
        made = classes.make(ClassPlan(name="A"), visitor="ann", network="192.0.2.0/24")
        classes.delete(made.id, "ann")  # it counts all the same
    with pytest.raises(QuotaError, match="You already created 2 classes"):
        classes.make(ClassPlan(name="A"), visitor="ann", network="192.0.2.0/24")
    classes.make(ClassPlan(name="A"), visitor="bob", network="192.0.2.0/24")
    with pytest.raises(
        QuotaError, match=r"network 192[.]0[.]2[.]0/24 already created 3"
    ):
        classes.make(ClassPlan(name="A"), visitor="cy", network="192.0.2.0/24")
    for visitor in ("cy", "dan", "eve", "fay"):  # an exempt network counts nothing
        classes.make(ClassPlan(name="A"), visitor=visitor)
    clock.forward(DAY + 1)
    classes.make(ClassPlan(name="A"), visitor="ann", network="192.0.2.0/24")


def test_students_are_numbered_and_named_apart(classes, physics):
    classes.join(physics.id, "cy", "ann")
    classes.join(physics.id, "dan", "Teacher")
    found = classes.get(physics.id, "bob")
    assert names_of(found.members) == {
        0: "Teacher",
        1: "Ann (1)",
        2: "Student 2",
        3: "ann (3)",
        4: "Teacher (4)",
    }
    again = classes.join(physics.id, "bob", "Bob")
    assert names_of(again.members)[2] == "Bob"
    assert len(again.students) == 4
    assert classes.join(physics.id, "teacher", "Me").member("teacher").is_teacher


@pytest.mark.parametrize("nickname", ["x" * 31, "two\x00", "\ud800"])
def test_a_nickname_that_is_none_is_refused(classes, physics, nickname):
    with pytest.raises(ConfigError, match="nickname must have at most 30"):
        classes.join(physics.id, "cy", nickname)


def test_ten_students_join_at_once_and_the_next_finds_it_full(opened):
    classes = opened(class_students=10)
    made = classes.make(ClassPlan(name="Physics"), visitor="teacher")
    visitors = [f"visitor {i}" for i in range(10)]
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda visitor: classes.join(made.id, visitor), visitors))
    found = classes.get(made.id, "teacher")
    assert [one.number for one in found.students] == list(range(1, 11))
    with pytest.raises(QuotaError, match="already has 10 students"):
        classes.join(made.id, "visitor 10")
    classes.join(made.id, "visitor 3", "Cy")  # is in it already
    classes.leave(made.id, "visitor 0")
    assert classes.join(made.id, "visitor 10").member("visitor 10").number == 11


def test_launches_count_for_the_class_and_not_for_visitor_or_network(
    store, limited, clock, config
):
    quotas = Quotas(launches_a_day=1, network_launches_a_day=1, network_queued=1)
    classes = Classes(store.database, clock, quotas=quotas, cost_limit=float("inf"))
    made = classes.make(ClassPlan(name="Physics", launches_each=3), visitor="teacher")
    classes.join(made.id, "ann")
    for _ in range(3):
        launched(classes, config, made, "ann")
    own = limited(launches_a_day=1, network_launches_a_day=1, network_queued=1)
    own.create(config, visitor="ann", network="192.0.2.0/24")
    with pytest.raises(QuotaError, match="1 launches in the last 24 hours"):
        own.create(config, visitor="ann", network="198.51.100.0/24")


def test_nobody_uses_up_the_quota_alone_and_all_together_do(classes, config):
    plan = ClassPlan(name="Physics", launches=5, launches_each=2)
    made = classes.make(plan, visitor="teacher")
    for visitor in ("ann", "bob", "cy"):
        classes.join(made.id, visitor)
    for visitor in ("ann", "ann", "bob", "bob"):
        launched(classes, config, made, visitor)
    with pytest.raises(QuotaError, match=r"already launched 2 runs .* one student"):
        launched(classes, config, made, "ann")
    classes.leave(made.id, "ann")
    classes.join(made.id, "ann")  # to leave gives none back
    with pytest.raises(QuotaError, match="one student"):
        launched(classes, config, made, "ann")
    launched(classes, config, made, "cy")
    with pytest.raises(
        QuotaError, match="already launched 5 runs, the maximum"
    ) as refused:
        launched(classes, config, made, "cy")
    assert 0 < refused.value.retry_after <= 14 * DAY
    found = classes.get(made.id, "cy")
    assert found.launched == 5
    assert {found.left_to(one) for one in found.members} == {0}


def test_a_class_queues_no_more_than_the_site_allows_it(opened, store, config):
    classes = opened(class_queued=2, queued=3)
    made = classes.make(ClassPlan(name="Physics"), visitor="teacher")
    for visitor in ("ann", "bob", "cy"):
        classes.join(made.id, visitor)
    first = launched(classes, config, made, "ann")
    launched(classes, config, made, "bob")
    with pytest.raises(QuotaError, match="class already has 2 runs queued"):
        launched(classes, config, made, "cy")
    assert classes.get(made.id, "cy").launched == 2  # what is refused counts nothing
    store.leases.claim(first)
    launched(classes, config, made, "cy")


def test_students_take_turns_in_the_queue(classes, store, config, physics, clock):
    mine = []
    for _ in range(3):
        mine.append(launched(classes, config, physics, "ann"))
        clock.forward(1)
    other = launched(classes, config, physics, "bob")
    assert [store.queue_position(run) for run in (*mine, other)] == [1, 3, 4, 2]


def test_only_members_launch_and_see_the_roster(classes, config, physics):
    run_id = launched(classes, config, physics, "ann")
    [row] = classes.roster(physics.id)
    assert (row.run.id, row.member.number) == (run_id, 1)
    events = classes.events(physics.id, 0, 10)
    assert [(one.run_id, one.kind) for one in events] == [(run_id, "state")]
    assert classes.events(physics.id, events[-1].id, 10) == []
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


def test_a_teacher_removes_runs_and_students(classes, store, config, physics):
    first, second = (launched(classes, config, physics, "ann") for _ in range(2))
    other = launched(classes, config, physics, "bob")
    with pytest.raises(RunNotFoundError):
        classes.remove_run(physics.id, other, "ann")
    classes.remove_run(physics.id, first, "ann")
    classes.remove_run(physics.id, other, "teacher")
    assert [row.run.id for row in classes.roster(physics.id)] == [second]
    with pytest.raises(ClassNotFoundError):
        classes.remove_student(physics.id, 2, "ann")
    with pytest.raises(ConfigError, match="number must be the number of a student"):
        classes.remove_student(physics.id, 9, "teacher")
    classes.remove_student(physics.id, 1, "teacher")
    assert classes.roster(physics.id) == []
    with pytest.raises(ClassNotFoundError, match="removed you"):
        classes.join(physics.id, "ann")
    with pytest.raises(ClassNotFoundError):
        launched(classes, config, physics, "ann")
    assert {run.id for run in store.runs_of("ann")} == {first, second}
    assert classes.get(physics.id, "teacher").launched == 3  # removing gives none back


@pytest.mark.parametrize("end", ["closed", "its time is up"])
def test_a_class_that_is_over_can_be_read_and_not_joined(
    classes, config, physics, clock, end
):
    if end == "closed":
        classes.close(physics.id, "teacher")
    else:
        clock.forward(14 * DAY)
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


def test_the_last_teacher_stays_until_the_class_is_deleted(classes, physics):
    with pytest.raises(ConfigError, match="must have a teacher"):
        classes.leave(physics.id, "teacher")
    classes.teach(physics.id, "ann")  # the teacher's link, in another browser
    classes.leave(physics.id, "teacher")
    assert classes.close(physics.id, "ann").is_over


def test_links_are_renewed_by_a_teacher(classes, physics):
    with pytest.raises(ClassNotFoundError):
        classes.renew_links(physics.id, "ann")
    assert classes.renew_links(physics.id, "teacher").links == physics.links + 1


def test_who_is_forgotten_is_in_no_class(classes, store, config, physics):
    launched(classes, config, physics, "ann")
    store.forget_visitor("ann")
    found = classes.get(physics.id, "bob")
    assert [one.visitor for one in found.students] == ["bob"]
    assert classes.roster(physics.id) == []
    assert found.launched == 1
    store.forget_visitor("teacher")
    with pytest.raises(ClassNotFoundError):
        classes.get(physics.id, "bob")


def test_a_forgotten_teacher_still_counts_for_the_network(opened, store):
    classes = opened(network_classes_a_day=1)
    classes.make(ClassPlan(name="A"), visitor="ann", network="192.0.2.0/24")
    store.forget_visitor("ann")
    with pytest.raises(QuotaError):
        classes.make(ClassPlan(name="A"), visitor="bob", network="192.0.2.0/24")


def test_a_deleted_run_leaves_the_roster_and_comes_back(
    classes, store, config, physics
):
    run_id = launched(classes, config, physics, "ann")
    store.delete(run_id, "ann")
    assert classes.roster(physics.id) == []
    assert classes.events(physics.id, 0, 10) == []
    store.restore(run_id, "ann")
    assert [row.run.id for row in classes.roster(physics.id)] == [run_id]


def test_old_classes_are_swept_with_old_runs(classes, store, physics, clock):
    classes.close(physics.id, "teacher")
    clock.forward(2 * DAY)
    retention.step(store, 3)
    assert classes.get(physics.id, "ann")
    clock.forward(2 * DAY)
    retention.step(store, 3)
    with pytest.raises(ClassNotFoundError):
        classes.get(physics.id, "ann")


def test_the_public_profile_bounds_classes():
    public = QUOTAS["public"]
    bounds = ("class_launches", "class_students", "class_queued", "class_days")
    bounds += ("classes_a_day", "network_classes_a_day")
    assert all(getattr(public, name) for name in bounds)
    assert public.class_launches_usual <= public.class_launches
