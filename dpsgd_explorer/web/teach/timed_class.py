"""A class of 90 minutes for students who have not heard of differential privacy.

``/teach/90-minutes/`` is the plan with the printed sheet and its key, and
``/teach/90-minutes/<number>/`` the screen that a projector shows during one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from flask import Blueprint, Response, abort, render_template, request

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.web.api.answer_cache import cached_page
from dpsgd_explorer.web.classes.models import ClassAnswer
from dpsgd_explorer.web.content.lessons import Question
from dpsgd_explorer.web.http.services import classes
from dpsgd_explorer.web.http.visitor import current_visitor
from dpsgd_explorer.web.hub.chapters.readings import reading_of
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from dpsgd_explorer.web.hub.widgets.randomised_response.survey import (
    SURVEY_EPSILON,
    standard_error,
    truth_probability,
)
from dpsgd_explorer.web.pages.home import noise_slider

bp = Blueprint("timed_class", __name__, url_prefix="/teach/90-minutes")

SLIDER = "noise"  # the landing page's widget, which belongs to no chapter
ASKED, YES = "asked", "yes"  # query parameters of the count of hands
MOST_STUDENTS = 1000


@dataclass(frozen=True)
class Step:
    """One step of the class.

    Attributes:
        minutes: Length in minutes.
        title: Name in the plan.
        question: Question on the screen.
        students: Activity of the students.
        teacher: Activity of the teacher.
        thought: What some student will say.
        reply: Answer to it.
        widget: Name of the widget on the screen, or ``SLIDER``; "" for none.
        joins: If True, the screen shows the links to the teacher's open classes.
        has_sheet: If True, the screen shows the questions of the sheet.
        link: Flask endpoint that the students open, with its arguments; () for none.
        number: Position, from 1.
        begins: First minute, counted from the start of the class.
    """

    minutes: int
    title: str
    question: str
    students: str
    teacher: str
    thought: str
    reply: str
    widget: str = ""
    joins: bool = False
    has_sheet: bool = False
    link: tuple[str, Mapping[str, str]] | tuple[()] = ()
    number: int = field(default=0, kw_only=True)
    begins: int = field(default=0, kw_only=True)

    @property
    def ends(self) -> int:
        """First minute after the step."""
        return self.begins + self.minutes


@dataclass(frozen=True)
class Tally:
    """The survey of a class: how many students said yes after two coins each."""

    asked: int
    yes: int

    @property
    def share(self) -> float:
        """Unbiased estimate of the share with true answer yes; may leave 0 to 1."""
        truth = truth_probability(SURVEY_EPSILON)
        return (self.yes / self.asked - (1 - truth)) / (2 * truth - 1)

    @property
    def nearest(self) -> float:
        """The estimate, limited to 0 and 1."""
        return min(max(self.share, 0.0), 1.0)

    @property
    def error(self) -> float:
        """Standard error of the estimate."""
        return standard_error(SURVEY_EPSILON, self.asked, self.nearest)


AIMS = (
    "say what differential privacy promises to a person, and what it does not promise;",
    "read ε as a limit on an attacker’s odds, and δ as a small excess beyond it;",
    "explain why DP-SGD clips every gradient before it adds noise;",
    "train a private model, and read its accuracy against ε;",
    "say why an attack that fails proves nothing.",
)
PREREQUISITES = (
    "Probability of a coin, and what an average is.",
    "A model has parameters, and training changes them step by step. Nobody needs to "
    "program.",
)
TO_PREPARE = (
    "Create a class and copy its link for students; they need no account.",
    "Print the sheet below, one for each student.",
    "Bring one coin for each student, and a projector. One device for two students is "
    "enough.",
)
#: Wrong statement, right statement, chapter and section that explains it.
MISCONCEPTIONS = (
    (
        "ε is the probability that my record leaks.",
        "ε limits a factor: no outcome becomes more than e^ε times as likely because "
        "of one record, except for a small δ.",
        "dp-concepts",
        "delta",
    ),
    (
        "Names were removed, so the data are private.",
        "A few known facts about a person often fit one record only.",
        "intro",
        "names",
    ),
    (
        "Enough noise makes any training private.",
        "Without clipping, one record can move the sum by any amount, and no amount of "
        "noise hides it.",
        "dpsgd-intro",
        "clip",
    ),
    (
        "Nobody can learn anything about me from a private model.",
        "They can learn what they would have learned without me, for example from a "
        "study about smoking.",
        "intro",
        "limits",
    ),
    (
        "The attack failed, so the model is private.",
        "A failed attack shows that this attack failed. Only a proof limits all "
        "attacks.",
        "auditing",
        "test",
    ),
    (
        "One person is one record.",
        "The unit of the promise is what the program calls a record. Someone with "
        "several records has a weaker promise.",
        "in-the-real-world",
        "unit",
    ),
)
#: Chapter and position of each question on the sheet.
SHEET = (
    ("intro", 0),
    ("intro", 1),
    ("dpsgd-intro", 0),
    ("what-models-leak", 3),
    ("in-the-real-world", 0),
)


def _in_order(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Returns the steps with their numbers and their first minutes."""
    begins = accumulate((step.minutes for step in steps), initial=0)
    return tuple(
        Step(**{**step.__dict__, "number": number, "begins": begin})
        for number, (step, begin) in enumerate(zip(steps, begins, strict=False), 1)
    )


STEPS = _in_order(
    (
        Step(
            10,
            "Two coins",
            "Have you ever copied homework? Let two coins decide what you say.",
            "Everyone flips a coin in secret. Heads: answer truthfully. Tails: flip "
            "again, and say yes for heads, no for tails. Then all who say yes raise "
            "a hand.",
            "Count the hands, type both numbers on the screen, and write the estimate "
            "on the board. Ask one student who raised a hand: “Did you copy?” Let the "
            "class find out why nobody can know.",
            "“A yes is a confession.”",
            "A quarter of all honest students say yes too, because of the coins.",
            widget="randomised-response",
        ),
        Step(
            8,
            "Noise",
            "How much noise hides one record?",
            "In pairs, open the short course, scene 1. Slide until the two curves are "
            "one, then go on until the model breaks.",
            "Ask for the largest noise at which the model still reads digits. Collect "
            "two numbers: an attacker’s right guesses and the model’s accuracy.",
            "“Then privacy is free.”",
            "Move on to the right: at some noise the accuracy falls. The amount of "
            "data decides where.",
            widget=SLIDER,
            link=("learn.short_course", {}),
        ),
        Step(
            7,
            "Odds",
            "What does ε = 1 allow an attacker?",
            "Everyone writes a guess on the sheet. Then look at the hundred faces.",
            "Reveal the answer. Then ask for ε = 8: does it mean eight times worse?",
            "“ε is a percentage.”",
            "ε is an exponent. Adding 1 multiplies the odds by e, about 2.7.",
            widget="odds-faces",
        ),
        Step(
            10,
            "One odd record",
            "How far can one record pull a model?",
            "One student drags record 24 on the screen, the others say when to stop.",
            "First without clipping, then with it. Ask what clipping costs the records "
            "that are not odd.",
            "“Delete the odd record.”",
            "Whoever deletes records by their values has looked at them, and the "
            "missing record is an answer too.",
            widget="one-odd-record",
        ),
        Step(
            10,
            "One private step",
            "Clip, add up, add noise: why in this order?",
            "In pairs, go through the step on the devices, and guess the angle before "
            "it is shown.",
            "Ask what goes wrong if noise comes first, or if only the sum is clipped.",
            "“Clip the average once, that is cheaper.”",
            "Then one record can still decide the direction of the whole average.",
            widget="microscope",
            link=("embed.widget", {"slug": "microscope"}),
        ),
        Step(
            15,
            "Everyone trains",
            "Who gets the most accuracy for ε = 1?",
            "Open the link for students, choose a nickname, change one setting, and "
            "launch. Watch the curve of the class.",
            "Show the page of the class. Ask the student in front what was changed, "
            "and one behind the others too.",
            "“My run was better because of the setting.”",
            "Two runs with the same setting and another seed differ too. How much?",
            link=("classes.index", {}),
            joins=True,
        ),
        Step(
            15,
            "Attack",
            "Was this record in the training data?",
            "Play ten rounds as the attacker: first against a model without privacy, "
            "then with ε = 1.",
            "Compare the scores of the class with a coin: about two thirds of "
            "the scores of ten coin flips lie between 4 and 6.",
            "“Seven of ten: the private model leaks.”",
            "A coin gets seven or more of ten in one of six games. Add up the scores "
            "of the class.",
            widget="membership-game",
        ),
        Step(
            10,
            "Sheet",
            "What do you know now?",
            "Everyone answers the questions on the sheet alone, then compares with a "
            "neighbour.",
            "Go through the key. Ask for the reason before the letter.",
            "“I only know the letter.”",
            "Ask for an example with numbers from today’s class.",
            has_sheet=True,
        ),
        Step(
            5,
            "What was not promised?",
            "What can still happen to you if every model is private?",
            "Name one thing that differential privacy does not prevent.",
            "Collect answers. Three belong on the board: others’ data can say much "
            "about you, several releases add up, and the promise covers only what the "
            "program calls a record.",
            "“So it is useless.”",
            "It is a promise that holds against every attacker, whatever they know "
            "already.",
        ),
    )
)


def sheet_questions() -> list[Question]:
    """Returns the questions of the sheet, from the chapters."""
    return [reading_of(CHAPTERS[slug]).parts.questions[i] for slug, i in SHEET]


@bp.get("/")
def plan() -> Response:
    """Shows the plan of the class, its sheet and the key."""
    return cached_page(_plan_page)


def _plan_page() -> str:
    return render_template(
        "teach/timed_class.html",
        steps=STEPS,
        aims=AIMS,
        prerequisites=PREREQUISITES,
        preparations=TO_PREPARE,
        misconceptions=MISCONCEPTIONS,
        chapters=CHAPTERS,
        questions=sheet_questions(),
    )


@bp.get("/<int:number>/")
def screen(number: int) -> str:
    """Shows the screen of a step, or status 404 for an unknown number.

    Raises:
        ConfigError: The count of hands is incomplete or impossible.
    """
    if not 1 <= number <= len(STEPS):
        abort(404)
    step = STEPS[number - 1]
    return render_template(
        "teach/screen.html",
        step=step,
        steps=STEPS,
        tally=_tally(),
        slider=noise_slider() if step.widget == SLIDER else "",
        classes=_open_classes() if step.joins else [],
        questions=sheet_questions() if step.has_sheet else [],
    )


def _open_classes() -> list[ClassAnswer]:
    """Returns the classes that this visitor teaches and that students can join."""
    visitor = current_visitor()
    mine = classes().of(visitor) if visitor else []
    answers = [ClassAnswer.of(class_, visitor) for class_ in mine]
    return [answer for answer in answers if answer.is_teacher and not answer.is_over]


def _tally() -> Tally | None:
    """Returns the count of hands in the address, or None."""
    if ASKED not in request.args and YES not in request.args:
        return None
    asked = _count(ASKED, "The number of students", 1, MOST_STUDENTS)
    return Tally(asked, _count(YES, "The number who said yes", 0, asked))


def _count(name: str, words: str, least: int, most: int) -> int:
    text = request.args.get(name, "").strip()
    number = int(text) if text.isascii() and text.isdigit() else -1
    if not least <= number <= most:
        raise ConfigError(
            name, f"{words} must be from {least} to {most}, got “{text[:20]}”"
        )
    return number
