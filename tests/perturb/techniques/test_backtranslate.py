"""Round trips through pivots: which segments, which models, what is dropped."""

import dataclasses

import numpy
import pytest
from tiny_marian import TEXTS, save_tiny_marian

from pipeline.core.errors import ParamsError
from pipeline.core.records import Reason
from pipeline.perturb.attempts import Technique
from pipeline.perturb.techniques.backtranslate import BacktranslateParams, backtranslate
from pipeline.teachers.translator import Pivot, Translator, load_translator


@pytest.fixture
def params(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    to = str(save_tiny_marian(tmp_path / "to", (">>fra<<", ">>deu<<"), seed=2))
    back = str(save_tiny_marian(tmp_path / "back", (">>fra<<", ">>deu<<"), seed=3))
    pivots = {"fr": Pivot(to, back), "de": Pivot(to, back)}
    return BacktranslateParams(share=1.0, language="en", pivots=pivots, beam_width=2, batch_sentences=4)


def seeded() -> numpy.random.Generator:
    return numpy.random.default_rng(0)


def test_candidates_are_round_trips_of_their_own_segment_and_pivot(params):
    attempts = backtranslate(TEXTS, params, seeded())
    assert [(a.segment, a.tag, a.pivot) for a in attempts] == [(i, p, p) for p in ("de", "fr") for i in range(6)]
    assert {a.technique for a in attempts} == {Technique.BACKTRANSLATE}
    for attempt in attempts:
        pivot = params.pivots[attempt.pivot]
        (there,) = load_translator(pivot.to).translate([TEXTS[attempt.segment]], attempt.pivot, 2, 1)
        assert attempt.candidate == load_translator(pivot.back).translate([there], "en", 2, 1)[0]


def test_escaped_characters_are_undone(params, monkeypatch):
    monkeypatch.setattr(
        Translator, "translate", lambda self, texts, *_: ["the Union &apos;s &quot;a&quot;"] * len(texts)
    )
    assert {attempt.candidate for attempt in backtranslate(TEXTS, params, seeded())} == {'the Union \'s "a"'}


def test_share_is_drawn_for_each_pivot(params):
    half = dataclasses.replace(params, share=0.5, beam_width=1)
    attempts = backtranslate(TEXTS * 4, half, seeded())
    by_pivot = {p: [a.segment for a in attempts if a.pivot == p] for p in ("fr", "de")}
    assert [len(segments) for segments in by_pivot.values()] == [12, 12]
    assert by_pivot["fr"] != by_pivot["de"]


def test_segments_without_a_whole_translation_are_named(params):
    reasons = [a.reason for a in backtranslate(["", "the cat. " * 10_000, TEXTS[0]], params, seeded())]
    assert reasons == [Reason.EMPTY_TRANSLATION, Reason.TOO_LONG, None] * 2


def test_the_way_back_translates_into_the_texts_language(params):
    pivot = params.pivots["fr"]
    german = dataclasses.replace(params, language="de", pivots={"fr": pivot})
    candidates = [attempt.candidate for attempt in backtranslate(TEXTS, german, seeded())]
    there = load_translator(pivot.to).translate(TEXTS, "fr", 2, 4)
    assert candidates == load_translator(pivot.back).translate(there, "de", 2, 4)
    assert candidates != load_translator(pivot.back).translate(there, "en", 2, 4)


def test_the_texts_own_language_is_no_pivot(params):
    with pytest.raises(ParamsError, match=r"^perturb\.backtranslate\.pivots: de is the segments' own language\.$"):
        dataclasses.replace(params, language="de")


def test_beam_width_zero_is_refused(params):
    with pytest.raises(ParamsError, match=r"^perturb.backtranslate.beam_width: must be at least 1, not 0.$"):
        dataclasses.replace(params, beam_width=0)
