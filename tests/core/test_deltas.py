"""A checkpoint as changes of an encoder: exact at full rank, the best approximation below it, whole again on use."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_filler import save_tiny_filler

from pipeline.core import deltas, models, packages
from pipeline.core.deltas import applied, changes, encoder_weights, round_weights, write_changes
from pipeline.core.errors import ModelError
from pipeline.core.models import load_tokenizer, locate
from pipeline.core.packages import DELTAS
from pipeline.metric.checkpoint import Head, load_metric, new_metric, save_metric
from pipeline.metric.prediction import predict
from pipeline.scoring.signature import checkpoint_hash


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    locate.cache_clear()
    monkeypatch.setattr(deltas, "store", lambda: tmp_path / "store")


def test_a_change_of_low_rank_is_kept_and_a_higher_one_approximated_best() -> None:
    torch.manual_seed(1)
    base = {"w": torch.randn(6, 8), "same": torch.randn(3, 3), "b": torch.zeros(6)}
    low = torch.outer(torch.arange(6.0), torch.arange(8.0)) / 16
    weights = {"w": base["w"] + low, "same": base["same"], "b": torch.ones(6), "head": torch.tensor([[0.5, 0.25]])}
    found = changes(weights, base, rank=1)
    assert set(found) == {"out/w", "in/w", "added/b", "whole/head"}
    for name, weight in applied(found, base).items():
        torch.testing.assert_close(weight, weights[name], atol=2e-3, rtol=0)
    full = torch.diag(torch.tensor([4.0, 2.0, 1.0]))
    kept = applied(changes({"w": full}, {"w": torch.zeros(3, 3)}, rank=2), {"w": torch.zeros(3, 3)})["w"]
    torch.testing.assert_close(kept, torch.diag(torch.tensor([4.0, 2.0, 0.0])), atol=2e-3, rtol=0)


def test_a_model_in_8_bits_needs_no_encoder_and_is_right_to_half_a_step_of_each_row(tmp_path: Path) -> None:
    folder = save_tiny_filler(tmp_path / "filler")
    before = load_file(folder / "model.safetensors")
    size = (folder / "model.safetensors").stat().st_size
    round_weights(folder)
    assert not (folder / "model.safetensors").exists()
    assert (folder / DELTAS).stat().st_size < size / 2
    after = load_file(locate(str(folder)) / "model.safetensors")
    assert set(after) == set(before)
    for name, weight in before.items():
        if weight.ndim == 2:
            assert ((after[name] - weight).abs() <= weight.abs().amax(1, keepdim=True) / 127 * 0.501).all()
            assert not torch.equal(after[name], weight)
        else:
            assert torch.equal(after[name], weight.float())


def trained(folder: Path, encoder: Path) -> Path:
    """A checkpoint whose encoder has moved by rank 1 from `encoder`."""
    model = new_metric(str(encoder), Head.ALIGNMENT, ["adequacy"], 0.0, 1)
    with torch.no_grad():
        for name, weight in model.encoder.named_parameters():
            if weight.ndim == 2 and "layer" in name:
                weight += 0.02 * torch.outer(torch.ones(weight.shape[0]), torch.linspace(-1, 1, weight.shape[1]))
        model.classifier.weight.fill_(0.1)
    save_metric(model, load_tokenizer(encoder), folder)
    return folder


def test_a_checkpoint_of_changes_scores_as_the_whole_one_and_is_made_whole_once(tmp_path: Path) -> None:
    encoder = save_tiny_filler(tmp_path / "encoder")
    folder = trained(tmp_path / "metric", encoder)
    references, candidates = ["the cat sat", "a small dog"], ["a cat sat", "paris"]
    before = predict(folder, references, candidates, 32, 64)
    weights, base = load_file(folder / "model.safetensors"), encoder_weights(encoder, "encoder.")
    write_changes(folder, changes(weights, base, rank=1), str(encoder), "encoder.")
    (folder / "model.safetensors").unlink()
    locate.cache_clear()
    whole = locate(str(folder))
    assert whole.parent == tmp_path / "store" and locate(str(folder)) == whole
    assert load_metric(folder).config.hidden_size
    torch.testing.assert_close(
        torch.tensor(predict(folder, references, candidates, 32, 64)), torch.tensor(before), atol=2e-3, rtol=2e-3
    )
    hashed = checkpoint_hash(whole)
    weights = load_file(whole / "model.safetensors")
    save_file({name: weight + 1e-8 for name, weight in weights.items()}, whole / "model.safetensors", {"format": "pt"})
    assert checkpoint_hash(whole) == hashed, "rounding on another machine is no other checkpoint"


def test_a_missing_encoder_or_damaged_changes_are_named(tmp_path: Path) -> None:
    encoder = save_tiny_filler(tmp_path / "encoder")
    folder = trained(tmp_path / "metric", encoder)
    write_changes(folder, {"added/x": torch.zeros(1)}, "package:no-such-package", "encoder.")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="package:no-such-package: the package is not installed"):
        locate(str(folder))
    (folder / DELTAS).write_bytes(b"cut")
    with pytest.raises(ModelError, match=r"deltas\.safetensors: cannot be read"):
        locate(str(folder))


def test_a_model_in_parts_is_joined_verified_and_its_missing_part_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import hashlib
    import zipfile

    encoder = save_tiny_filler(tmp_path / "encoder")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for file in encoder.iterdir():
            archive.write(file, f"tiny/{file.name}")
        archive.writestr("tiny/other/config.json", "{}")
    data = (tmp_path / "all.zip").read_bytes()
    half = len(data) // 2
    for number, piece in enumerate((data[:half], data[half:]), 1):
        place = tmp_path / "site" / f"tiny-part_{number:03}" / "input"
        place.mkdir(parents=True)
        (place.parent / "__init__.py").write_text("")
        (place / f"tiny.zip.{number:03}").write_bytes(piece)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(packages, "store", lambda: tmp_path / "store")
    digest = hashlib.sha256((encoder / "model.safetensors").read_bytes()).hexdigest()
    parts = tuple(f"tiny-part_{number:03}" for number in (1, 2, 3))
    known = {
        "tiny": packages.Packaged(digest, parts[:2], "make base"),
        "cut": packages.Packaged(digest, parts[:1]),
        "lost": packages.Packaged(digest, parts, "make base"),
        "other": packages.Packaged("0" * 64, parts[:2]),
    }
    monkeypatch.setattr(packages, "PACKAGED", known)
    folder = models.locate("package:tiny")
    assert (folder / "model.safetensors").read_bytes() == (encoder / "model.safetensors").read_bytes()
    assert not list((tmp_path / "store").glob(".*")), "nothing half-made stays"
    with pytest.raises(ModelError, match=r"package:lost: part 3 of 3 is not installed; install them \(make base\)"):
        models.locate("package:lost")
    with pytest.raises(ModelError, match="package:cut: its parts are damaged"):
        models.locate("package:cut")
    with pytest.raises(ModelError, match=r"package:other: model\.safetensors has SHA-256 .*, expected 0000"):
        models.locate("package:other")
    assert [one.name for one in (tmp_path / "store").iterdir()] == [folder.name]
