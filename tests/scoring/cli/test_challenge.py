"""Both challenge sets keep their guideline, and pairwise accuracy is counted right."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy
import pytest
from tiny_filler import save_tiny_filler

from pipeline.collect.splits import normalised
from pipeline.core.errors import InputError, ModelError
from pipeline.core.models import load_tokenizer
from pipeline.core.modules import ROOT
from pipeline.evaluate.metrics import score_pairs
from pipeline.label.signals import entailment as signal
from pipeline.metric.checkpoint import Head, new_metric, save_metric
from pipeline.metric.prediction import predict
from pipeline.scoring.__main__ import main
from pipeline.scoring.cli import challenge
from pipeline.scoring.cli.challenge import (
    COLUMNS,
    ITEMS,
    Item,
    Tally,
    checkpoint_score,
    entailment_score,
    pairwise_accuracy,
    read_items,
    rows_of,
)
from pipeline.scoring.output import Format, table

HEADER = "\t".join(COLUMNS) + "\n"
README = (ITEMS.parent / "README.md").read_text(encoding="utf-8")
SECOND = ITEMS.parent / "second.tsv"
"""The set that is read once, after training: no test may score it."""
SMALLEST = {ITEMS: 15, SECOND: 10}
"""Items in a category, at least."""
NUMBER = re.compile(r"\d[\d.,:]*|\b(?:three|eight|nine|fifteen|fifty|eighty|third|tenth)\b", re.IGNORECASE)


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return read_items(ITEMS)


@pytest.fixture(scope="module", params=[ITEMS, SECOND], ids=lambda file: file.stem)
def file_of_set(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


@pytest.fixture(scope="module")
def either(file_of_set: Path) -> list[Item]:
    """The items of the first set, then those of the second."""
    return read_items(file_of_set)


def lengths(references: Sequence[str], candidates: Sequence[str]) -> list[float]:
    return [float(len(candidate)) for candidate in candidates]


def words(text: str) -> list[str]:
    return sorted(re.findall(r"[\w'-]+", text))


def stands_in_order(part: str, whole: str) -> bool:
    """Whether all words of `part` occur in `whole`, in their order, with others before, between or after them."""
    rest = iter(re.findall(r"[\w'-]+", whole.casefold()))
    return all(word in rest for word in re.findall(r"[\w'-]+", part.casefold()))


def kind(items: Sequence[Item], place: int, name: str) -> list[Item]:
    """Items whose better (place 0) or worse (place 1) candidate is a `name`."""
    return [item for item in items if item.category.split(">")[place] == name]


def texts_of(items: Sequence[Item]) -> set[str]:
    """All references and candidates but the empty one: each as its words in small letters, a blank on both sides."""
    found = (text for item in items for text in (item.reference, item.better, item.worse) if text)
    return {" ".join(["", *re.findall(r"\w+", text.casefold()), ""]) for text in found}


# the sets


def test_a_set_is_large_and_balanced(file_of_set: Path, either: list[Item]) -> None:
    sizes = Counter(item.category for item in either)
    assert min(sizes.values()) >= SMALLEST[file_of_set]
    assert set(sizes) >= {
        "identical>paraphrase",
        "paraphrase>wrong entity",
        "wrong entity>negation flip",
        "negation flip>half missing",
        "half missing>unrelated",
        "unrelated>empty",
    }


def test_both_sets_have_the_same_categories_in_the_same_order(items: list[Item]) -> None:
    first, second = (list(dict.fromkeys(item.category for item in found)) for found in (items, read_items(SECOND)))
    assert first == second


def test_nothing_of_one_set_occurs_in_the_other(items: list[Item]) -> None:
    first, second = texts_of(items), texts_of(read_items(SECOND))
    assert [(one, other) for one in first for other in second if one in other or other in one] == []


def test_no_stage_reads_a_challenge_set() -> None:
    files = [*(ROOT / "pipeline").rglob("*.py"), ROOT / "params.yaml", ROOT / "dvc.yaml"]
    named = {file.name for file in files if re.search(r"data\W+challenge", file.read_text(encoding="utf-8"))}
    assert named == {"challenge.py"}


def test_the_readme_says_how_large_it_is_and_explains_every_kind(file_of_set: Path, either: list[Item]) -> None:
    sizes = Counter(item.category for item in either)
    each = " or ".join(map(str, sorted(set(sizes.values()))))
    assert f"`{file_of_set.name}`: {len(either)} items" in README
    assert f"{each} in each of {len(sizes)} categories" in " ".join(README.split())
    kinds = {kind for category in sizes for kind in category.split(">")}
    assert {kind for kind in kinds if f"\n| {kind} | " not in README} == set()


def test_no_item_stands_twice(either: list[Item]) -> None:
    texts = Counter((item.reference, item.better, item.worse) for item in either)
    assert [text for text, count in texts.items() if count > 1] == []
    folded = Counter(tuple(map(normalised, (item.reference, item.better, item.worse))) for item in either)
    assert max(folded.values()) == 1


def test_an_id_is_the_category_and_a_number_that_tells_the_set(file_of_set: Path, either: list[Item]) -> None:
    mark = {ITEMS: "", SECOND: "s"}[file_of_set]
    slugs = [re.sub(r"[> ]", "-", item.category) for item in either]
    wrong = [
        item.id for item, slug in zip(either, slugs, strict=True) if not re.fullmatch(rf"{slug}-{mark}\d\d", item.id)
    ]
    assert wrong == []


def test_no_text_has_stray_blanks(either: list[Item]) -> None:
    texts = [text for item in either for text in (item.reference, item.better, item.worse)]
    assert [text for text in texts if text != " ".join(text.split())] == []


def test_no_reference_is_one_of_the_sample(either: list[Item]) -> None:
    lines = (ROOT / "data" / "sample" / "ratings.tsv").read_text(encoding="utf-8").splitlines()[1:]
    sample = {normalised(text) for line in lines for text in line.split("\t")[:2]}
    assert {item.reference for item in either if normalised(item.reference) in sample} == set()


def test_candidates_are_of_the_kind_that_the_category_names(either: list[Item]) -> None:
    assert all(item.better == item.reference for item in kind(either, 0, "identical"))
    assert all(item.worse == "" for item in kind(either, 1, "empty"))
    assert all(words(item.worse) == words(item.reference) for item in kind(either, 1, "scrambled words"))
    assert all(stands_in_order(item.reference, item.worse) for item in kind(either, 1, "extra clause"))
    assert all(item.worse.rstrip(".") in item.reference for item in kind(either, 1, "half missing"))
    for item in kind(either, 1, "number changed"):
        before, after = (NUMBER.findall(text) for text in (item.reference, item.worse))
        assert sum(one != other for one, other in zip(before, after, strict=True)) == 1, item
        assert NUMBER.sub("", item.reference) == NUMBER.sub("", item.worse)
    for item in kind(either, 1, "repeated words"):
        before, after = (max(Counter(pairwise(text.split())).values()) for text in (item.reference, item.worse))
        assert (before, after >= 3) == (1, True), item


def test_words_alone_do_not_tell_a_paraphrase_from_an_error(items: list[Item]) -> None:
    found = pairwise_accuracy(partial(score_pairs, "chrf++"), items)
    errors = ("wrong entity", "negation flip", "number changed", "scrambled words", "extra clause")
    assert {error: found[f"paraphrase>{error}"].right for error in errors} == dict.fromkeys(errors, 0)
    plain = ("identical>paraphrase", "half missing>unrelated", "unrelated>empty")
    assert {name: found[name].right for name in plain} == {name: found[name].total for name in plain}


# reading


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    def write(rows: str) -> Path:
        place = tmp_path / "items.tsv"
        place.write_text(HEADER + rows, encoding="utf-8")
        return place

    return write


def test_rows_are_read_in_order_and_only_worse_may_be_empty(file: Callable[[str], Path]) -> None:
    assert read_items(file("1\tx\tr\tb\t\n2\ty\tr\tb\tw\n")) == [
        Item("1", "x", "r", "b", ""),
        Item("2", "y", "r", "b", "w"),
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1\tx\tr\tb\tw\n1\tx\tq\tb\tw\n", r"items\.tsv, line 3: id occurs twice: '1'\."),
        ("1\t \tr\tb\tw\n", r"items\.tsv, line 2: category is empty\."),
        ("1\tx\t\tb\tw\n", r"items\.tsv, line 2: reference is empty\."),
        ("1\tx\tr\t\tw\n", r"items\.tsv, line 2: better is empty\."),
        ("1\tx\tr\tb\tb\n", r"items\.tsv, line 2: better and worse are the same: 'b'\."),
        ("1\tx\tr\tb\n", r"items\.tsv, line 2: has 4 fields, but the header 5\."),
        ("", r"items\.tsv: holds no item\."),
    ],
)
def test_malformed_rows_are_refused(file: Callable[[str], Path], rows: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_items(file(rows))


# counting


def test_right_ties_and_total_by_hand() -> None:
    made = [
        Item("1", "long", "r", "bbb", "w"),  # 3 > 1: right
        Item("2", "long", "r", "b", "www"),  # 1 < 3: wrong
        Item("3", "even", "r", "bb", "ww"),  # a tie
        Item("4", "long", "s", "bb", ""),  # 2 > 0: right
    ]
    assert pairwise_accuracy(lengths, made) == {"long": (2, 0, 3), "even": (0, 1, 1)}


def test_each_pair_is_scored_once_against_its_own_reference() -> None:
    seen: list[tuple[str, str]] = []

    def score(references: Sequence[str], candidates: Sequence[str]) -> list[float]:
        seen.extend(zip(references, candidates, strict=True))
        return [float(reference == candidate) for reference, candidate in seen]

    made = [Item("1", "x", "a", "a", "b"), Item("2", "x", "b", "b", "a"), Item("3", "x", "a", "a", "c")]
    assert pairwise_accuracy(score, made) == {"x": (3, 0, 3)}
    assert seen == [("a", "a"), ("a", "b"), ("b", "b"), ("b", "a"), ("a", "c")]


def test_a_score_that_is_no_number_is_refused() -> None:
    with pytest.raises(ModelError, match=r"The metric gives nan for the candidate 'b'; it must give a number\."):
        pairwise_accuracy(lambda z, c: [float("nan")] * len(c), [Item("1", "x", "a", "b", "c")])


def test_a_constant_metric_ties_everywhere_and_a_perfect_one_nowhere(items: list[Item]) -> None:
    better = {(item.reference, item.better): 1.0 for item in items}
    constant = pairwise_accuracy(lambda z, c: numpy.zeros(len(c)), items)
    assert {(tally.right, tally.ties - tally.total) for tally in constant.values()} == {(0, 0)}
    own = [item for item in items if (item.reference, item.worse) not in better]
    perfect = pairwise_accuracy(lambda z, c: [better.get(pair, 0.0) for pair in zip(z, c, strict=True)], own)
    assert {(tally.total - tally.right, tally.ties) for tally in perfect.values()} == {(0, 0)}


def test_the_table_ends_with_all_items() -> None:
    tallies = {
        "metric": {"x": Tally(3, 0, 4), "yy": Tally(1, 1, 2)},
        "sentbleu": {"x": Tally(0, 0, 4), "yy": Tally(2, 0, 2)},
    }
    assert table(rows_of(tallies), Format.TEXT, 1).splitlines() == [
        "category      items    metric    metric ties    sentbleu",
        "----------  -------  --------  -------------  ----------",
        "x                 4      75.0              0         0.0",
        "yy                2      50.0              1       100.0",
        "all               6      66.7              1        33.3",
    ]


# the command


def save_checkpoint(folder: Path, names: list[str]) -> Path:
    encoder = save_tiny_filler(folder / "encoder", positions=128)
    save_metric(
        new_metric(str(encoder), Head.CLS, names, dropout=0.1, seed=3), load_tokenizer(encoder), folder / "metric"
    )
    return folder / "metric"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs `bleurt challenge` in this process; returns its exit code."""
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    return lambda *arguments: main(["challenge", *map(str, arguments)])


def test_the_command_prints_the_metric_beside_the_baselines(
    tmp_path: Path, file: Callable[[str], Path], command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = file("1\tcopy\tthe cat sat\tthe cat sat\ta dog ran\n2\tnothing\tthe cat sat\tthe bird\t\n")
    assert command("--checkpoint", save_checkpoint(tmp_path, ["adequacy"]), "--items", rows) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert lines[1].split() == ["category", "items", "metric", "sentbleu", "chrf++"]
    cells = [line.split() for line in lines[3:]]
    assert [row[:2] + row[3:] for row in cells] == [
        ["copy", "1", "100.0", "100.0"],
        ["nothing", "1", "100.0", "100.0"],
        ["all", "2", "100.0", "100.0"],
    ]
    assert {row[2] for row in cells[:2]} <= {"0.0", "100.0"}


def test_entailment_counts_both_ways_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one text says of the other: (entails, contradicts), in the order of the arguments."""
    said = {("a", "b"): (0.8, 0.1), ("b", "a"): (0.3, 0.6), ("a", "c"): (0.0, 0.9), ("c", "a"): (0.1, 0.7)}

    def entailment(premises: Sequence[str], hypotheses: Sequence[str], params: signal.Params) -> numpy.ndarray:
        assert params.model == "some/model"
        return numpy.array([[*said[pair], 1 - sum(said[pair])] for pair in zip(premises, hypotheses, strict=True)])

    monkeypatch.setattr(signal, "entailment", entailment)
    assert entailment_score("some/model")(["a", "a"], ["b", "c"]) == pytest.approx([0.2, -0.75])


def test_the_bundled_classifier_stands_beside_the_metric(
    file: Callable[[str], Path], command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = file("1\tcopy\tA man is sleeping.\tA man is sleeping.\tNobody is sleeping.\n")
    assert command("--items", rows, "--entailment", "bundled:entailment") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[-2:] == ["entailment", "metric+entailment"]
    assert lines[3].split() == ["copy", "1", *["100.0"] * 5]


def test_scores_are_the_checkpoints_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    folder = save_checkpoint(tmp_path, ["adequacy"])
    references, candidates = ["the cat sat on the mat.", "a dog ran", "the cat"], ["the cat sat.", "", "the dog " * 500]
    expected = predict(folder, references, candidates, max_tokens=128, batch_tokens=64)[:, 0]
    assert checkpoint_score(str(folder))(references, candidates) == pytest.approx(expected.tolist(), abs=1e-5)


def test_a_checkpoint_of_several_aspects_is_one_sentence_and_exit_code_2(
    tmp_path: Path, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save_checkpoint(tmp_path, ["fluency", "grammar"])
    capsys.readouterr()  # what saving shows
    assert command("--checkpoint", folder) == 2
    output = capsys.readouterr()
    assert output.out == ""
    expected = f"error: {folder}: gives 2 scores (fluency, grammar), the challenge set needs one.\n"
    assert output.err == expected


def test_an_installed_package_has_no_set_of_its_own(
    command: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(challenge, "ITEMS", tmp_path / "items.tsv")
    assert command() == 2
    assert capsys.readouterr().err.startswith("error: --items: name a table of items; the project's own set")
