"""Catalogues: their files, their errors, and the texts that they translate."""

import json

import pytest
from flask import Flask, render_template_string
from markupsafe import Markup

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.settings import Settings
from dpsgd_explorer.web.texts.catalogue import Catalogue, read_po, translate

PO = """
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

#: a.html:1
msgid "The <b>noise</b> hides {{ n }} records"
msgstr "{{ n }} Datensätze verbirgt "
"das <b>Rauschen</b>"

#: b.py:2
msgid "{run} needs {steps} more steps"
msgstr "noch {steps} Schritte braucht {run}"

#, fuzzy
msgid "Run"
msgstr "Rennen"

msgid "first run"
msgstr "der erste Lauf"

msgid "not yet"
msgstr ""
"""


@pytest.fixture
def catalogue():
    return Catalogue(read_po(PO))


def test_fuzzy_and_empty_entries_of_a_file_are_not_used():
    assert read_po(PO).keys() == {
        "The <b>noise</b> hides {{ n }} records",
        "{run} needs {steps} more steps",
        "first run",
    }


def test_a_finished_text_is_found_by_its_pattern_and_its_values_too(catalogue):
    german = "noch 12 Schritte braucht der erste Lauf"
    assert catalogue.text("first run needs 12 more steps") == german
    assert catalogue.text(" first run\n") == " der erste Lauf\n"
    assert catalogue.text("a · first run (3)") == "a · der erste Lauf (3)"
    assert catalogue.text("Run") == "Run"


def test_html_keeps_its_tags_and_scripts(catalogue):
    html = '<i title="first run">a &lt; first run</i><script>"first run"</script>'
    assert catalogue.printed(Markup(html)) == html.replace(
        'title="first run"', 'title="der erste Lauf"'
    )
    assert catalogue.printed(Markup("<b>first run</b>")) == "<b>der erste Lauf</b>"
    assert catalogue.printed(3) == 3
    section = '<p title="first run needs">3 more steps</p>'
    assert catalogue.printed(Markup(section)) == section


def test_a_template_and_the_values_that_it_prints_are_translated(catalogue):
    page = (
        "<p>The <b>noise</b>  hides {{ n }}\nrecords</p>"
        '<i class="{{ x }}" title="{{ x }}">{{- x -}}</i>'
    )
    app = Flask("translated")
    translate(app, catalogue)
    with app.app_context():
        shown = render_template_string(page, n="<9", x="first run")
        data = {"label": "first run", "state": ["Run", "{% first run"], "at": 3}
        source = "<script>{{ data | tojson }}</script>"
        script = render_template_string(source, data=data)
    assert shown == (
        "<p>&lt;9 Datensätze verbirgt das <b>Rauschen</b></p>"
        '<i class="first run" title="der erste Lauf">der erste Lauf</i>'
    )
    assert json.loads(script[8:-9]) == {**data, "label": "der erste Lauf"}


def test_the_texts_of_a_script_are_translated_in_its_source(catalogue):
    script = 'show("first run ", `${first} run`); // first run'
    assert catalogue.script(script) == script.replace(
        '"first run "', '"der erste Lauf "'
    )


@pytest.mark.parametrize(
    ("english", "translation"),
    [
        ("{n} runs", "Läufe"),
        ("{n} runs", "{m} Läufe"),
        ("A <b>word</b>", "Ein <i>Wort</i>"),
        ("A word", "Ein {{ settings.secret_key }}"),
        ("{% if a %}A{% endif %} word", "{% if b %}Ein{% endif %} Wort"),
    ],
)
def test_a_translation_has_the_code_and_tags_of_its_text(english, translation):
    with pytest.raises(ValueError, match="must have the placeholders and tags"):
        Catalogue({english: translation})


def test_literals_within_code_may_be_translated():
    Catalogue({'{{ "a" if n else "b" }} run': '{{ "x" if n else "y" }} Lauf'})


def test_a_language_without_catalogue_is_an_error_at_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr("dpsgd_explorer.settings.LANGUAGES_DIR", tmp_path)
    variables = {"DPSGD_INSTANCE_DIR": str(tmp_path), "DPSGD_LANGUAGE": "de"}
    with pytest.raises(ConfigError, match=r"DPSGD_LANGUAGE must be .*got 'de'"):
        Settings.from_environment(variables)
    (tmp_path / "de.po").write_text(PO, encoding="utf-8")
    settings = Settings.from_environment(variables)
    assert settings.language == "de"
    assert settings.to_environment()["DPSGD_LANGUAGE"] == "de"
    with pytest.raises(ConfigError, match=r"xx\.po"):
        Catalogue.read(tmp_path / "xx.po")
