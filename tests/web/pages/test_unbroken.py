"""Numbers stay on one line with their sign, in prose only."""

from dpsgd_explorer.web.hub.chapters.text import unbroken


def test_numbers_are_not_parted_from_their_sign():
    assert unbroken("at ε = 3 and 50 % of <var>C</var> = 1") == (
        "at ε\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}3 and 50\N{NO-BREAK SPACE}% of "
        "<var>C</var>\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}1"
    )
    assert unbroken("q ≤ 1 at C = 2") == (
        "q\N{NO-BREAK SPACE}≤\N{NO-BREAK SPACE}1 at "
        "C\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}2"
    )
    for as_it_is in (
        "a = b",
        "<pre>C = 1</pre>",
        '<input value="ε = 3">',
        "<textarea>ε = 3</textarea>",
        "<code>C = 1</code>",
        "<option>50 %</option>".join(("<select>", "</select>")),
        '<button data-name="ε = 3">',
    ):
        assert unbroken(as_it_is) == as_it_is
    for other in (
        '<a id="1e-5">',
        "<pre>1e-5</pre>",
        "<svg><text>1e-5</text></svg>",
        "<script>[1e-5]</script>",
    ):
        assert unbroken(f"{other} 1e-5") == f'{other} <span class="num">1e-5</span>'
