import numpy as np
import pytest

from dpsgd_explorer.cli.table_file import parse_table, read_table
from dpsgd_explorer.errors import ConfigError

GOOD = "a, price ,b\n1,2,3\n\n4,5e0,-6\n"


def test_a_table_is_read_with_the_target_apart():
    table = parse_table(GOOD, "price")
    assert table.names == ("a", "b")
    np.testing.assert_array_equal(table.X, [[1, 3], [4, -6]])
    np.testing.assert_array_equal(table.y, [2, 5])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must start with a line of column names"),
        ("a,b\n", "at least one row"),
        ("a,a\n1,2\n", "distinct column names"),
        ("a,\n1,2\n", "distinct column names"),
        ("a,b\n1,2\n1\n", "row 2 has 1"),
        ("a,b\n1,2\n3,\n", "row 2, column 'b' has nothing"),
        ("a,b\n1,nan\n", "row 1, column 'b' has 'nan'"),
        ("a,b\ninf,1\n", "row 1, column 'a' has 'inf'"),
        ("a,b\n1,many\n", "row 1, column 'b' has 'many'"),
        ("b\n1\n", "a feature and the target"),
        ("<html>\n<p>no table</p>\n", "target must be one of <html>, got 'b'"),
        ('a,b\n"1,2\n', "row 1 has 1"),
    ],
)
def test_what_is_no_table_is_refused_with_its_cell(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_table(text, "b")


def test_a_file_is_read_up_to_two_megabytes(tmp_path):
    place = tmp_path / "t.csv"
    place.write_text(GOOD)
    assert read_table(place, "a").target == "a"
    place.write_bytes(b"a,b\n" + b"1,2\n" * 600_000)
    with pytest.raises(ConfigError, match="at most 2 MB"):
        read_table(place, "a")
    place.write_bytes(b"a,b\n\xff\xfe,1\n")
    with pytest.raises(ConfigError, match="UTF-8"):
        read_table(place, "a")
    with pytest.raises(ConfigError, match=r"can be read: .*No such file"):
        read_table(tmp_path / "none.csv", "a")
