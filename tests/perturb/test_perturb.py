"""The stage `perturb` from end to end on tiny random models: provenance, row accounts, determinism, bad input."""

import dataclasses
import json
import sys

import pytest
import yaml
from tiny_filler import save_tiny_filler
from tiny_marian import TEXTS, save_tiny_marian

from pipeline.core.errors import InputError, ModelError, ParamsError
from pipeline.core.records import PAIRS, SEGMENTS
from pipeline.core.shards import list_shards, read_rows, read_shard, shard_name, table_of, write_shard
from pipeline.perturb.__main__ import main, make_job
from pipeline.perturb.pairs import Attempt, Made, Plan, perturb_shard
from pipeline.perturb.techniques import backtranslate, mask_fill, translate
from pipeline.perturb.techniques.system_outputs import drawn
from pipeline.perturb.techniques.translate import sentences
from pipeline.teachers.translator import load_translator


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
            "precision": "float32",
        },
        "backtranslate": {
            "share": 1.0,
            "language": "en",
            "pivots": {"fr": pivot, "de": pivot},
            "beam_width": 1,
            "batch_sentences": 8,
        },
        "system_outputs": {"sources": [], "pairs": 0, "max_words": 60},
        "translate": {
            "sources": [],
            "pairs": 0,
            "language": "en",
            "min_words": 2,
            "max_words": 60,
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


def write_params(folder, section):
    """params.yaml with `section` as its section `perturb`."""
    file = folder / "params.yaml"
    file.write_text(yaml.safe_dump({"profile": "p", "profiles": {"p": {}}, "perturb": section}, sort_keys=False))
    return file


def run(folder, section, segments="segments"):
    """The stage as DVC runs it."""
    write_params(folder, section)
    words = ["perturb", "--params", "params.yaml", "--segments", segments, "--out", "out"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words)
        main()


def job_of(folder, section):
    """The stage's work on the two shards."""
    return make_job(write_params(folder, section), folder / "segments")


@pytest.fixture(scope="module")
def out(project, section):
    """The stage's output, made once by two worker processes."""
    run(project, section)
    return project / "out"


@pytest.fixture
def plan(project, section) -> Plan:
    return job_of(project, section).params


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


def test_bytes_do_not_depend_on_the_worker(project, out, plan):
    for index, shard in enumerate(list_shards(project / "segments")):
        write_shard(project / "here.parquet", perturb_shard(index, [shard], plan).table)
        assert (project / "here.parquet").read_bytes() == (out / shard_name(index)).read_bytes()


def test_seed_and_shard_number_decide_the_pairs(project, plan):
    shards = list_shards(project / "segments")
    first = perturb_shard(0, shards[:1], plan).table
    assert perturb_shard(0, shards[:1], plan).table == first
    assert perturb_shard(0, shards[:1], dataclasses.replace(plan, seed=2)).table != first
    assert perturb_shard(1, shards[:1], plan).table != first


def test_equal_pairs_are_kept_once(project, plan):
    table = perturb_shard(0, list_shards(project / "segments")[1:], plan).table
    keys = [(row["reference"], row["candidate"]) for row in table.to_pylist()]
    assert len(set(keys)) == len(keys)


def test_candidates_equal_to_their_reference_are_dropped(project, plan, monkeypatch):
    same = [Attempt(f"0-{i}", TEXTS[i], "mask1", "mask_fill", text) for i, text in enumerate([TEXTS[0], "x"])]
    monkeypatch.setattr(mask_fill, "make", lambda *_: Made(same))
    monkeypatch.setattr(backtranslate, "make", lambda *_: Made([]))
    outcome = perturb_shard(0, list_shards(project / "segments")[:1], plan)
    assert (outcome.rows_in, outcome.rows_out, outcome.dropped) == (2, 1, {"unchanged": 1})
    assert outcome.table.column("pair_id").to_pylist() == ["0-1/mask1"]


OUTPUTS = """reference\tsystem\tcandidate
The cat sat.\tA\tA cat was sitting.
The cat sat.\tB\tThe cat sat.
The cat sat.\tC\tA cat was sitting.
The cat sat.\tD\tcat has sat
Dogs bark.\tA\t
Dogs bark.\tB\tThe  dogs do bark.
Dogs bark.\tC\tdog dog dog dog dog
"""


@pytest.fixture
def with_outputs(project, section):
    """The section with three usable system outputs; those of more than four words are left out."""
    (project / "outputs.tsv").write_text(OUTPUTS)
    drawn.cache_clear()
    source = {"name": "old", "path": "outputs.tsv", "sha256": None, "where": []}
    chosen = {"sources": [source], "pairs": 10, "max_words": 4}
    return {**section, "system_outputs": chosen}


def test_system_outputs_are_dealt_out_among_the_shards(project, with_outputs, plan):
    rows, more = [], job_of(project, with_outputs).params
    for index, shard in enumerate(list_shards(project / "segments")):
        outcome = perturb_shard(index, [shard], more)
        assert outcome.rows_in > perturb_shard(index, [shard], plan).rows_in
        own = [row for row in outcome.table.to_pylist() if row["technique"] == "system_output"]
        rows += [row for row in own if row["parent_id"] is None]
    assert sorted((row["pair_id"], row["segment_id"], row["reference"], row["candidate"]) for row in rows) == [
        ("old-1/output1", "old-1", "The cat sat.", "A cat was sitting."),
        ("old-1/output4", "old-1", "The cat sat.", "cat has sat"),
        ("old-2/output6", "old-2", "Dogs bark.", "The dogs do bark."),
    ]


def test_as_many_system_outputs_are_drawn_as_asked(project, with_outputs):
    params = job_of(project, with_outputs).params.techniques["system_outputs"]
    fewer = dataclasses.replace(params, pairs=2)
    assert len(drawn(fewer, 1).rows) == 2
    assert {pair.pair_id for pair in drawn(fewer, 1).rows} < {pair.pair_id for pair in drawn(params, 1).rows}


def test_only_rows_that_a_source_asks_for_are_read(project, with_outputs):
    params = job_of(project, with_outputs).params.techniques["system_outputs"]
    of_a = dataclasses.replace(params, sources=(dataclasses.replace(params.sources[0], where=(("system", "A"),)),))
    assert [pair.candidate for pair in drawn(of_a, 1).rows] == ["A cat was sitting."]
    assert drawn(of_a, 1).lost == {"empty_text": 1}


def test_rows_of_sources_that_make_no_pair_are_counted_once(project, with_outputs, parallel):
    plan = job_of(project, {**with_outputs, "translate": parallel}).params
    one, two = plan.techniques["system_outputs"], plan.techniques["translate"]
    assert drawn(one, 1).lost == {"duplicate": 1, "empty_text": 1, "unchanged": 1, "words": 1}
    assert drawn(dataclasses.replace(one, pairs=2), 1).lost["not_drawn"] == 1
    assert sentences(two, 1).lost == {"duplicate": 1, "empty_text": 1, "words": 2}
    assert sentences(dataclasses.replace(two, pairs=1), 1).lost["not_drawn"] == 2
    outcomes = [perturb_shard(index, [shard], plan) for index, shard in enumerate(list_shards(project / "segments"))]
    assert [outcome.dropped.get("words", 0) for outcome in outcomes] == [3, 0]
    assert all(o.rows_in == o.rows_out + sum(o.dropped.values()) for o in outcomes)


def test_other_system_outputs_make_other_shards(project, with_outputs):
    before = job_of(project, with_outputs).extra
    (project / "outputs.tsv").write_text(OUTPUTS.replace("bark", "howl"))
    assert job_of(project, with_outputs).extra != before


PARALLEL = """The cat sat.\tLe chat dort.
Yes.\tOui.
The cat sat.\tLe chat est assis.
Dogs bark.\tLes chiens aboient.\tcolumns that nobody reads

A  cat slept.\tUn chat dort.
Many words here.\t \tTatoeba
Far too many words stand here.\tTrop.
"""


@pytest.fixture
def parallel(project, section):
    """The section with three sentences to translate: equal, short, long and void ones are left out."""
    (project / "parallel.tsv").write_text(PARALLEL)
    sentences.cache_clear()
    model = section["backtranslate"]["pivots"]["fr"]["back"]
    source = {"name": "fr", "path": "parallel.tsv", "sha256": None, "model": model}
    return {**section["translate"], "sources": [source], "pairs": 10, "max_words": 5}


@pytest.fixture
def with_parallel(project, section, parallel) -> Plan:
    return job_of(project, {**section, "translate": parallel}).params


def translations(outcome) -> list[dict[str, object]]:
    """The pairs that were made by translation, without those that lost words."""
    rows = outcome.table.to_pylist()
    return [row for row in rows if row["technique"] == "translate" and row["parent_id"] is None]


def test_parallel_text_is_dealt_out_among_the_shards_and_translated(project, with_parallel):
    translator = load_translator(with_parallel.techniques["translate"].sources[0].model)
    rows = []
    for index, shard in enumerate(list_shards(project / "segments")):
        outcome = perturb_shard(index, [shard], with_parallel)
        assert outcome.rows_in == outcome.rows_out + sum(outcome.dropped.values())
        rows += translations(outcome)
    made_of = {"The cat sat.": ("fr-1", "Le chat dort."), "A cat slept.": ("fr-5", "Un chat dort.")}
    made_of["Dogs bark."] = ("fr-4", "Les chiens aboient.")
    expected = []
    for reference, (segment, foreign) in made_of.items():
        candidate = translator.translate([foreign], "en", 1, 8)[0]
        if candidate not in ("", reference):
            expected.append((f"{segment}/translation", segment, reference, candidate))
    assert expected
    assert sorted((r["pair_id"], r["segment_id"], r["reference"], r["candidate"]) for r in rows) == sorted(expected)


def test_as_many_sentences_are_drawn_as_asked(with_parallel):
    params = with_parallel.techniques["translate"]
    fewer = dataclasses.replace(params, pairs=2)
    assert [s.id for s in sentences(fewer, 1).rows] == [s.id for s in sentences(params, 1).rows][:2]
    assert sentences(dataclasses.replace(fewer, pairs=0), 1).rows == []


class Scripted:
    """A translator that makes the same of every text; `asked` are the texts."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def fits(self, text):
        return True

    def translate(self, texts, *_):
        self.asked.extend(texts)
        return [self.answer] * len(texts)


def test_escaped_characters_are_undone_on_both_sides(project, with_parallel, monkeypatch):
    (project / "parallel.tsv").write_text("Cats&nbsp;&amp; &#32; dogs.\tChats &amp; chiens.\n&nbsp;\tRien.")
    translator = Scripted("dogs &apos;n&apos;&nbsp;cats &#10;")
    monkeypatch.setattr(translate, "load_translator", lambda _: translator)
    outcome = perturb_shard(0, list_shards(project / "segments")[:1], with_parallel)
    (row,) = translations(outcome)
    assert (row["reference"], row["candidate"]) == ("Cats & dogs.", "dogs 'n' cats")
    assert translator.asked == ["Chats &amp; chiens."]
    assert outcome.dropped["empty_text"] == 1


@pytest.mark.parametrize("blank", ["&nbsp;", "&#32;", "&#32;&nbsp;"])
def test_a_blank_translation_is_counted_and_its_shard_finished(project, section, parallel, monkeypatch, blank):
    (project / "parallel.tsv").write_text("The cat sat.\tLe chat dort.")
    plan = job_of(project, {**section, "translate": parallel, "word_drop": {"share": 1.0}}).params
    monkeypatch.setattr(translate, "load_translator", lambda _: Scripted(blank))
    before = perturb_shard(0, list_shards(project / "segments")[:1], plan).dropped["empty_translation"]
    monkeypatch.setattr(backtranslate, "load_translator", lambda _: Scripted(blank))
    outcome = perturb_shard(0, list_shards(project / "segments")[:1], plan)
    assert before == 1
    assert outcome.dropped["empty_translation"] == 1 + 2 * len(TEXTS)


def test_a_sentence_too_long_for_the_translator_is_counted(project, with_parallel):
    (project / "parallel.tsv").write_text("The cat sat.\t" + "chat " * 10_000)
    assert perturb_shard(0, list_shards(project / "segments")[:1], with_parallel).dropped["too_long"] == 1


def test_other_parallel_text_makes_other_shards(project, section, parallel):
    before = job_of(project, {**section, "translate": parallel}).extra
    (project / "parallel.tsv").write_text(PARALLEL.replace("bark", "howl"))
    assert job_of(project, {**section, "translate": parallel}).extra != before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sources": []}, "perturb.translate.pairs: is 10, but there are no sources"),
        ({"pairs": -1}, "perturb.translate.pairs: must be at least 0, not -1"),
        ({"min_words": 9}, "perturb.translate.max_words: must be at least 9, not 5"),
        ({"beam_width": 0}, "perturb.translate.beam_width: must be at least 1"),
    ],
)
def test_bad_parallel_text_is_named(project, section, parallel, change, message):
    with pytest.raises(ParamsError, match=message):
        run(project, {**section, "translate": {**parallel, **change}})


def test_parallel_text_without_a_translation_names_the_line(project, with_parallel):
    (project / "parallel.tsv").write_text("The cat sat.\tLe chat dort.\nDogs bark.\n")
    with pytest.raises(InputError, match=r"parallel.tsv.*line 2"):
        perturb_shard(0, list_shards(project / "segments")[:1], with_parallel)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pairs": 1}, "perturb.system_outputs.pairs: is 1, but there are no sources"),
        ({"pairs": -1}, "perturb.system_outputs.pairs: must be at least 0, not -1"),
        (
            {"sources": [{"name": "a", "path": p, "sha256": None, "where": []} for p in "bc"]},
            "perturb.system_outputs.sources: two of them are called a",
        ),
    ],
)
def test_bad_system_outputs_are_named(project, section, change, message):
    with pytest.raises(ParamsError, match=message):
        run(project, {**section, "system_outputs": {**section["system_outputs"], **change}})


def test_models_are_part_of_the_fingerprint(project, section):
    before = job_of(project, section).extra
    assert len(before.split()) == 5 + 3  # code of five techniques, three models
    other = {**section["mask_fill"], "model": str(save_tiny_filler(project / "other", seed=9))}
    assert job_of(project, {**section, "mask_fill": other}).extra != before


def test_damaged_shard_is_named(project, plan):
    file = project / "cut.parquet"
    file.write_bytes((project / "segments" / shard_name(1)).read_bytes()[:50])
    with pytest.raises(InputError, match=r"cut.parquet: not a whole Parquet file"):
        perturb_shard(0, [file], plan)


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
        ({"styles": ["spam"]}, r"perturb.mask_fill.styles\[0\]: must be 'random' or 'span', not 'spam'"),
        ({"beam": 8}, "perturb.mask_fill.beam: unknown key"),
        ({"share": 2}, "perturb.mask_fill.share: must be at most 1, not 2"),
    ],
)
def test_bad_params_are_named(project, section, change, message):
    with pytest.raises(ParamsError, match=message):
        run(project, {**section, "mask_fill": {**section["mask_fill"], **change}})
