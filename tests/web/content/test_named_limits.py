"""Each limit on an attacker says which of two it is: of this run, or of ε alone.

The first is read off the run's own trade-off curve, the second is what ε allows any
procedure.  They differ by up to 30 points, so a number without its name contradicts
its neighbour.  Here pages are read block by block, with the data and the drawings that
they hold; then the sentences that scripts hold.
"""

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from dpsgd_explorer.web.hub.registry import WIDGETS
from dpsgd_explorer.web.questions.odds import EPSILON_ALONE, THIS_RUN

ROOT = Path(__file__).parents[3]
PAGES = (
    "/",
    "/glossary/",
    "/labs/",
    "/labs/attack/",
    "/labs/planner/",
    "/labs/reconstruct/",
    "/train/",
    "/about/",
    *(f"/learn/{slug}/" for slug in CHAPTERS),
    *(f"/teach/{slug}/" for slug in CHAPTERS),
    *(f"/embed/{slug}/" for slug in WIDGETS),
)
SHARE = r"(%|\bpercent\b|\b(?:in|of) 100\b)"
LIMIT = (
    r"(\bat most\b|\bno attack|\bnobody is right\b|\bor less\b|\blimits?\b|\ballows?\b"
    r"|\bno more than\b|\bceiling\b|\bsurest\b|\bmost that is possible\b"
    r"|\bmost possible\b|\bpasses\b|\bhow sure can\b)"
)
SUBJECT = r"(attack|\bguess(?:es)? whether|\bright\b|\bsure(st)?\b|\bmembers\b)"
NEVER = r"\bno attack(er)?\b.*\bright more often\b"
CLAIM = re.compile(f"(?i)(?=.*{SHARE})(?=.*{LIMIT})(?=.*{SUBJECT})|{NEVER}")
NAMED = re.compile(f"{THIS_RUN}|{EPSILON_ALONE}", re.IGNORECASE)
#: What has these words and no limit of an attacker: learning, accuracy, an audit.
OTHERWISE = re.compile(
    r"95 % (?:interval|confidence)|interval at 95 %|accuracy of a|limit of accuracy"
)
#: A share of right guesses depends on how likely the record was to begin with.
EVEN = re.compile(
    r"(?i)\beven (?:odds|chance)|\bequally likely|\bfair coin|\bcoin is right"
    r"|\b(?:first belief of|starts at) 50 %"
)
RIGHT = re.compile(r"(?i)(?=.*\d)(?=.*(?:\bright\b|\bguess(?:es)? whether))")
FIGURE = re.compile(r"<figure.*?</figure>", re.DOTALL)
BLOCKS = {"p", "li", "dt", "h1", "h2", "h3", "h4", "figcaption", "legend", "summary"}
BLOCKS |= {"label", "text", "tr", "button", "caption"}
SPOKEN = ("aria-label", "content", "alt", "title", "aria-valuetext")
STRING = re.compile(r'`(?:[^`\\]|\\.)*`|"(?:[^"\\\n]|\\.)*"')
LIMITS_SENT = re.compile(r"\$\{[^}]*\b(limits|named)\b[^}]*\}")


class Blocks(HTMLParser):
    """The blocks of a page: a term with its meaning, a row with its heads."""

    def __init__(self, page):
        super().__init__()
        self.blocks, self.open, self.data = [], [], None
        self.heads = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.blocks += [given[name] for name in SPOKEN if given.get(name)]
        if tag == "script":
            self.data = given.get("type") == "application/json"
        elif tag in BLOCKS and "dd" not in [name for name, _ in self.open]:
            self.open.append((tag, []))
        elif tag == "th" and self.open and given.get("scope") == "col":
            self.open[-1] = ("head", self.open[-1][1])

    def handle_endtag(self, tag):
        if tag == "script":
            self.data = None
        elif tag == "dt" and self.open:
            self.open[-1] = ("dd", self.open[-1][1])
        elif tag == "thead":
            self.heads = self.blocks[-1] if self.blocks else ""
        elif self.open and self.open[-1][0] in (tag, *(["head"] * (tag == "tr"))):
            name, words = self.open.pop()
            text = " ".join(" ".join(words).split())
            self.blocks.append(f"{self.heads}: {text}" if name == "tr" else text)
        if tag == "table":
            self.heads = ""

    def handle_data(self, data):
        if self.data:
            self.blocks += strings_of(json.loads(data))
        elif self.data is None and self.open:
            self.open[-1][1].append(data)


def strings_of(value):
    """Return all texts of more than a word in what is handed to a script."""
    if isinstance(value, dict):
        return [text for one in value.values() for text in strings_of(one)]
    if isinstance(value, list):
        return [text for one in value for text in strings_of(one)]
    return [value] if isinstance(value, str) and " " in value else []


def unnamed(blocks):
    """Return the blocks that state a limit of an attacker and not which one."""
    return [
        text
        for text in (OTHERWISE.sub("", one) for one in map(html.unescape, blocks))
        if CLAIM.search(text) and not NAMED.search(text)
    ]


def is_share_of_guesses(text):
    """Return True if a block states the largest share of right guesses."""
    text = OTHERWISE.sub("", html.unescape(text))
    return bool(CLAIM.search(text) and RIGHT.search(text))


def without_odds(page):
    """Return limits on the share of right guesses that do not say from which odds.

    A figure says it once, for all that it holds, and so do cells and terms; a sentence
    says it itself.
    """
    parts = [Blocks(figure).blocks for figure in FIGURE.findall(page)]
    rest = Blocks(FIGURE.sub("", page)).blocks
    sentences = [text for text in rest if text.endswith(".")]
    parts += [[text] for text in sentences]
    claims = list(filter(is_share_of_guesses, sentences))
    parts.append([text for text in rest if text not in claims])
    found = []
    for part in parts:
        claims = list(filter(is_share_of_guesses, part))
        if claims and not any(EVEN.search(html.unescape(text)) for text in part):
            found.append(claims[0])
    return found


@pytest.mark.parametrize("address", PAGES)
def test_each_share_of_right_guesses_says_that_it_starts_at_even_odds(reading, address):
    assert without_odds(reading.get(address).text) == []


def test_a_share_of_right_guesses_without_its_odds_is_seen():
    sentence = "<p>On this run no attack is right more than 60.5 % of the time{}.</p>"
    assert without_odds(sentence.format(""))
    assert not without_odds(sentence.format(", starting from even odds"))
    assert without_odds(f"<p>At even odds.</p>{sentence.format('')}")


@pytest.mark.parametrize("address", PAGES)
def test_each_limit_on_an_attacker_says_which_one_it_is(reading, address):
    blocks = Blocks(reading.get(address).text).blocks
    assert len(blocks) > 5
    assert unnamed(blocks) == []


def test_sentences_of_scripts_say_it_too_or_print_what_the_server_names():
    found = []
    folders = (ROOT / "static" / "js", ROOT / "dpsgd_explorer" / "web")
    for file in sorted(file for folder in folders for file in folder.rglob("*.js")):
        for string in STRING.findall(file.read_text(encoding="utf-8")):
            if LIMITS_SENT.search(string):
                continue
            found += [f"{file.name}: {text}" for text in unnamed([string])]
    assert found == []


@pytest.mark.parametrize(
    "sentence",
    [
        # As they once stood, side by side, of σ = 4.556 and of σ = 4.
        "<dl><div><dt>73.2 %</dt><dd>at most: how often an attacker is right about "
        "whether your record was included.</dd></div></dl>",
        "<p>No attacker is right on more than 76.1 of 100: a limit</p>",
        '<svg aria-label="No attack on ε = 1.47 is right more often than 61 %"></svg>',
        "<p>ε = 4.00 allows 10 % of the members</p>",
        "<p>The surest an attacker can become, from 50 %</p>",
        "<table><thead><tr><th scope='col'>attacker right at most, %</th></tr></thead>"
        "<tbody><tr><td>73.2</td></tr></tbody></table>",
        '<script type="application/json">{"a": ["no attack passes 56 %"]}</script>',
    ],
)
def test_a_limit_without_its_name_is_seen(sentence):
    assert unnamed(Blocks(sentence).blocks)
    named = sentence.replace("%", f"% ({EPSILON_ALONE})").replace(
        "of 100", "% this run"
    )
    assert not unnamed(Blocks(named).blocks)
