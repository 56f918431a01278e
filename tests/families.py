"""Families of tests: what each would catch, as the page of tests lists them."""

#: Families that the marker ``long`` names and `make test-all` runs.
LONG = {
    "every page": "a page that is wider than a screen, unreadable in the dark, or that "
    "a screen reader cannot use: all pages, both themes, 14 widths",
    "more journeys": "a control of a page that no longer does what it says, beyond "
    "those that `make test` uses",
    "every box": "a text box that blanks or freezes its page, or a number that is a "
    "fault of ours, whatever is typed there",
    "every combination": "an error in one combination of engine, clipping style, mode "
    "and network only",
    "audit": "a planted bug that no longer shows where the page says it does",
    "long statistics": "noise, sampling or gradients whose law is slightly off",
    "real runs": "a run that ends otherwise when it is killed, resumed or repeated",
    "slow clients": "a site that a hundred slow or hostile clients stop",
    "servers": "a run that is lost, carried out twice or seen twice where the database "
    "is PostgreSQL or the queue is Redis",
    "every example": "an example in the docs that no longer runs",
    "mutation of every rule": "a test of a layer rule that no longer sees its bugs",
}

#: Families that the marker ``long`` names and `make test-release` runs: what changes
#: seldom, and takes minutes for each test.
RELEASE = {
    "every font set": "text that is cut off or moves, in the fonts of the site or a "
    "machine",
    "release": "a distribution that an index rejects, or a library that needs packages "
    "of the site",
    "lowest versions": "a lowest version in pyproject.toml with which the program no "
    "longer works",
    "sanitizers": "a C kernel that reads or writes outside its arrays, or does what C "
    "leaves undefined",
    "benchmarks": "a table of benchmarks that lacks a way, or cannot be made",
}

#: Folders of tests; what is not long is run by `make test`.
FOLDERS = {
    "accounting": "an ε or δ that is below the true one or above its stated bound",
    "dp": "a gradient, bound or noise that the guarantee does not assume; an unsafe "
    "model or loss that is trained",
    "audit": "an attack or a receipt whose verdict is wrong",
    "compat": "a script for another library that no longer trains, or another ε",
    "integrations": "a trainer of another library that clips or counts wrongly",
    "regression": "a release, budget or golden figure of linear regression that is off",
    "experiments": "a setting that is taken outside its domain or refused inside it",
    "training": "a training that differs from its recording, or after a resume",
    "runs": "a run that is lost, carried out twice, or blocks others, whatever dies",
    "web": "an answer or page with a wrong number, status, header or limit",
    "browser": "a page that a reader cannot use",
    "cli": "a command that refuses, prints or exits wrongly",
    "server": "a server that does not start, stop, or outlive slow clients",
    "benchmarks": "a benchmark that does not measure what its table says",
    "examples": "a script of examples/ that ends in an error, or reaches another "
    "accuracy or ε than it should",
    "js": "a chart or a form that shows other numbers than the server sent",
    "": "an import that points up, a page of docs that the code has left behind, an "
    "installation that lacks a file",
}
