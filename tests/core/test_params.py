"""params.yaml: what is loaded, and each way in which it can be wrong."""

import dataclasses
import enum
from pathlib import Path

import pytest

from pipeline.core.errors import ParamsError
from pipeline.core.params import (
    AtLeastOne,
    ModelName,
    Positive,
    from_mapping,
    load_key,
    load_names,
    load_params,
    params,
    part_names,
)


class Style(enum.StrEnum):
    RANDOM = "random"
    SPAN = "span"


@params
class Beam:
    width: int


@params
class Demo:
    model: str
    rate: float
    style: Style
    beam: Beam
    baseline: tuple[float, ...] | None
    gammas: dict[str, float]
    resume: bool


GOOD = {
    "model": "bundled:fill",
    "rate": 1,
    "style": "span",
    "beam": {"width": 8},
    "baseline": [0.5, 1],
    "gammas": {"bleu": 1},
    "resume": True,
}

KNOWN = "extract, adapt, perturb, label, pretrain, collect, grade, finetune, evaluate, report"


def write(folder: Path, text: str) -> Path:
    file = folder / "params.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_every_kind_of_value_is_converted() -> None:
    assert from_mapping(GOOD, Demo, "demo") == Demo(
        "bundled:fill", 1.0, Style.SPAN, Beam(8), (0.5, 1.0), {"bleu": 1.0}, True
    )
    assert from_mapping(GOOD | {"baseline": None}, Demo, "demo").baseline is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"speed": 1}, "demo.speed: unknown key (known: model, rate, style, beam, baseline, gammas, resume)."),
        ({"model": 3}, "demo.model: must be str, not 3."),
        ({"model": None}, "demo.model: must be str, not None."),
        ({"rate": "1e-5"}, "demo.rate: must be float, not '1e-5'."),
        ({"rate": True}, "demo.rate: must be float, not True."),
        ({"rate": float("nan")}, "demo.rate: must be finite, not nan."),
        ({"rate": float("inf")}, "demo.rate: must be finite, not inf."),
        ({"resume": 1}, "demo.resume: must be bool, not 1."),
        ({"style": "spam"}, "demo.style: must be 'random' or 'span', not 'spam'."),
        ({"beam": 8}, "demo.beam: must be a mapping, not 8."),
        ({"beam": {"width": 8.0}}, "demo.beam.width: must be int, not 8.0."),
        ({"beam": {"width": True}}, "demo.beam.width: must be int, not True."),
        ({"beam": {}}, "demo.beam.width: missing."),
        ({"baseline": 0.5}, "demo.baseline: must be a list, not 0.5."),
        ({"baseline": [0.5, "x"]}, "demo.baseline[1]: must be float, not 'x'."),
        ({"gammas": [1]}, "demo.gammas: must be a mapping, not [1]."),
        ({"gammas": {"bleu": "x"}}, "demo.gammas.bleu: must be float, not 'x'."),
        ({"gammas": {"bleu": None}}, "demo.gammas.bleu: must be float, not None."),
        ({"gammas": {1: 1.0}}, "demo.gammas: must be str, not 1."),
        ({"beam": {"width": 8, "depth": 1}}, "demo.beam.depth: unknown key (known: width)."),
    ],
)
def test_a_wrong_value_fails_by_name(change: dict[str, object], message: str) -> None:
    with pytest.raises(ParamsError) as caught:
        from_mapping({**GOOD, **change}, Demo, "demo")
    assert str(caught.value) == message


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Demo)])
def test_a_missing_key_fails_by_name(name: str) -> None:
    with pytest.raises(ParamsError) as caught:
        from_mapping({key: value for key, value in GOOD.items() if key != name}, Demo, "demo")
    assert str(caught.value) == f"demo.{name}: missing."


SHARED = "profile: {profile}\nlabel:\n  rouge: {{width: 2}}\nperturb:\n  width: 3\n"
PROFILES = "profiles:\n  small:\n    label:\n      bleu: {width: 1}\n  bare:\n"


def test_a_section_may_stand_at_the_top_or_in_the_profile(tmp_path: Path) -> None:
    file = write(tmp_path, SHARED.format(profile="small") + PROFILES)
    assert load_params(file, "perturb", Beam) == Beam(3)
    assert load_params(file, "label.rouge", Beam) == Beam(2)
    assert load_params(file, "label.bleu", Beam) == Beam(1)


def test_both_places_are_merged_below_a_dot(tmp_path: Path) -> None:
    @params
    class Two:
        width: int
        length: int

    text = (
        "profile: a\nlabel: {x: {width: 1}}\nprofiles: {a: {label: {x: {length: 2}}}, b: {label: {x: {length: 3}}}}\n"
    )
    assert load_params(write(tmp_path, text), "label.x", Two) == Two(1, 2)
    assert load_params(write(tmp_path, text.replace("profile: a", "profile: b")), "label.x", Two) == Two(1, 3)


def test_mappings_inside_a_section_are_merged_too(tmp_path: Path) -> None:
    @params
    class Outer:
        gammas: dict[str, float]

    text = "profile: a\nextract: {{gammas: {{bleu: 1.0}}}}\nprofiles: {{a: {{extract: {{gammas: {{{}: 2.0}}}}}}}}\n"
    assert load_params(write(tmp_path, text.format("rouge")), "extract", Outer) == Outer({"bleu": 1.0, "rouge": 2.0})
    file = write(tmp_path, text.format("bleu"))
    with pytest.raises(ParamsError) as caught:
        load_params(file, "extract", Outer)
    assert (
        str(caught.value)
        == f"{file}: extract.gammas.bleu stands both in extract.gammas and in the profile's extract.gammas."
    )


def test_a_profile_without_the_section_leaves_the_shared_one(tmp_path: Path) -> None:
    file = write(tmp_path, SHARED.format(profile="bare") + PROFILES)
    assert load_params(file, "label.rouge", Beam) == Beam(2)
    with pytest.raises(ParamsError, match=r"params\.yaml: label\.bleu\.width: missing\.$"):
        load_params(file, "label.bleu", Beam)


def test_a_key_in_both_places_fails_by_name(tmp_path: Path) -> None:
    file = write(tmp_path, "profile: a\nlabel: {x: {width: 1}}\nprofiles: {a: {label: {x: {width: 2}}}}\n")
    with pytest.raises(ParamsError) as caught:
        load_params(file, "label.x", Beam)
    assert str(caught.value) == f"{file}: label.x.width stands both in label.x and in the profile's label.x."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("profile: c\nprofiles: {a: {}, b: {}}\n", "profile is 'c', but profiles has ['a', 'b']."),
        ("profiles: {a: {}}\n", "profile is None, but profiles has ['a']."),
        ("profile: [a]\nprofiles: {a: {}}\n", "profile is ['a'], but profiles has ['a']."),
        ("profile: a\n", "profile is 'a', but profiles has []."),
        ("profile: a\nprofiles: {a: 3}\n", "profiles.a: must be a mapping, not 3."),
        ("profile: a\nprofiles: {a: {}}\nextract: 3\n", "extract: must be a mapping, not 3."),
        ("profile: a\nprofiles: {a: {extract: [1]}}\n", "profiles.a.extract: must be a mapping, not [1]."),
        (
            "profile: a\nprofiles: {a: {}}\nfine_tune: {}\n",
            f"fine_tune: unknown section (known: profile, variants, adapted, signals, bundled, profiles, {KNOWN}).",
        ),
        (
            "profile: a\nprofiles: {a: {}, b: {exract: {}}}\n",
            f"profiles.b.exract: unknown section (known: models, {KNOWN}).",
        ),
        (
            "profile: a\nprofiles: {a: {variants: [all]}}\n",
            f"profiles.a.variants: unknown section (known: models, {KNOWN}).",
        ),
        ("- 1\n", "must be a mapping of sections."),
        ("", "must be a mapping of sections."),
        ("profile: a\nx: {width: 1\n", "not valid YAML, line 3: expected ',' or '}', but got '<stream end>'."),
        (
            "x:\n  width: 1\n  width: 2\n",
            'not valid YAML, line 3: found duplicate key "width" with value "2" (original',
        ),
    ],
)
def test_a_broken_file_fails_with_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ParamsError) as caught:
        load_params(file, "extract", Beam)
    assert str(caught.value).startswith(f"{file}: {message}")
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_fails_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ParamsError) as caught:
        load_params(tmp_path / "absent.yaml", "x", Beam)
    assert str(caught.value) == f"{tmp_path / 'absent.yaml'}: cannot be read (No such file or directory)."
    file = tmp_path / "latin.yaml"
    file.write_bytes("x: é".encode("latin-1"))
    with pytest.raises(ParamsError) as caught:
        load_params(file, "x", Beam)
    assert str(caught.value) == f"{file}: not valid UTF-8 (byte 3)."


def test_a_short_exponent_is_a_number_as_dvc_writes_it(tmp_path: Path) -> None:
    @params
    class Rate:
        rate: float

    assert load_params(
        write(tmp_path, "profile: a\nprofiles: {a: {}}\nextract: {rate: 1e-05}\n"), "extract", Rate
    ) == Rate(1e-05)


def test_a_top_level_key_is_read_alone(tmp_path: Path) -> None:
    file = write(tmp_path, "variants: [all, none]\n")
    assert load_key(file, "variants") == ["all", "none"]
    with pytest.raises(ParamsError, match=r"the key profile is missing\.$"):
        load_key(file, "profile")


@params
class Ranges:
    count: AtLeastOne
    rate: Positive


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 0, "rate": 1.0}, "demo.count: must be at least 1, not 0."),
        ({"count": 1, "rate": 0.0}, "demo.rate: must be above 0, not 0.0."),
    ],
)
def test_a_value_out_of_range_fails_by_name_and_rule(values: dict[str, object], message: str) -> None:
    with pytest.raises(ParamsError) as caught:
        from_mapping(values, Ranges, "demo")
    assert str(caught.value) == message


def test_the_message_names_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "profile: a\nprofiles: {a: {}}\nextract: {count: 0, rate: 1.0}\n")
    with pytest.raises(ParamsError) as caught:
        load_params(file, "extract", Ranges)
    assert str(caught.value) == f"{file}: extract.count: must be at least 1, not 0."


def test_a_model_is_named_by_its_key_or_by_itself(tmp_path: Path) -> None:
    @params
    class Named:
        one: ModelName
        other: ModelName

    text = "profile: a\nprofiles: {a: {models: {small: 'package:x'}}}\nextract: {one: small, other: 'bundled:metric'}\n"
    assert load_params(write(tmp_path, text), "extract", Named) == Named("package:x", "bundled:metric")


def test_parts_of_members_are_listed_in_order_and_left_out(tmp_path: Path) -> None:
    text = "profile: a\nprofiles: {a: {extract: {first: {length: 2}}}}\nextract: {width: 3, second: {}, first: {}}\n"
    file = write(tmp_path, text)
    assert part_names(file, "extract") == ("second", "first")
    assert load_params(file, "extract", Beam, without=part_names(file, "extract")) == Beam(3)


@pytest.mark.parametrize("names", ["3", "[]", "[all, all]", "[1]"])
def test_a_list_of_names_holds_different_texts(tmp_path: Path, names: str) -> None:
    file = write(tmp_path, f"variants: {names}\n")
    with pytest.raises(ParamsError, match=r"params\.yaml: variants: must be a list of different names, not "):
        load_names(file, "variants")


def test_names_may_be_keys(tmp_path: Path) -> None:
    assert load_names(write(tmp_path, "signals: {bleu: text, flag: text}\n"), "signals") == ("bleu", "flag")


def test_an_unknown_key_of_an_item_fails_by_name() -> None:
    @params
    class Row:
        beams: tuple[Beam, ...]
        named: dict[str, Beam]

    good = {"beams": [{"width": 1}], "named": {"a": {"width": 1}}}
    for change, place in (
        ({"beams": [{"width": 1, "spam": 1}]}, "demo.beams[0].spam"),
        ({"named": {"a": {"width": 1, "spam": 1}}}, "demo.named.a.spam"),
    ):
        with pytest.raises(ParamsError) as caught:
            from_mapping({**good, **change}, Row, "demo")
        assert str(caught.value) == f"{place}: unknown key (known: width)."


def test_a_misspelt_key_is_named_before_the_key_that_is_missing() -> None:
    with pytest.raises(ParamsError) as caught:
        from_mapping({"widht": 1}, Beam, "demo")
    assert str(caught.value) == "demo.widht: unknown key (known: width)."
