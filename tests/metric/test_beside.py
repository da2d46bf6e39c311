"""What stands beside the candidate: sources, both texts, and what the alignment head makes of them."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tiny_filler import save_tiny_filler
from tiny_mpnet import save_tiny_mpnet

from pipeline.core.errors import InputError, ModelError
from pipeline.core.models import load_tokenizer
from pipeline.metric.alignment import AlignmentMetric
from pipeline.metric.beside import BY_REFERENCE, Beside, Reads, beside_in, reads_of
from pipeline.metric.checkpoint import Head, load_metric, new_metric, save_metric
from pipeline.metric.pairs import encode_pairs


def test_a_text_that_is_read_must_be_there() -> None:
    assert BY_REFERENCE.text("a", None) == "a"
    with pytest.raises(InputError, match="a segment: has no source, but the checkpoint reads one"):
        Beside(Reads.BOTH).text("a", None)
    with pytest.raises(InputError, match="has no reference"):
        BY_REFERENCE.text(None, "a")


def test_a_checkpoint_says_what_it_reads_and_without_a_word_the_reference() -> None:
    assert reads_of(SimpleNamespace()) is Reads.REFERENCE
    assert reads_of(SimpleNamespace(reads="both")) is Reads.BOTH
    with pytest.raises(ModelError, match="reads must be one of reference, source, both, not 'image'"):
        reads_of(SimpleNamespace(reads="image"))


@pytest.mark.parametrize("save", [save_tiny_filler, save_tiny_mpnet])
def test_the_source_between_reference_and_candidate_matches_nothing(save: object, tmp_path: Path) -> None:
    """One encoder has segment numbers, the other only separators, two of them between texts."""
    encoder = save(tmp_path / "encoder")  # type: ignore[operator]
    model = new_metric(str(encoder), Head.ALIGNMENT, ["score"], dropout=0.0, seed=1)
    model.config.reads = "both"
    save_metric(model, load_tokenizer(encoder), tmp_path / "metric")
    beside, tokenizer = beside_in(tmp_path / "metric"), load_tokenizer(tmp_path / "metric")
    read = load_metric(tmp_path / "metric", "cpu")
    assert isinstance(read, AlignmentMetric) and beside.reads is Reads.BOTH
    inputs = encode_pairs(tokenizer, [beside.text("the cat", "red house")], ["a dog ran"], 32).batch([0], "cpu")
    sides = read._words(inputs["input_ids"], inputs["attention_mask"], inputs.get("token_type_ids"))
    words = [tokenizer.convert_ids_to_tokens(inputs["input_ids"][side].tolist()) for side in sides]
    assert words == [["the", "cat"], ["a", "dog", "ran"]]
    assert torch.isfinite(read(**inputs).logits).all()
