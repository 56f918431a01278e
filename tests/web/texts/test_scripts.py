"""Texts in scripts: they are found, and a translated script is still a script."""

import json
import subprocess

import pytest

from dpsgd_explorer.web.http.assets import FRONT_DIR, WEB_DIR
from dpsgd_explorer.web.texts.scripts import change_script

FILES = sorted([*(FRONT_DIR / "static/js").rglob("*.js"), *WEB_DIR.rglob("*.js")])
#: Compiles each module of standard input and prints its number, without running it.
COMPILE = """
import {SourceTextModule} from "node:vm";
import {readFileSync} from "node:fs";
const sources = JSON.parse(readFileSync(0, "utf8"));
for (const source of sources) new SourceTextModule(source);
console.log(sources.length);
"""


def texts_of(script):
    found = []
    assert change_script(script, lambda text: found.append(text) or text) == script
    return found


NESTED = "Run ${n} of ${m.map((x) => `${x} more runs`)} ended"


@pytest.mark.parametrize(
    ("script", "texts"),
    [
        ('f("One word", "two", "Three", "Enter")', ["One word", "Three"]),
        ("f('it is', x.y)", ["it is"]),
        ("f(`${n} runs`, `${n}px`, `f-${n}`)", ["${n} runs"]),
        (f"f(`{NESTED}`)", [NESTED, "${x} more runs"]),
        ('q("[data-x] button"), q("main .chart p"), "a=b and c", "a.b c d"', []),
        ('if (x === "Ready") { y = "Done" }', ["Done"]),
        (
            '// "Not a text"\n/* `nor this` */ /"no text"/.test("One text")',
            ["One text"],
        ),
        ('a / b; "One text"; c / d', ["One text"]),
    ],
)
def test_texts_are_literals_with_words(script, texts):
    assert texts_of(script) == texts


def test_a_translation_may_contain_quotes():
    script = 'f("One text", `One ${"text"} more`)'
    german = {"One text": 'Ein "Text"', 'One ${"text"} more': '`Noch` ${"text"}'}
    assert change_script(script, lambda text: german.get(text, text)) == (
        'f("Ein \\"Text\\"", `\\`Noch\\` ${"text"}`)'
    )


def test_all_scripts_are_scripts_in_another_language():
    scripts = [file.read_text(encoding="utf-8") for file in FILES]
    assert sum(len(texts_of(script)) for script in scripts) > 400
    changed = [
        change_script(script, lambda text: f"⟦\"`'{text}⟧") for script in scripts
    ]
    done = subprocess.run(
        ["node", "--experimental-vm-modules", "--input-type=module", "-e", COMPILE],
        input=json.dumps(changed),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == str(len(FILES)), done.stderr
