"""The stage `perturb` from end to end on tiny random models: provenance, row accounts, determinism, bad input."""

import dataclasses
import json
import sys

import pytest
import yaml
from tiny_filler import save_tiny_filler
from tiny_marian import TEXTS, save_tiny_marian

from pipeline.core.errors import InputError, ModelError, ParamsError
from pipeline.core.params import from_mapping
from pipeline.core.records import PAIRS, SEGMENTS
from pipeline.core.shards import list_shards, read_rows, read_shard, shard_name, table_of, write_shard
from pipeline.stages.perturb import main, make_job
from pipeline.synthetic import perturb
from pipeline.synthetic.attempt import Attempt, Technique
from pipeline.synthetic.mask_fill import MaskFillParams
from pipeline.synthetic.perturb import PerturbParams, perturb_shard


@pytest.fixture(scope="module")
def section(tmp_path_factory):
    """The section `perturb` with all techniques, on tiny models."""
    folder = tmp_path_factory.mktemp("models")
    languages = (">>fra<<", ">>deu<<")
    pivot = {
        "to": str(save_tiny_marian(folder / "to", languages, seed=2)),
        "back": str(save_tiny_marian(folder / "back", languages, seed=3)),
    }
    return {
        "seed": 1,
        "mask_fill": {
            "model": str(save_tiny_filler(folder / "filler")),
            "share": 1.0,
            "copies": 2,
            "styles": ["random", "span"],
            "max_masks": 15,
            "max_mask_share": 1.0,
            "beam_width": 2,
            "batch_tokens": 300,
        },
        "backtranslate": {
            "share": 1.0,
            "language": "en",
            "pivots": {"fr": pivot, "de": pivot},
            "beam_width": 1,
            "batch_sentences": 8,
        },
        "word_drop": {"share": 0.3},
    }


@pytest.fixture(scope="module", autouse=True)
def project(section, tmp_path_factory):
    """The working folder: params.yaml and two shards of segments, one of them with rows that must be dropped."""
    folder = tmp_path_factory.mktemp("project")
    for index, texts in enumerate([TEXTS, (*TEXTS[:2], "cat " * 10_000, " ", TEXTS[0])]):
        rows = [{"segment_id": f"{index}-{i}", "title": "T", "text": text} for i, text in enumerate(texts)]
        write_shard(folder / "segments" / shard_name(index), table_of(rows, SEGMENTS))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("BLEURT_DEVICE", "cpu")
        patch.setenv("BLEURT_WORKERS", "2")
        yield folder


def run(folder, section, segments="segments"):
    """The stage as DVC runs it."""
    document = {"profile": "p", "profiles": {"p": {}}, "perturb": section}
    (folder / "params.yaml").write_text(yaml.safe_dump(document))
    words = ["perturb", "--params", "params.yaml", "--segments", segments, "--out", "out"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words)
        main()


@pytest.fixture(scope="module")
def out(project, section):
    """The stage's output, made once by two worker processes."""
    run(project, section)
    return project / "out"


@pytest.fixture
def params(section) -> PerturbParams:
    return from_mapping(section, PerturbParams, "perturb")


def test_every_row_is_accounted_for(out):
    counts = json.loads((out / "counts.json").read_text())
    rows = list(read_rows(out, PAIRS))
    assert counts["rows_out"] == len(rows)
    assert counts["rows_in"] == counts["rows_out"] + sum(counts["dropped"].values())
    copies = sum(row["dropped_words"] > 0 for row in rows)
    assert counts["rows_in"] >= 11 * 4 + copies  # eleven segments, two masked copies and two pivots each
    assert counts["dropped"]["too_long"] == 4
    assert counts["dropped"]["unmaskable"] == 2
    assert counts["dropped"]["empty_translation"] == 2
    assert counts["dropped"]["duplicate"] >= 2  # the last segment of shard 1 repeats its first: two round trips


def test_pairs_carry_where_they_came_from(project, out):
    text_of = {row["segment_id"]: row["text"] for row in read_rows(project / "segments", SEGMENTS)}
    rows = list(read_rows(out, PAIRS))
    by_id = {row["pair_id"]: row for row in rows}
    assert len(by_id) == len(rows)
    for row in rows:
        assert row["reference"] == text_of[row["segment_id"]] != row["candidate"]
        masked = row["technique"] == "mask_fill"
        assert (row["pivot"] is None) == masked
        assert (row["mask_style"] in {"random", "span"}) == (row["masks"] in range(1, 16)) == masked
        assert row["pair_id"].startswith(row["segment_id"] + "/")
        assert (row["parent_id"] is not None) == (row["dropped_words"] > 0) == row["pair_id"].endswith("/drop")
        if row["parent_id"]:
            parent = by_id[row["parent_id"]]
            inherited = ("segment_id", "reference", "technique", "pivot", "mask_style", "masks")
            assert [row[name] for name in inherited] == [parent[name] for name in inherited]
            words = len(parent["candidate"].split())
            assert len(row["candidate"].split()) == words - row["dropped_words"]


def test_word_drop_copies_its_share_of_the_pairs(out):
    shard = read_shard(out / shard_name(0), PAIRS).to_pylist()
    parents = [row for row in shard if row["parent_id"] is None]
    assert 0 < len(shard) - len(parents) <= round(0.3 * len(parents))


def test_bytes_do_not_depend_on_the_worker(project, out, params):
    for index, shard in enumerate(list_shards(project / "segments")):
        write_shard(project / "here.parquet", perturb_shard(index, [shard], params).table)
        assert (project / "here.parquet").read_bytes() == (out / shard_name(index)).read_bytes()


def test_seed_and_shard_number_decide_the_pairs(project, params):
    shards = list_shards(project / "segments")
    first = perturb_shard(0, shards[:1], params).table
    assert perturb_shard(0, shards[:1], params).table == first
    assert perturb_shard(0, shards[:1], dataclasses.replace(params, seed=2)).table != first
    assert perturb_shard(1, shards[:1], params).table != first


def test_equal_pairs_are_kept_once(project, params):
    table = perturb_shard(0, list_shards(project / "segments")[1:], params).table
    keys = [(row["reference"], row["candidate"]) for row in table.to_pylist()]
    assert len(set(keys)) == len(keys)


def test_candidates_equal_to_their_reference_are_dropped(project, params, monkeypatch):
    same = [Attempt(i, "mask1", Technique.MASK_FILL, text) for i, text in enumerate([TEXTS[0], "x"])]
    monkeypatch.setattr(perturb, "mask_fill", lambda *_: same)
    monkeypatch.setattr(perturb, "backtranslate", lambda *_: [])
    outcome = perturb_shard(0, list_shards(project / "segments")[:1], params)
    assert (outcome.rows_in, outcome.rows_out, outcome.dropped) == (2, 1, {"unchanged": 1})
    assert outcome.table.column("pair_id").to_pylist() == ["0-1/mask1"]


def test_job_names_all_models_in_its_fingerprint(project, params, section):
    job = make_job(params, project / "segments")
    other = {**section["mask_fill"], "model": str(save_tiny_filler(project / "other", seed=9))}
    changed = dataclasses.replace(params, mask_fill=from_mapping(other, MaskFillParams, "perturb.mask_fill"))
    assert len(job.extra.split()) == 3
    assert make_job(changed, project / "segments").extra != job.extra


def test_damaged_shard_is_named(project, params):
    file = project / "cut.parquet"
    file.write_bytes((project / "segments" / shard_name(1)).read_bytes()[:50])
    with pytest.raises(InputError, match=r"cut.parquet: not a whole Parquet file"):
        perturb_shard(0, [file], params)


def test_folder_without_shards_is_named(project, section):
    with pytest.raises(InputError, match=r"nowhere: no shard"):
        run(project, section, segments="nowhere")


def test_model_folder_without_safetensors_is_named(project, section):
    (project / "empty").mkdir()
    with pytest.raises(ModelError, match=r"empty: holds no .*safetensors file"):
        run(project, {**section, "mask_fill": {**section["mask_fill"], "model": "./empty"}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"styles": ["spam"]}, r"perturb.mask_fill.styles\[0\]: must be one of random, span, not 'spam'"),
        ({"beam": 8}, "perturb.mask_fill.beam: unknown key"),
        ({"share": 2}, "perturb.mask_fill.share: must be between 0 and 1, not 2.0"),
    ],
)
def test_bad_params_are_named(project, section, change, message):
    with pytest.raises(ParamsError, match=message):
        run(project, {**section, "mask_fill": {**section["mask_fill"], **change}})
