"""The section `collect`: what it refuses."""

import json
from pathlib import Path

import pytest

from pipeline.collect.corpus import CollectParams, Corpus, Split
from pipeline.core.errors import ParamsError
from pipeline.core.params import from_mapping, load_params

CORPUS = {
    "name": "sample",
    "layout": "own",
    "parts": [{"path": "ratings.tsv", "sha256": None}],
    "language_pairs": ["*"],
    "years": [],
    "split": "by_reference",
    "test_fraction": 0.25,
    "scale": 100,
}
SECTION = {
    "corpora": [CORPUS],
    "without": [],
    "language_pairs": None,
    "validation_fraction": 0.1,
    "max_words": 512,
    "undo_character_references": True,
    "rows_per_shard": 1000,
    "drift": {"train_alpha": 0, "test_alpha": 1.5},
    "seed": 1,
}


def test_a_good_section_loads() -> None:
    params = from_mapping(SECTION, CollectParams, "collect")
    (corpus,) = params.corpora
    assert (corpus.layout, corpus.split, corpus.scale) == ("own", Split.BY_REFERENCE, 100.0)
    assert Path(corpus.parts[0].path).name == "ratings.tsv"


def test_a_corpus_takes_what_it_leaves_out_from_the_defaults(tmp_path: Path) -> None:
    short = {"name": "short", "layout": "own", "parts": [{"path": "ratings.tsv"}], "split": "test", "scale": 5}
    defaults = {"language_pairs": ["*"], "years": [], "test_fraction": None, "scale": None}
    document = {"profile": "one", "profiles": {"one": {"collect": {"corpora": [short, CORPUS]}}}}

    def loaded(defaults: object) -> tuple[Corpus, ...]:
        file = tmp_path / "params.yaml"
        section = {**{key: value for key, value in SECTION.items() if key != "corpora"}, "defaults": defaults}
        file.write_text(json.dumps({**document, "collect": section}), encoding="utf-8")  # JSON is YAML
        return load_params(file, "collect", CollectParams).corpora

    first, second = loaded({"corpora": defaults})
    assert (first.language_pairs, first.years, first.test_fraction, first.scale) == (("*",), (), None, 5.0)
    assert second == from_mapping(CORPUS, Corpus, "corpus")
    with pytest.raises(ParamsError, match=r"collect\.corpora\[0\]\.years: missing\.$"):
        loaded({"corpora": {key: value for key, value in defaults.items() if key != "years"}})
    with pytest.raises(ParamsError, match=r"collect\.defaults\.sources: must be a mapping for the members of a list"):
        loaded({"sources": {}})
    with pytest.raises(ParamsError, match=r"collect\.defaults: must be a mapping, not 3\.$"):
        loaded(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layout": "wmt20"}, r"corpora\[0\]\.layout: must be one of hub, mlqe_pe, own, .*, wmt_daseg, not 'wmt20'\."),
        (
            {"split": "train"},
            r"\[0\]\.test_fraction: belongs to split by_reference, by_input, by_system, and only to these",
        ),
        ({"test_fraction": None}, r"\[0\]\.test_fraction: belongs to split by_reference"),
        ({"test_fraction": 1.5}, r"\[0\]\.test_fraction: must be at most 1, not 1\.5"),
        ({"layout": "wmt17"}, r"\[0\]\.scale: must be null, ratings of layout wmt17 are standardised"),
        ({"layout": "webnlg", "scale": None}, r"\[0\]\.scale: must be a number, ratings of layout webnlg are raw ones"),
        ({"scale": 0}, r"\[0\]\.scale: must be above 0, not 0"),
        ({"years": [2018]}, r"\[0\]\.years: must be empty, layout own holds a single one"),
        ({"parts": []}, r"\[0\]\.parts: must not be empty"),
        ({"language_pairs": []}, r"\[0\]\.language_pairs: must not be empty"),
        ({"name": "a/b"}, r"\[0\]\.name: must not be empty, nor hold a slash"),
        ({"path": "x"}, r"corpora\[0\]\.path: unknown key"),
    ],
)
def test_a_bad_corpus_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ParamsError, match=message):
        from_mapping({**SECTION, "corpora": [{**CORPUS, **change}]}, CollectParams, "collect")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"corpora": [CORPUS, CORPUS]}, "there must be names, all different"),
        ({"corpora": []}, "there must be names, all different"),
        ({"validation_fraction": 1}, r"validation_fraction: must be below 1, not 1"),
        ({"max_words": 0}, "max_words: must be at least 1, not 0"),
        ({"drift": {"train_alpha": -1, "test_alpha": 0}}, r"drift\.train_alpha: must be at least 0, not -1"),
        ({"drift": {"train_alpha": 0}}, r"drift\.test_alpha: missing"),
        ({"without": ["other"]}, r"without: must name corpora of the profile \(sample\), not other"),
        ({"without": ["sample"]}, r"without: must name corpora of the profile \(sample\), and not all of them"),
        ({"rows_per_shard": 0}, "rows_per_shard: must be at least 1, not 0"),
    ],
)
def test_a_bad_section_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ParamsError, match=message):
        from_mapping({**SECTION, **change}, CollectParams, "collect")
