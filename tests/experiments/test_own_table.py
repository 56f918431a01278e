"""A visitor's own CSV: what is read, and every fault named at its place."""

import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.own_csv import check, header, is_for_testing
from dpsgd_explorer.experiments.own_table import Column, OwnTable
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.datasets import own

AGE = Column(name="age", kind="number", low=0, high=100)
COLOUR = Column(name="colour", kind="category", values=("red", "green"))
NOTE = Column(name="note", kind="ignored")
LABEL = Column(name="rich", kind="label", values=("no", "yes"))
COLUMNS = (AGE, COLOUR, NOTE, LABEL)
HEAD = "age,colour,note,rich"


def csv_of(*more, rows=120):
    usual = [f"{i},{['red', 'green'][i % 2]},n{i},{['no', 'yes'][i % 2]}"
             for i in range(rows)]  # fmt: skip
    return "\n".join([HEAD, *usual, *more, ""]).encode()


def test_a_table_is_its_file_and_what_was_stated_of_it():
    checked = check(csv_of(), COLUMNS)
    table = checked.table
    assert table.train_size + table.test_size == 120
    assert table.feature_names == ("age", "colour = red", "colour = green")
    assert table.facts.class_names == ("no", "yes")
    assert table.name == OwnTable.model_validate_json(table.model_dump_json()).name
    wider = check(csv_of(), (AGE.model_copy(update={"high": 200.0}), *COLUMNS[1:]))
    assert wider.table.name != table.name
    assert checked.moved == {"age": 19}  # 101 to 119


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=repr)
def test_byte_order_marks_and_ends_of_lines_do_not_matter(prefix, end):
    assert header(prefix + csv_of().replace(b"\n", end)) == HEAD.split(",")
    assert check(prefix + csv_of().replace(b"\n", end), COLUMNS)


def test_a_row_is_for_testing_by_its_own_cells():
    parts = [is_for_testing([str(i), "x"]) for i in range(5000)]
    assert 0.17 < sum(parts) / len(parts) < 0.23
    assert parts[7] == is_for_testing(["7", "x"])


@pytest.mark.parametrize(
    ("content", "message"),
    {
        "nothing": (b"", "is empty"),
        "blank": (b"\n\n", "is empty"),
        "names alone": (HEAD.encode(), "no other"),
        "one column": (b"a\n1\n", "needs two at least.$"),
        "semicolons": (b"a;b\n1;2\n", "two at least. Separate columns by commas.$"),
        "a name twice": (b"a,a\n1,2\n", "'a' is there 2 times"),
        "no name": (b"a,\n1,2\n", "column 2 has no name"),
        "a long name": (b"a" * 81 + b",b\n1,2\n", "at most 80"),
        "a name of control characters": (b"a\x07,b\n1,2\n", "printable"),
        "many columns": (b",".join(b"c%d" % i for i in range(61)) + b"\n1\n", "61"),
        "a NUL byte": (b"a,b\n1,\x002\n", "line 2 holds a NUL"),
        "another encoding": ("a,b\n1,é\n".encode("latin-1"), "byte 7 is not UTF-8"),
        "UTF-16": ("a,b\n1,2\n".encode("utf-16"), "byte 1 is not UTF-8"),
        "a picture": (b"\x89PNG\r\n\x1a\n", "not UTF-8"),
        "a huge cell": (b"a,b\n1," + b"x" * 1001 + b"\n", "line 2 has a cell longer"),
        "a huge name": (b"a" * 200_000 + b",b\n1,2\n", "field larger"),
        "an open quote": (b'a,b\n1,"2\n', "no CSV"),
        "too large": (b"a,b\n" + b"1,2\n" * 2**19, "larger than 2 MiB"),
    }.values(),
    ids=range(18),
)
def test_a_file_that_cannot_be_read_says_why(content, message):
    with pytest.raises(ConfigError, match=message) as refusal:
        check(content, (AGE, LABEL))
    assert refusal.value.field == "file"


@pytest.mark.parametrize(
    ("row", "message", "field"),
    [
        ("old,red,,no", "row 122, column 'age' must be a number, got 'old'", "age"),
        (",red,,no", "got an empty cell", "age"),
        ("nan,red,,no", "must be a number", "age"),
        ("inf,red,,no", "must be a number", "age"),
        ("1_0,red,,no", "must be a number", "age"),
        ("٣,red,,no", "must be a number", "age"),
        ("1e999,red,,no", "must be a number", "age"),
        ("5,blue,,no", "must be one of red, green, got 'blue'", "colour"),
        ("5,red,,maybe", "must be one of no, yes, got 'maybe'", "rich"),
        ("5,red,no", "row 122 must have 4 cells, got 3", "file"),
        ("5,red,,no,6", "row 122 must have 4 cells, got 5", "file"),
    ],
)
def test_a_row_that_is_not_as_stated_is_named(row, message, field):
    with pytest.raises(ConfigError, match=message) as refusal:
        check(csv_of(row), COLUMNS)
    assert refusal.value.field == field


def test_one_class_is_nothing_to_learn():
    with pytest.raises(ConfigError, match="one class, 'no'"):
        check(csv_of().replace(b"yes", b"no"), COLUMNS)


def test_missing_columns_are_named():
    with pytest.raises(ConfigError, match="no column 'colour', 'rich'"):
        check(b"age,note,else,more\n1,2,3,4\n", COLUMNS)


def test_few_rows_are_refused():
    with pytest.raises(ConfigError, match="at least 10 of each"):
        check(csv_of(rows=20), COLUMNS)


@pytest.mark.parametrize(
    "columns",
    [
        (AGE, COLOUR),
        (AGE, LABEL, LABEL.model_copy(update={"name": "poor"})),
        (NOTE, LABEL),
        (AGE, AGE, LABEL),
    ],
    ids=["no label", "two labels", "no feature", "twice"],
)
def test_columns_that_make_no_task_are_refused(columns):
    with pytest.raises(ConfigError, match="table:"):
        check(csv_of(), columns)


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "number"},
        {"kind": "number", "low": 5, "high": 5},
        {"kind": "number", "low": 9, "high": 5},
        {"kind": "number", "low": 0, "high": 1e300},
        {"kind": "category", "values": ("a",)},
        {"kind": "label", "values": ("a", "a")},
        {"kind": "label", "values": tuple(map(str, range(21)))},
        {"kind": "magic"},
    ],
    ids=str,
)
def test_a_column_needs_what_its_kind_needs(values):
    with pytest.raises(ValueError, match=r"column|kind|high"):
        Column.model_validate({"name": "x"} | values)


def test_records_are_at_most_one_long_and_scaled_by_what_was_stated():
    table = check(csv_of(), COLUMNS).table
    files = {table.name: csv_of()}
    inputs, targets, tests, test_targets = own.load(table, files.get)
    assert (len(inputs), len(tests)) == (table.train_size, table.test_size)
    assert inputs.shape[1:] == table.facts.input_shape
    assert inputs.norm(dim=1).max() <= 1 + 1e-6
    assert set(targets.tolist()) | set(test_targets.tolist()) == {0, 1}
    ages = sorted((inputs[:, 0] / table.scale).tolist())
    assert -1 <= ages[0] < -0.9
    assert ages[-1] == pytest.approx(1.0)  # 101 and more are moved to 100


def test_nothing_of_the_records_is_in_the_configuration():
    table = check(csv_of("77,red,secret,yes"), COLUMNS).table
    config = TrainingConfig.parse(
        {"dataset": table.name, "table": table.model_dump(mode="json"),
         "model": "logistic", "expected_batch_size": 8, "delta": 1e-4}
    )  # fmt: skip
    assert "secret" not in config.model_dump_json()
    assert TrainingConfig.model_validate_json(config.model_dump_json()) == config


def test_a_name_without_its_table_is_refused():
    table = check(csv_of(), COLUMNS).table
    stated = table.model_dump(mode="json")
    for values in ({"dataset": table.name}, {"dataset": "adult", "table": stated}):
        with pytest.raises(ConfigError) as refusal:
            TrainingConfig.parse(values | {"model": "logistic"})
        assert refusal.value.field in ("dataset", "table")
    with pytest.raises(ConfigError, match="fitting: logistic, mlp"):
        TrainingConfig.parse({"dataset": table.name, "table": stated, "model": "cnn"})
