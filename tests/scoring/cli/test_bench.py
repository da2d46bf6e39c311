"""The benchmark of speed: operations as torch counts them, every way on the same weights, what is printed."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from pipeline.core.errors import BleurtError
from pipeline.metric.checkpoint import Head
from pipeline.scoring.cli import bench
from pipeline.scoring.cli.operations import Sizes, pair_operations, product_rate, sizes_of
from pipeline.scoring.scorer import BleurtScorer


@pytest.mark.parametrize("head", Head)
def test_operations_are_those_that_torch_counts(new_checkpoint: Callable[..., Path], head: Head) -> None:
    model = BleurtScorer(new_checkpoint("adequacy", head=head), device="cpu").model
    encoder = getattr(model, "encoder", None) or model.bert
    encoder.set_attn_implementation("eager")  # its products are counted; those of fused attention are not
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        found = encoder(input_ids=torch.full((1, 40), 7))
    counted = counter.get_total_flops()
    if found.pooler_output is not None:
        counted -= 2 * 16 * 16  # the pooler belongs to the head
    assert sizes_of(model.config) == Sizes(layers=2, hidden=16, inner=32)
    assert pair_operations(40, sizes_of(model.config)) == counted


def test_the_rate_of_matrix_products_is_between_a_million_and_a_quadrillion() -> None:
    assert 1e6 < product_rate(Sizes(1, 16, 32), seconds=0.03) < 1e15


def test_every_way_gives_the_same_scores(scorer: BleurtScorer, references: list[str], candidates: list[str]) -> None:
    pairs = list(zip(references, candidates, strict=True))
    found = bench.ways(scorer, pairs)
    assert list(found) == ["ours", "transformers' pipeline, batches of 32", "padding to 64"]
    expected = scorer.score(references, candidates)
    count, classify = found["transformers' pipeline, batches of 32"]
    assert count == 5 and [one["score"] for one in classify()] == pytest.approx(expected, abs=1e-5)
    count, padded = found["padding to 64"]
    assert count == 5 and padded() == pytest.approx(expected, abs=1e-5)


def test_the_figures_are_ratios_of_medians(
    checkpoint: Path, references: list[str], candidates: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "_seconds_of", lambda arguments, threads: 2.0)
    monkeypatch.setattr(bench, "_first_score", lambda checkpoint, threads: 3.5)
    monkeypatch.setattr(bench, "_memory", lambda checkpoint, count, threads: count * 2**20)
    monkeypatch.setattr(bench, "_interleaved", lambda ways, sizes, rounds: ({"ours": 0.5, "theirs": 2.0}, 1e6))
    pairs = list(zip(references, candidates, strict=True))
    found = bench.bench(str(checkpoint), pairs, threads=torch.get_num_threads(), rounds=3, memory_pairs=20_000)
    assert (found["pairs_a_second"], found["times_faster"]) == (2.0, {"theirs": 4.0})
    assert found["start_up_over_torch_seconds"] == 1.5
    text = bench.render(found)
    assert "ours is 4.0 times as fast as theirs" in text
    assert "memory: 10,000 MiB at 10,000 pairs, 20,000 MiB at 20,000 pairs" in text


def test_pairs_are_distinct(tmp_path: Path) -> None:
    file = tmp_path / "ratings.tsv"
    file.write_text("reference\tcandidate\tscore\na\tb\t1\na\tb\t2\na\tc\t3\n", encoding="utf-8")
    assert bench.pairs_of(file) == [("a", "b"), ("a", "c")]


def test_a_process_that_fails_is_named() -> None:
    with pytest.raises(BleurtError, match=r"^-c raise SystemExit\('no'\) failed: no$"):
        bench._child(["-c", "raise SystemExit('no')"], 1)
    assert 1 < bench.peak_bytes() / 2**20 < 2**20
