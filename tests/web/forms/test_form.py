"""The form is made from the config's metadata and keeps whatever was typed."""

import json
import math
import subprocess
from pathlib import Path

import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.catalogue import DATA_SETS, MODELS
from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.forms import form as forms
from dpsgd_explorer.web.forms.fields import (
    evenly_spaced,
    form_fields,
    form_groups,
    layout_of,
    script_fields,
    slider_position,
    text_of,
)
from dpsgd_explorer.web.forms.form import to_query
from dpsgd_explorer.web.questions.plan_preview import fitting_models

ROOT = Path(__file__).parents[3]
FIELDS = form_fields(TrainingConfig)
LAYOUT = layout_of(TrainingConfig)
TYPED = {"dataset": "adult", "model": "logistic", "seed": "12"}


def read_form(query):
    return forms.read_form(TrainingConfig, query)


def test_every_setting_with_a_choice_is_asked_for():
    for name, field in TrainingConfig.model_fields.items():
        extra = field.json_schema_extra or {}
        single = len(extra.get("choices", "many")) < 2
        asked = "label" in extra and not single
        assert (name in FIELDS) == asked, name
    groups = form_groups(TrainingConfig).values()
    assert {field.name for group in groups for field in group} == set(FIELDS)


def test_what_the_page_shows_first_or_switches_is_a_setting():
    names = set(TrainingConfig.model_fields)
    assert names >= set(LAYOUT.basic)
    assert all(names >= switch.members.keys() for switch in LAYOUT.switches)
    assert not names & {switch.name for switch in LAYOUT.switches}


def test_an_empty_address_is_the_default_run():
    form = read_form({})
    assert form.settings == TrainingConfig()
    assert not form.errors
    assert form.texts["max_grad_norm"] == "0.1"
    assert form.texts["delta"] == "1e-5"


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.slug)
def test_an_address_brings_back_its_configuration(preset):
    config = TrainingConfig.parse(preset.config)
    assert read_form(to_query(config)).settings == config


def test_the_address_names_every_setting_that_counts():
    query = to_query(TrainingConfig(noise_multiplier=1.5, epochs=2.5))
    left_out = {
        "target_epsilon",
        "steps",
        "stop_at_epsilon",
        "filter_epsilon",
        "widths",
        "clipping_heads",
    }
    assert set(query) == set(FIELDS) - left_out
    assert (query["noise_multiplier"], query["epochs"]) == ("1.5", "2.5")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("learning_rate", "fast"),
        ("learning_rate", "NaN"),
        ("max_grad_norm", "0"),
        ("noise_multiplier", "-1"),
        ("expected_batch_size", "1e9"),
        ("delta", "0.5"),
        ("model", "transformer"),
        ("model", "cnn"),
        ("dataset", "imagenet"),
    ],
)
def test_a_wrong_value_is_named_at_its_field_and_everything_typed_is_kept(name, text):
    form = read_form(TYPED | {name: text})
    assert form.settings is None
    field = FIELDS[name]
    assert form.errors[name].startswith(field.label), form.errors
    assert field.choices.get(text, text).lower() in form.errors[name].lower()
    assert form.texts[name] == text
    assert form.texts["seed"] == "12"


def test_the_radio_says_which_of_two_boxes_counts():
    both = {"target_epsilon": "2", "noise_multiplier": "1.5"}
    assert "noise_multiplier" in read_form(both).errors
    form = read_form(both | {"fix": "noise_multiplier"})
    assert form.settings.noise_multiplier == 1.5
    assert form.settings.target_epsilon is None
    assert form.chosen["fix"] == "noise_multiplier"


@pytest.mark.parametrize("name", ["max_grad_norm", "target_epsilon", "epochs", "seed"])
def test_a_box_that_came_empty_is_wrong_and_stays_empty(name):
    form = read_form(TYPED | {name: " "})
    assert form.errors == {name: f"{FIELDS[name].label} must be given."}
    assert (form.settings, form.texts[name]) == (None, "")
    assert form.chosen["duration"] == ("epochs" if name == "epochs" else "steps")


def test_an_empty_box_that_may_be_empty_is_not_set():
    assert read_form({"stop_at_epsilon": ""}).settings == TrainingConfig()
    unchosen = {"target_epsilon": "", "noise_multiplier": "1.5"}
    assert read_form(unchosen).settings.noise_multiplier == 1.5
    both = {"target_epsilon": "", "noise_multiplier": ""}
    assert set(read_form(both).errors) == {"target_epsilon"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("-1", "must be greater than 0, got -1."),
        ("1e-400", "must be greater than 0, got 1e-400."),
        ("1,5", "must be a number, got '1,5'. Use a dot: 1.5."),
        ("1,024.5", "must be a number, got '1,024.5'. Write 1024.5, without a comma."),
    ],
)
def test_what_was_typed_is_echoed_as_it_was_typed(text, says):
    message = read_form({"max_grad_norm": text}).errors["max_grad_norm"]
    assert message == f"Clipping bound {says}"


def test_what_is_no_setting_is_said_and_ignored():
    form = read_form({"utm_source": "letter", "seed": "3"})
    assert form.settings.seed == 3
    assert form.unknown == ["utm_source"]


def test_unusual_settings_are_those_that_differ_or_are_wrong():
    fields = form_groups(TrainingConfig)["Privacy"]

    def unusual(**query):
        return [field.name for field in read_form(query).unusual(fields)]

    assert unusual() == []
    assert unusual(delta="1e-7") == ["delta"]
    assert unusual(delta="2") == ["delta"]


def test_only_models_that_fit_are_offered():
    for dataset in DATA_SETS:
        for model in MODELS:
            fits = model in fitting_models()[dataset]
            try:
                TrainingConfig.parse({"dataset": dataset, "model": model})
            except ConfigError:
                assert not fits
            else:
                assert fits


def test_a_slider_has_its_marks_evenly_spaced():
    for field in FIELDS.values():
        if not field.marks:
            continue
        for i, mark in enumerate(field.marks):
            assert slider_position(field.marks, mark) == pytest.approx(i)
        assert evenly_spaced(field.marks) or min(field.marks) > 0


def test_a_slider_stands_between_marks_by_ratio():
    assert slider_position([1, 10, 100], math.sqrt(1000)) == pytest.approx(1.5)
    assert slider_position([0, 0.5, 1], 0.75) == pytest.approx(1.5)
    assert slider_position([1, 10, 100], 5000) == 2
    assert slider_position([1, 10, 100], 0.1) == 0
    assert FIELDS["seed"].position("x") == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-5, "1e-5"),
        (8.0, "8"),
        (0.1, "0.1"),
        (True, "true"),
        (None, ""),
        (300, "300"),
    ],
)
def test_values_are_written_as_one_types_them(value, text):
    assert text_of(value) == text


def test_a_box_shows_the_default_that_the_other_settings_imply():
    query = TYPED | {"sampling": "random_allocation"}
    form = read_form(query)
    assert form.texts["audit"] == "0" == text_of(form.settings.audit)
    assert read_form(form.texts | {"steps": "300"}).settings == form.settings
    assert read_form(TYPED).texts["audit"] == "2000"


REFUSED = {
    "sampling": {"sampling": "random_allocation", "accountant": "rdp"},
    "filter": {"filter_epsilon": "3", "sampling": "random_allocation"},
    "adaptive": {"clipping_schedule": "adaptive", "clipping_style": "layer-wise"},
}


@pytest.mark.parametrize("query", REFUSED.values(), ids=REFUSED)
def test_errors_in_the_browser_name_labels_and_no_values_of_the_api(query):
    with pytest.raises(ConfigError) as refusal:
        TrainingConfig.from_query(query).check_reachable()
    messages = read_form(query).errors
    assert messages.keys() == refusal.value.fields.keys()
    for message in messages.values():
        assert "_" not in message
        assert "'" not in message
    script = (
        "import {labelled} from './static/js/forms/query.js';"
        "const [fields, messages] = JSON.parse(process.argv[1]);"
        "console.log(JSON.stringify(messages.map((text) => labelled(fields, text))))"
    )
    given = [script_fields(TrainingConfig), list(refusal.value.fields.values())]
    command = ["node", "--input-type=module", "-e", script, json.dumps(given)]
    written = subprocess.run(command, capture_output=True, check=True, cwd=ROOT)
    assert json.loads(written.stdout) == list(messages.values())


def test_an_error_about_an_address_lists_the_values_that_it_may_have():
    message = read_form({"sampling": "shuffled"}).errors["sampling"]
    assert message.startswith("Sampling must be one of poisson, random_allocation")


def test_an_error_about_sampling_names_the_choices_of_the_form():
    message = read_form(REFUSED["sampling"]).errors["sampling"]
    assert message.startswith("Sampling must be “Poisson” for accountant “Rényi (RDP)”")
