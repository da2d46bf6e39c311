"""Tensor bundles: every value comes back, a damaged file is one sentence."""

from pathlib import Path

import numpy
import pytest
from tiny_original import write_bundle

from pipeline.core.errors import ModelError
from pipeline.core.tensor_bundle import TensorBundle, masked_crc

ARRAYS = {
    **{f"bert/encoder/layer_{number}/kernel": numpy.full((3, 2), number, "float32") for number in range(40)},
    "scalar": numpy.array(7, "int64"),
    "half": numpy.array([0.5, -2], "float16"),
}


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    write_bundle(tmp_path / "variables", ARRAYS)
    return tmp_path / "variables"


def test_the_sum_is_the_masked_one_of_leveldb() -> None:
    """CRC-32C of "123456789" is e3069283 (RFC 3720's catalogue value); rotated right by 15, plus a282ead8."""
    rotated = (0xE3069283 >> 15 | 0xE3069283 << 17) & 0xFFFFFFFF
    assert masked_crc(numpy.frombuffer(b"123456789", numpy.uint8)) == (rotated + 0xA282EAD8) & 0xFFFFFFFF


def test_every_variable_comes_back(prefix: Path) -> None:
    bundle = TensorBundle(prefix)
    assert set(bundle.variables) == set(ARRAYS)
    for name, array in ARRAYS.items():
        numpy.testing.assert_array_equal(bundle.read(name), array)
        assert bundle.read(name).dtype == array.dtype


def test_bfloat16_becomes_float32(tmp_path: Path) -> None:
    """0x3FC0 is 1.5 and 0xC000 is -2: the upper halves of the float32 numbers."""
    write_bundle(tmp_path / "b", {"x": numpy.array([0x3FC0, 0xC000], "uint16")}, {"x": 14})
    numpy.testing.assert_array_equal(TensorBundle(tmp_path / "b").read("x"), numpy.array([1.5, -2], "float32"))


def test_a_compressed_index_is_read(tmp_path: Path) -> None:
    cramjam = pytest.importorskip("cramjam")
    write_bundle(tmp_path / "c", ARRAYS, compress=lambda content: bytes(cramjam.snappy.compress_raw(content)))
    numpy.testing.assert_array_equal(TensorBundle(tmp_path / "c").read("half"), ARRAYS["half"])


def test_every_cut_of_the_index_is_one_sentence(prefix: Path) -> None:
    file = Path(f"{prefix}.index")
    whole = file.read_bytes()
    for kept in (0, 10, 47, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:kept])
        with pytest.raises(
            ModelError, match=r"variables\.index: is no whole index of a TensorFlow checkpoint \(.+\)\.$"
        ):
            TensorBundle(prefix)


def test_a_changed_byte_anywhere_in_the_index_is_found(prefix: Path) -> None:
    file = Path(f"{prefix}.index")
    whole = bytearray(file.read_bytes())
    for place in range(0, len(whole) - 48, 97):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(ModelError, match="is no whole index"):
            TensorBundle(prefix)


def test_a_missing_index_and_missing_cut_or_changed_weights_are_named(prefix: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"absent\.index: cannot be read \(No such file or directory\)\.$"):
        TensorBundle(tmp_path / "absent")
    data = Path(f"{prefix}.data-00000-of-00001")
    whole = data.read_bytes()
    last = sorted(ARRAYS)[-1]
    data.write_bytes(whole[:-1])
    with pytest.raises(ModelError, match=rf"data-00000-of-00001: is cut: it ends before the variable {last} does\.$"):
        TensorBundle(prefix).read(last)
    data.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ModelError, match=rf"data-00000-of-00001: is damaged: the checksum of the variable {last} is"):
        TensorBundle(prefix).read(last)
    data.write_bytes(b"")
    with pytest.raises(ModelError, match=r"cannot be read \(it is empty\)"):
        TensorBundle(prefix).read(last)
    data.unlink()
    with pytest.raises(ModelError, match=r"cannot be read \(No such file or directory\)"):
        TensorBundle(prefix).read(last)


def test_a_type_that_is_no_number_is_refused(tmp_path: Path) -> None:
    write_bundle(tmp_path / "s", {"text": numpy.array([1], "int32")}, {"text": 7})
    with pytest.raises(ModelError, match="the variable text has the type 7 of TensorFlow, which is not read"):
        TensorBundle(tmp_path / "s").read("text")


def test_a_bundle_that_tensorflow_wrote() -> None:
    """basic-pitch 0.4.0 carries a SavedModel of Keras; Adam's step count in it is 17900."""
    package = pytest.importorskip("importlib.util").find_spec("basic_pitch")
    if package is None:
        pytest.skip("the package basic-pitch, which carries a bundle, is not installed")
    folder = Path(package.submodule_search_locations[0], "saved_models", "icassp_2022", "nmp", "variables")
    bundle = TensorBundle(folder / "variables")
    values = {name: bundle.read(name) for name, variable in bundle.variables.items() if variable.kind != 7}
    assert values["optimizer/iter/.ATTRIBUTES/VARIABLE_VALUE"] == 17900
    assert values["layer_with_weights-4/kernel/.ATTRIBUTES/VARIABLE_VALUE"].shape == (7, 7, 1, 32)
