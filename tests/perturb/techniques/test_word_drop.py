"""Word dropping: how many words, which words, and what stays."""

from collections import Counter

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from pipeline.core.errors import ParamsError
from pipeline.core.params import from_mapping
from pipeline.core.records import Reason
from pipeline.perturb.pairs import Attempt, chosen
from pipeline.perturb.techniques.word_drop import Params, drop_words, make

SENTENCE = "zero one two three four five six seven"


def test_number_of_dropped_words_is_uniform_up_to_all():
    rng = numpy.random.default_rng(1)
    counts = Counter(drop_words(SENTENCE, rng).dropped for _ in range(8000))
    assert sorted(counts) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert chisquare([counts[n] for n in range(1, 9)]).pvalue > 0.01


def test_every_word_is_dropped_equally_often():
    rng = numpy.random.default_rng(2)
    kept = Counter(word for _ in range(8000) for word in drop_words(SENTENCE, rng).text.split())
    assert chisquare([kept[word] for word in SENTENCE.split()]).pvalue > 0.01
    assert sum(kept.values()) / 8000 == pytest.approx(3.5, abs=0.1)  # of 8 words, 0 … 7 stay


@given(st.lists(st.text("abc", min_size=1), min_size=1, max_size=30), st.integers(0, 2**32))
def test_words_that_stay_keep_their_order(words, seed):
    short = drop_words("  ".join(words), numpy.random.default_rng(seed))
    left = iter(words)
    assert all(word in left for word in short.text.split())
    assert len(short.text.split()) == len(words) - short.dropped
    assert short.dropped >= 1


def test_dropping_all_words_gives_an_empty_text():
    short = drop_words("lonely", numpy.random.default_rng(0))
    assert (short.text, short.dropped) == ("", 1)


def test_scripts_without_blanks_lose_characters():
    found = {drop_words("今日は雨だ。", numpy.random.default_rng(seed)).text for seed in range(60)}
    assert len(found) > 20 and max(map(len, found)) == 5 and "" in found


@given(st.integers(0, 200), st.floats(0, 1), st.integers(0, 2**32))
def test_share_is_met_to_the_nearest_whole(count, share, seed):
    drawn = chosen(count, share, numpy.random.default_rng(seed))
    assert drawn == sorted(set(drawn))
    assert set(drawn) <= set(range(count))
    assert abs(len(drawn) - count * share) <= 0.5


def test_share_beyond_one_is_refused():
    with pytest.raises(ParamsError, match=r"^perturb.word_drop.share: must be at most 1, not 1.5.$"):
        from_mapping({"share": 1.5}, Params, "perturb.word_drop")


def test_a_copy_keeps_its_parents_provenance(shard_of):
    parent = Attempt("7", "z", "fr", "backtranslate", SENTENCE, pivot="fr")
    (copy,) = make(shard_of(pairs=[parent]), Params(share=1.0)).attempts
    assert (copy.pair_id, copy.parent_id, copy.technique, copy.pivot) == ("7/fr/drop", "7/fr", "backtranslate", "fr")
    assert copy.dropped_words == 8 - len(copy.candidate.split()) > 0


@pytest.mark.parametrize("blank", ["", " ", "\u00a0", "\u3000\n"])
def test_a_candidate_without_words_has_none_to_drop(shard_of, blank):
    pairs = [Attempt("1", "z", "a", "toy", blank), Attempt("1", "z", "b", "toy", "word")]
    attempts = make(shard_of(pairs=pairs), Params(share=1.0)).attempts
    assert [attempt.reason for attempt in attempts] == [Reason.EMPTY_TEXT, None]
