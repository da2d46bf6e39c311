"""Round trips through pivots: which segments, which models, what is dropped."""

import dataclasses

import numpy
import pytest
from tiny_marian import TEXTS, save_tiny_marian

from pipeline.core.errors import ParamsError
from pipeline.core.params import from_mapping
from pipeline.core.records import Reason
from pipeline.perturb.techniques.backtranslate import Params, make
from pipeline.teachers.translator import Pivot, Translator, load_translator


@pytest.fixture
def params(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    to = str(save_tiny_marian(tmp_path / "to", (">>fra<<", ">>deu<<"), seed=2))
    back = str(save_tiny_marian(tmp_path / "back", (">>fra<<", ">>deu<<"), seed=3))
    pivots = {"fr": Pivot(to, back), "de": Pivot(to, back)}
    return Params(share=1.0, language="en", pivots=pivots, beam_width=2, batch_sentences=4)


@pytest.fixture
def backtranslate(shard_of):
    """The attempts for some texts."""
    return lambda texts, params: make(shard_of(texts, numpy.random.default_rng(0)), params).attempts


def test_candidates_are_round_trips_of_their_own_segment_and_pivot(params, backtranslate):
    attempts = backtranslate(TEXTS, params)
    assert [(a.segment_id, a.tag, a.pivot) for a in attempts] == [(i, p, p) for p in ("de", "fr") for i in "012345"]
    assert {a.technique for a in attempts} == {"backtranslate"}
    for attempt in attempts:
        pivot = params.pivots[attempt.pivot]
        (there,) = load_translator(pivot.to).translate([attempt.reference], attempt.pivot, 2, 1)
        assert attempt.candidate == load_translator(pivot.back).translate([there], "en", 2, 1)[0]


def test_escaped_characters_are_undone(params, backtranslate, monkeypatch):
    monkeypatch.setattr(
        Translator, "translate", lambda self, texts, *_: ["the Union &apos;s &quot;a&quot;"] * len(texts)
    )
    assert {attempt.candidate for attempt in backtranslate(TEXTS, params)} == {'the Union \'s "a"'}


@pytest.mark.parametrize("blank", ["&nbsp;", "&#32;", " &nbsp; &#10; ", "&#1;", "\u00a0"])
def test_a_translation_that_is_blank_once_unescaped_is_empty(params, backtranslate, monkeypatch, blank):
    monkeypatch.setattr(Translator, "translate", lambda self, texts, *_: [blank] * len(texts))
    assert {(a.reason, a.candidate) for a in backtranslate(TEXTS, params)} == {(Reason.EMPTY_TRANSLATION, "")}


def test_escaped_white_space_becomes_single_spaces(params, backtranslate, monkeypatch):
    monkeypatch.setattr(Translator, "translate", lambda self, texts, *_: ["&#32;10&nbsp;km&#10; away"] * len(texts))
    assert {attempt.candidate for attempt in backtranslate(TEXTS, params)} == {"10 km away"}


def test_share_is_drawn_for_each_pivot(params, backtranslate):
    half = dataclasses.replace(params, share=0.5, beam_width=1)
    attempts = backtranslate(TEXTS * 4, half)
    by_pivot = {p: [a.segment_id for a in attempts if a.pivot == p] for p in ("fr", "de")}
    assert [len(segments) for segments in by_pivot.values()] == [12, 12]
    assert by_pivot["fr"] != by_pivot["de"]


def test_segments_without_a_whole_translation_are_named(params, backtranslate):
    reasons = [a.reason for a in backtranslate(["", "the cat. " * 10_000, TEXTS[0]], params)]
    assert reasons == [Reason.EMPTY_TRANSLATION, Reason.TOO_LONG, None] * 2


def test_the_way_back_translates_into_the_texts_language(params, backtranslate):
    pivot = params.pivots["fr"]
    german = dataclasses.replace(params, language="de", pivots={"fr": pivot})
    candidates = [attempt.candidate for attempt in backtranslate(TEXTS, german)]
    there = load_translator(pivot.to).translate(TEXTS, "fr", 2, 4)
    assert candidates == load_translator(pivot.back).translate(there, "de", 2, 4)
    assert candidates != load_translator(pivot.back).translate(there, "en", 2, 4)


PIVOTS = {"de": {"to": "a", "back": "b"}}
GOOD = {"share": 1.0, "language": "en", "pivots": PIVOTS, "beam_width": 2, "batch_sentences": 4}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"language": "de"}, "pivots: de is the segments' own language"),
        ({"beam_width": 0}, "beam_width: must be at least 1, not 0"),
        ({"pivots": "pivots"}, "pivots: must be a mapping, or the key of one among the profile's models, not 'pivots'"),
    ],
)
def test_bad_params_are_refused(change, message):
    with pytest.raises(ParamsError, match=rf"^perturb\.backtranslate\.{message}\.$"):
        from_mapping(GOOD | change, Params, "perturb.backtranslate")


def test_pivots_may_be_named_by_their_key_among_the_profiles_models():
    by_key = from_mapping(GOOD | {"pivots": "both"}, Params, "perturb.backtranslate", models={"both": PIVOTS})
    assert by_key == from_mapping(GOOD, Params, "perturb.backtranslate")
