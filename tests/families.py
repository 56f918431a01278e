"""Families of tests: what each would catch, as docs/testing.md lists them."""

#: Families that the marker ``long`` names: left out by `make test`.
LONG = {
    "every page": "a page that is wider than a screen, unreadable in the dark, or that "
    "a screen reader cannot use: all pages, both themes, 14 widths",
    "every font set": "text that is cut off or moves where a machine has other fonts",
    "more journeys": "a control of a page that no longer does what it says, beyond "
    "those that `make test` uses",
    "every box": "a text box that blanks or freezes its page, whatever is typed there",
    "every combination": "an error in one combination of engine, clipping style, mode "
    "and network only",
    "long statistics": "noise, sampling or gradients whose law is slightly off",
    "real runs": "a run that ends otherwise when it is killed, resumed or repeated",
    "every example": "an example in the docs that no longer runs",
    "mutation of every rule": "a test of a layer rule that no longer sees its bugs",
}
