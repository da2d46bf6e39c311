"""all-comb by hand: standardised scores, one for each reference and metric, and YiSi-2."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
from tiny_filler import save_tiny_filler

from pipeline.core.models import load_tokenizer
from pipeline.evaluate.metrics import Texts, standardised
from pipeline.evaluate.metrics.standardised import Settled, combined
from pipeline.evaluate.metrics.yisi import Settled as Yisi
from pipeline.evaluate.similarities import Tokens, Vectors
from pipeline.metric.checkpoint import Head, new_metric, save_metric
from pipeline.metric.prediction import predict

EN = "3 2\na 1 0\nb 3 4\nc 0 1\n"


def test_the_mean_of_standardised_scores() -> None:
    # (1, 3) becomes (-1, 1), (10, 30) too; a constant says nothing.
    found = combined([numpy.array([1.0, 3.0]), numpy.array([10.0, 30.0]), numpy.array([5.0, 5.0])])
    assert found == pytest.approx([-2 / 3, 2 / 3])


def test_each_reference_counts_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "vectors"
    file.write_text(EN, encoding="utf-8")
    one, two = (Yisi(Vectors(str(file), str(file), across, Tokens.BLANKS), 3, 0.8) for across in (False, True))
    lengths = {"a": 1.0, "b": 2.0, "c": 6.0}
    monkeypatch.setattr(
        standardised, "_bleurt", lambda texts, settings, batch: numpy.array([lengths[z] for z in texts.reference])
    )
    texts = Texts((("a", "a"), ("b",), ("c", "b")), ("a", "a", "a"), ("a", "a", "a"))
    found = standardised._score(texts, Settled("none", 128, one, two), 0)
    # First references: YiSi-1 1, 0.6, 0 and BLEURT 1, 2, 6. Second, of the first and third segment: 1, 0.6 and 1, 2.
    # YiSi-2 is 1 for all.
    yisi, bleurt = numpy.array([1, 0.6, 0]), numpy.array([1.0, 2.0, 6.0])
    first = [(column - column.mean()) / column.std() for column in (yisi, bleurt)]
    expected = [
        (first[0][0] + first[1][0] + 1 - 1) / 5,
        (first[0][1] + first[1][1]) / 3,
        (first[0][2] + first[1][2] - 1 + 1) / 5,
    ]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(("reads", "first", "times"), [("source", "b c", 1), ("both", "a [SEP] b c", 2)])
def test_a_checkpoint_that_reads_sources_gets_them_and_one_without_references_scores_once(
    reads: str, first: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, folder = save_tiny_filler(tmp_path / "encoder"), tmp_path / "qe"
    metric = new_metric(str(encoder), Head.CLS, ["adequacy"], 0.0, 1)
    metric.config.reads = reads
    save_metric(metric, load_tokenizer(encoder), folder)
    (tmp_path / "vectors").write_text(EN, encoding="utf-8")
    vectors = [Vectors(*(str(tmp_path / "vectors"),) * 2, across, Tokens.BLANKS) for across in (False, True)]
    one, two = (Yisi(each, 3, 0.8) for each in vectors)
    monkeypatch.setattr(standardised, "_section", lambda name: SimpleNamespace(settle=lambda value, *_: value))
    given: Any = SimpleNamespace(bleurt=str(folder), max_tokens=32, yisi1=one, yisi2=two)
    settings = standardised._settle(given, [], 64)
    assert settings == Settled(str(folder), 32, one, two, reads)
    texts = Texts((("a", "c"), ("a",)), ("b c", "b c"), ("a b", "c"))
    alone = predict(folder, [first] * 2, texts.candidates, 32, 64)[:, 0]
    assert standardised._bleurt(texts, settings, 64) == pytest.approx(alone)
    calls = list[Texts]()
    monkeypatch.setattr(
        standardised, "_bleurt", lambda texts, *_: (calls.append(texts), numpy.ones(len(texts.sources)))[1]
    )
    assert len(standardised._score(texts, settings, 64)) == 2
    assert [one.references for one in calls] == [(("a",), ("a",)), (("c",),)][:times]
    assert {source for one in calls for source in one.sources} == {"b c"}
