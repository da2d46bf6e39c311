"""Wikitext to prose: what goes, what stays, and where a mark says that words are missing."""

import time

import mwparserfromhell
import pytest
from mwparserfromhell.parser import ParserError

from pipeline.extract.markup import paragraphs
from pipeline.extract.tags import BROKEN, CODE, CUT, FORMULA, PRONUNCIATION, TEMPLATE, URL
from pipeline.extract.templates import template_text


@pytest.mark.parametrize(
    ("wikitext", "plain"),
    [
        ("'''Rome''' is ''the'' city.", "Rome is the city."),
        ("A [[city]] in [[Italy|the country]].", "A city in the country."),
        ("See [[:fr:Rome]] and [[Rome_(film)|film]]s.", "See fr:Rome and films."),
        ("Rome.[[fr:Rome]][[Category:Cities]] [[Image:a.jpg|thumb|The [[Forum]]]]", "Rome."),
        ("Old.<ref>Smith [[1999]]</ref><ref name=a /> New.<ref name='b'>{{cite web|url=x}}</ref>", "Old. New."),
        ("Old.<!-- hidden {{ --> New.", "Old. New."),
        ("Tom &amp; Jerry&nbsp;&ndash; a duo&#33;", "Tom & Jerry – a duo!"),
        ("10<sup>6</sup> of CO<sub>2</sub>, the 5<sup>th</sup>.", "10⁶ of CO2, the 5th."),
        ("A [http://a.org/x?y=1 good page], a number [http://b.org].", "A good page, a number."),
        ("One<br/>two <span style='x'>three</span> <small>four</small>.", "One two three four."),
        ("{{nowrap|{{convert|5|km|mi}}}} away{{citation needed|date=May}}.", "5 km away."),
        ("Rome ({{IPA|x}}; from ''Roma'') grew.", "Rome (from Roma) grew."),
        ("Rome ({{IPAc-en|r}}, {{IPA|y}}) grew.", "Rome grew."),
        ("Rome (pronounced {{IPA|x}}) grew.", "Rome grew."),
        ("Rome (), [[File:x.ogg|]] grew.", "Rome, grew."),
        ("It rained.{{unknown note}} It stopped.", "It rained. It stopped."),
        ("One line\nof two.\n", "One line of two."),
        ("__NOTOC__Rome.", "Rome."),
        (
            "He was in [[CSI: Miami]] and [[Re: Zero]].[[simple:Rome]][[zh-yue:Rome]]",
            "He was in CSI: Miami and Re: Zero.",
        ),
        ("Rome.<gallery>a.jpg|b</gallery>", "Rome."),
    ],
)
def test_one_paragraph(wikitext: str, plain: str) -> None:
    assert paragraphs(wikitext) == [plain]


@pytest.mark.parametrize(
    ("wikitext", "plain"),
    [
        ("It has {{unknown|7}} legs.", f"It has {TEMPLATE} legs."),
        ("So <math>a<b</math> holds.", f"So {FORMULA} holds."),
        ("Use <code>x</code> here.", f"Use {CODE} here."),
        ("Go to http://a.org/b now.", f"Go to {URL} now."),
        ("The sound {{IPA|/a/}} is low.", f"The sound {PRONUNCIATION} is low."),
        ("It is {{convert|5|blobs}} long.", f"It is {TEMPLATE} long."),
        ("It {{ is odd.", f"It {BROKEN} is odd."),
        ("It ]] is odd.", f"It {BROKEN} is odd."),
        ("Said.<ref>Smith, never closed. And so on.", f"Said.{CUT}"),
        ("A forged \ue005 mark.", f"A forged {BROKEN} mark."),
    ],
)
def test_missing_words_leave_a_mark(wikitext: str, plain: str) -> None:
    assert paragraphs(wikitext) == [plain]


@pytest.mark.parametrize(
    "wikitext",
    [
        "* item\n# item\n: indented\n; term\n preformatted",
        "{{Infobox\n| name = [[Rome]]\n| map = {{a|{{b}}}}\n}}",
        "{|\n! head\n|-\n| cell {{a|b}}\n{|\n| inner\n|}\n| outer\n|}",
        "== Heading ==\n=== ''Sub'' ===",
        "[[File:a.jpg|thumb|A caption with a [[link]] and a {{template}}.]]",
        "[[Category:Cities]]\n[[de:Rom]]",
        "== References ==\nProse here.\n=== Sub ===\nMore prose.",
        "",
    ],
)
def test_nothing_but_markup_gives_no_paragraph(wikitext: str) -> None:
    assert paragraphs(wikitext) == []


def test_headings_lists_and_blank_lines_part_paragraphs() -> None:
    wikitext = "== Top ==\nOne.\n* item\nTwo.\n\nThree.\n{{main|x}}\nFour.\n== Notes ==\nGone.\n== Last ==\nFive."
    assert paragraphs(wikitext) == ["One.", "Two.", "Three.", "Four.", "Five."]


def test_an_unclosed_table_ends_at_the_next_heading() -> None:
    assert paragraphs("One.\n{|\n| cell\nlost\n== Next ==\nTwo.") == ["One.", "Two."]


def test_quoted_template_is_a_paragraph_of_its_own() -> None:
    assert paragraphs("He wrote:\n{{quote|Rome is ''old''.|Smith}}\nSo it is.") == [
        "He wrote:",
        "Rome is old.",
        "So it is.",
    ]


def test_names_of_foreign_namespaces() -> None:
    assert paragraphs("Rom.[[Datei:a.jpg|mini|Bild]]", media=("datei",)) == ["Rom."]


@pytest.mark.parametrize(
    ("name", "arguments", "shown"),
    [
        ("convert", "5|km|mi", "5 km"),
        ("Convert", "12000|sqmi|km2|0", "12,000 square miles"),
        ("convert", "5|to|10|ft", "5 to 10 feet"),
        ("convert", "5|ft|10|in|m", "5 feet 10 inches"),
        ("convert", "1|mi|km", "1 mile"),
        ("convert", "20|C|F", "20 °C"),
        ("convert", "2|Moilbbl/d", "2 million barrels per day"),
        ("convert", "3|e6acre|e6ha", "3 million acres"),
        ("cvt", "1+1/2|in|mm", "1 1/2 inches"),
        ("convert", "-40|C", "−40 °C"),
        ("convert", "km", TEMPLATE),
        ("convert", "4|mi|2|yd|3|ft|km", "4 miles 2 yards 3 feet"),
        ("convert", "5|ft|1|in|m", "5 feet 1 inch"),
        ("convert", "4|mi|2|yd|3|ft|4|in", TEMPLATE),
        ("convert", "1|" + "m|1|" * 1000 + "m", TEMPLATE),
        ("convert", "1|" + "e3" * 1000 + "m", TEMPLATE),
        ("convert", "1" * 100_000 + "x|m", TEMPLATE),
        ("convert", "3|e3m", "3 thousand m"),
        ("formatnum", "1" * 5000, "11," + ",".join(["111"] * 1666)),
        ("formatnum", "0012345", "12,345"),
        ("formatnum", "100000", "100,000"),
        ("formatnum", "000000", "0"),
        ("lang", "fr|oui", "oui"),
        ("lang-fr", "oui", "French: oui"),
        ("langx", "fr|oui", "French: oui"),
        ("lang-qqq", "oui", TEMPLATE),
        ("transl", "ar|DIN|Allah", "Allah"),
        ("nihongo", "health|元気|genki", "health (元気, genki)"),
        ("as of", "2014|5", "As of May 2014"),
        ("frac", "3|4", "3/4"),
        ("frac", "a|4", FORMULA),
        ("val", "30000", "30,000"),
        ("formatnum", "1234567.5", "1,234,567.5"),
        ("circa", "1820", "c. 1820"),
        ("snd", "", " – "),
        ("sfn", "Smith|1999", ""),
        ("Cite_book", "x", ""),
        ("harvtxt", "Smith|1999", TEMPLATE),
        ("chem", "H|2|O", FORMULA),
        ("coord", "1|N|2|E", TEMPLATE),
        ("nowrap", "", TEMPLATE),
    ],
)
def test_template(name: str, arguments: str, shown: str) -> None:
    assert template_text(name, {str(i): part for i, part in enumerate(arguments.split("|"), start=1)}) == shown


def test_named_arguments_of_templates() -> None:
    assert template_text("convert", {"1": "5", "2": "mi", "adj": "on"}) == "5-mile"
    assert template_text("as of", {"1": "2014", "lc": "y"}) == "as of 2014"
    assert template_text("coord", {"1": "1", "display": "title"}) == ""
    assert template_text("val", {"1": "6", "e": "23"}) == FORMULA


@pytest.mark.parametrize(
    "unit",
    [
        "{{a|",
        "{{a|[[b|}}]]",
        "<ref>",
        '<ref name="',
        "<b>x",
        "{|\n|a\n",
        "[[a|",
        "[http://a ",
        "<!--",
        "a <5 ",
        "<b <",
        "a < b ",
        "<",
        "{{nowrap|<",
        "(or or ",
        "{{",
        "=",
    ],
)
def test_broken_markup_takes_linear_time(unit: str) -> None:
    """mwparserfromhell alone takes hours over some of these pages of 200,000 characters."""
    start = time.process_time()
    paragraphs(unit * (200_000 // len(unit)))
    assert time.process_time() - start < 10


def test_less_than_signs_stay_as_written() -> None:
    assert paragraphs("A p < 5 or {{nowrap|<6}} it <is.") == [f"A p < 5 or <6 it {BROKEN}is."]


def test_deep_nesting_is_broken_markup() -> None:
    assert paragraphs("A " + "{{nowrap|" * 20 + "deep" + "}}" * 20 + " word.") == ["A deep word."]
    assert BROKEN in paragraphs("A " + "{{nowrap|" * 300 + "deep" + "}}" * 300 + " word.")[0]


def test_where_the_parser_gives_up_sentences_without_markup_survive(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = mwparserfromhell.parse

    def fails_on_brackets(text: str, **options: bool) -> object:
        if "{" in text:
            raise ParserError("gives up")
        return parse(text, **options)

    monkeypatch.setattr(mwparserfromhell, "parse", fails_on_brackets)
    assert paragraphs("It is {{so}}. It rains.") == [f"It is {BROKEN}so{BROKEN}. It rains."]
