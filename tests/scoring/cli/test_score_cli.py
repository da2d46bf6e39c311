"""`bleurt score` from end to end: streams, formats, peers' flags, errors that leave nothing behind."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pytest import approx

from pipeline.core.modules import ROOT
from pipeline.scoring import chunks
from pipeline.scoring.__main__ import main, summaries
from pipeline.scoring.scorer import BleurtScorer

Run = Callable[..., tuple[str, str]]
OTHERS = ["the cat sat on", "a dog", "", "the bird sat", "the house"]


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores are compared with those of the CPU."""
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")


@pytest.fixture
def files(tmp_path: Path, references: list[str], candidates: list[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with ref.txt, a.txt and b.txt."""
    for name, lines in (("ref", references), ("a", candidates), ("b", OTHERS)):
        (tmp_path / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def bleurt(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line with the tiny checkpoint: (standard output, standard error)."""

    def run(*arguments: str, code: int = 0, name_checkpoint: bool = True) -> tuple[str, str]:
        named = ["--checkpoint", str(checkpoint)] if name_checkpoint else []
        assert main([*arguments, *named]) == code
        return capsys.readouterr()

    return run


@pytest.fixture
def expected(scorer: BleurtScorer, references: list[str], candidates: list[str]) -> list[float]:
    """Scores of a.txt."""
    return scorer.score(references, candidates)


def numbers(text: str) -> list[float]:
    return [float(line) for line in text.splitlines()]


def test_one_system_is_a_number_a_line_and_nothing_else(
    files: Path, bleurt: Run, expected: list[float], scorer: BleurtScorer
) -> None:
    out, err = bleurt("score", "-r", "ref.txt", "-t", "a.txt")
    assert numbers(out) == approx(expected, abs=1e-6)
    assert [len(line.split(".")[1]) for line in out.splitlines()] == [6] * 5
    assert err.splitlines() == [
        str(scorer.signature()),
        f"a.txt: {sum(expected) / 5:.4f} over 5 segments",
        "warning: a.txt: flagged segments: 1 identical",
    ]


def test_quiet_and_width(files: Path, bleurt: Run, expected: list[float]) -> None:
    out, err = bleurt("score", "-r", "ref.txt", "-t", "a.txt", "--quiet", "--width", "2")
    assert (out.splitlines(), err) == ([f"{score:.2f}" for score in expected], "")


def test_the_flags_of_the_original_work_with_and_without_the_word_score(
    files: Path, bleurt: Run, checkpoint: Path
) -> None:
    plain, _ = bleurt("score", "-r", "ref.txt", "-t", "a.txt")
    original = ["-candidate_file", "a.txt", "-reference_file=ref.txt", "-bleurt_checkpoint", str(checkpoint)]
    for before in ([], ["score"]):
        out, _ = bleurt(*before, *original, "-scores_file", "s.txt", "-bleurt_batch_size", "2", name_checkpoint=False)
        assert out == ""
        assert numbers((files / "s.txt").read_text()) == approx(numbers(plain), abs=1e-5)
        (files / "s.txt").unlink()
    double = [f"-{flag}" if flag.startswith("-") else flag for flag in original]
    assert bleurt(*double, name_checkpoint=False)[0] == plain


def test_the_originals_pairs_file_is_jsonl_of_any_name(
    files: Path, bleurt: Run, references: list[str], candidates: list[str]
) -> None:
    rows = [{"reference": z, "candidate": c} for z, c in zip(references, candidates, strict=True)]
    (files / "pairs").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert bleurt("-sentence_pairs_file", "pairs")[0] == bleurt("-r", "ref.txt", "-t", "a.txt")[0]


def test_several_systems_are_a_table_whose_last_line_is_the_systems(
    files: Path, bleurt: Run, expected: list[float], scorer: BleurtScorer, references: list[str]
) -> None:
    out, err = bleurt("score", "-r", "ref.txt", "-t", "a.txt", "b.txt", "--batch_size", "3")
    rows = [line.split("\t") for line in out.splitlines()]
    assert rows[0] == ["segment", "a.txt", "b.txt"]
    assert [row[0] for row in rows[1:]] == ["1", "2", "3", "4", "5", "system"]
    others = scorer.score(references, OTHERS)
    assert [float(row[1]) for row in rows[1:6]] == approx(expected, abs=1e-5)
    assert [float(row[2]) for row in rows[1:6]] == approx(others, abs=1e-5)
    assert [float(cell) for cell in rows[6][1:]] == approx([sum(expected) / 5, sum(others) / 5], abs=1e-5)
    assert "warning: b.txt: flagged segments: 1 empty_candidate, 1 identical" in err.splitlines()


def test_systems_alone(files: Path, bleurt: Run, expected: list[float]) -> None:
    mean = f"{sum(expected) / 5:.4f}"
    assert bleurt("score", "-r", "ref.txt", "-t", "a.txt", "--only_system")[0] == f"{mean}\n"
    out, _ = bleurt("score", "-r", "ref.txt", "-t", "a.txt", "b.txt", "--only_system")
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["system", "score", "segments", "truncated", "flagged"]
    assert lines[2] == ["a.txt", mean, "5", "0", "1"]
    assert lines[3][0] == "b.txt" and lines[3][2:] == ["5", "0", "2"]
    latex, _ = bleurt("score", "-r", "ref.txt", "-t", "a.txt", "b.txt", "--format", "latex")
    assert latex.startswith("\\begin{tabular}{lrrrr}\n\\toprule\n")
    assert f" a.txt & {mean} & 5 & 0 & 1 " in " ".join(latex.split())
    as_json, _ = bleurt("score", "-r", "ref.txt", "-t", "a.txt", "--only_system", "--format", "json")
    assert [row["system"] for row in json.loads(as_json)["systems"]] == ["a.txt"]
    assert json.loads(as_json)["signature"]["references"] == "max"


def test_other_fields_of_jsonl_pass_through(files: Path, bleurt: Run, scorer: BleurtScorer) -> None:
    row = {"id": 7, "reference": ["the\ncat", "a dog"], "candidate": "the dog", "score": "human", "tags": [1, None]}
    (files / "pairs.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    out, _ = bleurt("score", "--input", "pairs.jsonl", "--format", "json")
    (found,) = map(json.loads, out.splitlines())
    about = found.pop("bleurt")
    assert found == row
    assert about.pop("score") == approx(scorer.score([["the cat", "a dog"]], ["the dog"])[0], abs=1e-6)
    signature = str(scorer.signature())
    assert about == {"truncated": False, "percentile": None, "edge": None, "windows": 1, "signature": signature}


def test_to_json_holds_all_segments_by_system(
    files: Path, bleurt: Run, expected: list[float], scorer: BleurtScorer
) -> None:
    out, _ = bleurt("score", "-r", "ref.txt", "ref.txt", "-t", "a.txt", "b.txt", "-s", "b.txt", "--to_json", "all.json")
    assert len(out.splitlines()) == 7
    document = json.loads((files / "all.json").read_text(encoding="utf-8"))
    assert document["signature"] == scorer.signature().as_dict()
    assert list(document["systems"]) == ["a.txt", "b.txt"]
    first = document["systems"]["a.txt"]
    assert first["score"] == approx(sum(expected) / 5, abs=1e-6)
    assert (first["segments"], first["flags"]) == (5, {"identical": 1})
    assert [one["bleurt"]["score"] for one in first["results"]] == approx(expected, abs=1e-6)
    assert document["systems"]["b.txt"]["results"][4] == {
        "segment": 5, "system": "b.txt", "reference": ["paris", "paris"], "candidate": "the house",
        "source": "the house", "bleurt": document["systems"]["b.txt"]["results"][4]["bleurt"],
    }  # fmt: skip
    assert document["systems"]["b.txt"]["results"][4]["bleurt"]["edge"] == "source_copy"


def test_standard_input_is_scored(
    files: Path, bleurt: Run, references: list[str], candidates: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(f"{z}\t{c}\n" for z, c in zip(references, candidates, strict=True))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert bleurt("score")[0] == bleurt("score", "-r", "ref.txt", "-t", "a.txt")[0]


def test_chunks_do_not_show(files: Path, bleurt: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def cells() -> list[float]:
        lines = bleurt("score", "-r", "ref.txt", "ref.txt", "-t", "a.txt", "b.txt")[0].splitlines()
        return [float(cell) for line in lines[1:] for cell in line.split("\t")[1:]]

    whole = cells()
    monkeypatch.setattr(chunks, "CHUNK_PAIRS", 3)
    assert cells() == approx(whole, abs=1e-5)


def test_truncation_is_counted_and_windows_read_all(files: Path, bleurt: Run) -> None:
    (files / "long.txt").write_text("the cat\n" + "the cat sat. " * 30 + "\na\nb\nc\n", encoding="utf-8")
    arguments = ["score", "-r", "ref.txt", "-t", "long.txt"]
    out, err = bleurt(*arguments, "--max_tokens", "32")
    assert (
        "warning: long.txt: 1 segments have more than 32 tokens and were cut (--long windows reads them whole)" in err
    )
    whole, err = bleurt(*arguments, "--max_tokens", "32", "--long", "windows")
    assert "tokens and were cut" not in err and "|long:windows|" in err
    differs = [abs(one - other) > 1e-5 for one, other in zip(numbers(out), numbers(whole), strict=True)]
    assert differs == [False, True, False, False, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-r", "ref.txt", "-t", "short.txt"], "error: ref.txt: has 5 lines, but short.txt has 1.\n"),
        (["-r", "ref.txt", "-t", "latin.txt"], "error: latin.txt, line 2: not valid UTF-8: 'caf\\udce9\\n'.\n"),
        (["-r", "ref.txt", "-t", "no.txt"], "error: no.txt: cannot be read (No such file or directory).\n"),
        (
            ["-r", "ref.txt"],
            "error: Give references with -r and candidates with -t, or --input, or a table on standard",
        ),
        (["-r", "ref.txt", "--input", "x.tsv"], "error: --input holds everything: it goes without -r, -t and -s.\n"),
        (["--input", "x.tsv"], "error: x.tsv, line 1: the column is missing: 'candidate'.\n"),
        (["-r", "ref.txt", "-t", "a.txt", "--percentiles"], "error: --percentiles: the checkpoint "),
        (
            ["-r", "ref.txt", "-t", "a.txt", "--max_tokens", "2"],
            "error: max_tokens: must lie between 5 and 64 for this",
        ),
        (["-r", "ref.txt", "-t", "a.txt", "--checkpoint", "./gone"], "error: ./gone: no such model folder.\n"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(
    files: Path, bleurt: Run, arguments: Sequence[str], message: str
) -> None:
    (files / "short.txt").write_text("a\n", encoding="utf-8")
    (files / "latin.txt").write_bytes(b"a\ncaf\xe9\nc\nd\ne\n")
    (files / "x.tsv").write_text("reference\thypothesis\na\tb\n", encoding="utf-8")
    (files / "s.txt").write_text("earlier scores\n", encoding="utf-8")
    before = sorted(files.iterdir())
    named = "--checkpoint" not in arguments
    out, err = bleurt("score", *arguments, "-scores_file", "s.txt", code=2, name_checkpoint=named)
    assert out == "" and err.startswith(message) and err.count("\n") == 1
    assert sorted(files.iterdir()) == before
    assert (files / "s.txt").read_text() == "earlier scores\n"


def test_a_failure_while_scoring_leaves_no_half_of_a_file(
    files: Path, bleurt: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_PAIRS", 1)
    finish, calls = BleurtScorer._finish, []

    def fail_later(self: BleurtScorer, *arguments: object) -> object:
        calls.append(1)
        if len(calls) > 2:
            raise OSError(28, "No space left on device")
        return finish(self, *arguments)

    monkeypatch.setattr(BleurtScorer, "_finish", fail_later)
    out, err = bleurt("score", "-r", "ref.txt", "-t", "a.txt", "-scores_file", "s.txt", code=2)
    assert (out, err) == ("", "error: s.txt: could not be written, the disk is full.\n")
    assert sorted(file.name for file in files.iterdir()) == ["a.txt", "b.txt", "ref.txt"]


def test_a_flag_that_is_repeated_under_any_of_its_names_adds_files(files: Path, bleurt: Run) -> None:
    together, _ = bleurt("score", "-r", "ref.txt", "-t", "a.txt", "b.txt")
    assert bleurt("score", "-r", "ref.txt", "-t", "a.txt", "-t", "b.txt")[0] == together
    assert bleurt("score", "-candidate_file", "a.txt", "-reference_file", "ref.txt", "-t", "b.txt")[0] == together
    with pytest.raises(SystemExit):
        bleurt("score", "-i", "a.jsonl", "--input", "b.jsonl")
    with pytest.raises(SystemExit):
        bleurt("score", "-r", "ref.txt", "-t", "a.txt", "--model", "one")  # beside --checkpoint


def test_a_column_called_bleurt_is_not_overwritten(files: Path, bleurt: Run) -> None:
    row = '{"reference": "the cat", "candidate": "a cat"}\n'
    (files / "x.jsonl").write_text(row + row.replace("}", ', "bleurt": 1}'))
    out, err = bleurt("score", "-i", "x.jsonl", "--format", "json", code=2)
    assert out == "" and err.startswith("error: x.jsonl: has a column bleurt")
    assert bleurt("score", "-i", "x.jsonl")[0].count("\n") == 2, "as text nothing is in its way"


def test_scores_do_not_replace_what_they_are_of(files: Path, bleurt: Run) -> None:
    _, err = bleurt("score", "-r", "ref.txt", "-t", "a.txt", "-scores_file", "a.txt", code=2)
    assert err.startswith("error: --scores_file: a.txt is read as input") and (files / "a.txt").read_text()


def test_output_is_utf8_whatever_the_terminal_speaks(files: Path, checkpoint: Path) -> None:
    (files / "x.jsonl").write_text('{"reference": "the cat", "candidate": "a cat", "note": "ラ"}\n', encoding="utf-8")
    command = [sys.executable, "-m", "pipeline.scoring", "score", "-i", "x.jsonl", "--format", "json", "--quiet"]
    environment = os.environ | {"PYTHONIOENCODING": "latin-1", "PYTHONPATH": str(ROOT)}
    out = subprocess.run([*command, "-c", str(checkpoint)], capture_output=True, env=environment, check=True).stdout
    assert json.loads(out.decode("utf-8"))["note"] == "ラ"


def test_numbers_that_json_does_not_know_become_null(files: Path, bleurt: Run) -> None:
    (files / "x.jsonl").write_text(
        '{"reference": "the cat", "candidate": "a cat", "mine": NaN, "list": [Infinity, 1]}\n'
    )
    out, _ = bleurt("score", "-i", "x.jsonl", "--format", "json")
    assert '"mine": null, "list": [null, 1]' in out


def test_closed_streams_are_one_sentence_or_nothing() -> None:
    code = "from pipeline.scoring.__main__ import main; import sys; sys.exit(main(['score']))"
    done = subprocess.run(["sh", "-c", f'"{sys.executable}" -c "{code}" <&-'], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("error: Give references with -r")
    done = subprocess.run(["sh", "-c", f'"{sys.executable}" -c "{code}" >&-'], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "standard output is closed" in done.stderr


def test_a_terminated_run_leaves_no_temporary_file(files: Path, bleurt: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def terminate(self: BleurtScorer, *_: object) -> object:
        os.kill(os.getpid(), signal.SIGTERM)
        return iter(())

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(BleurtScorer, "_finish", terminate)
    try:
        with pytest.raises(SystemExit) as stopped:
            bleurt("score", "-r", "ref.txt", "-t", "a.txt", "-scores_file", "s.txt")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert stopped.value.code == 128 + signal.SIGTERM
    assert sorted(file.name for file in files.iterdir()) == ["a.txt", "b.txt", "ref.txt"]


def test_wrong_names_are_answered_with_the_right_ones(
    files: Path, bleurt: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["score", "--format", "xml"], ["compare", "--baselines", "meteo"], ["compare", "--quiet"]):
        with pytest.raises(SystemExit):
            bleurt(*arguments, name_checkpoint=False)
    err = capsys.readouterr().err
    assert "must be one of text, json, latex, not 'xml'" in err
    assert "argument --baselines: must be one of bertscore, " in err and ", not 'meteo'" in err
    assert "bleurt compare: error: unrecognized arguments: --quiet" in err


def test_wrong_usage_exits_with_2(files: Path, bleurt: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["nonsense"], ["score", "--width", "x"], ["score", "-bleurt_batch_size", "0"], []):
        with pytest.raises(SystemExit) as stopped:
            bleurt(*arguments, name_checkpoint=False)
        assert stopped.value.code == 2
    assert "must be a whole number from 1, not '0'" in capsys.readouterr().err


def test_help_names_every_subcommand_and_loads_no_torch() -> None:
    code = (
        "import sys; from pipeline.scoring.__main__ import main\n"
        "for given in (['--help'], ['score', '--help'], ['train', '--help']):\n"
        "    try: main(given)\n"
        "    except SystemExit as stopped: assert stopped.code == 0\n"
        "main(['train'])\n"
        "print([name for name in ('torch', 'transformers', 'numpy', 'pyarrow', 'scipy') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    listed = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("    ") and line.strip()}
    commands = {"score", "compare", "convert", "explain", "selftest", "benchmark", "train"}
    commands |= {"bench", "challenge", "calibrate", "kernels", "preflight", "studies"}
    assert commands == set(summaries()) <= listed
    assert done.stdout.count("dvc repro") == 2 and "-sentence_pairs_file" in done.stdout


def test_a_reader_who_has_enough_ends_it_quietly() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "pipeline.scoring", "train"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        assert (running.stderr.read(), running.wait()) == (b"", 1)


def test_a_checkpoint_that_reads_sources_goes_without_references(
    new_checkpoint: Callable[..., Path], bleurt: Run, files: Path, references: list[str]
) -> None:
    """And each kind of checkpoint says in a sentence what it lacks."""
    folder = new_checkpoint("adequacy")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"reads": "source"}))
    (files / "src.txt").write_text("".join(f"{line}\n" for line in references))
    named = ["-c", str(folder)]
    out, notes = bleurt("score", "-s", "src.txt", "-t", "a.txt", *named, name_checkpoint=False)
    assert numbers(out) == approx(numbers(bleurt("score", "-r", "ref.txt", "-t", "a.txt")[0]), abs=1e-5)
    assert "|reads:source" in notes
    rows = [{"source": "the cat sat", "candidate": "a cat"}, {"reference": "a dog", "candidate": "a dog"}]
    (files / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (files / "s.jsonl").write_text(json.dumps(rows[0]) + "\n")
    found = bleurt("score", "-i", "s.jsonl", "--format", "json", *named, name_checkpoint=False)[0]
    assert json.loads(found)["bleurt"]["edge"] is None
    wrong = "error: {}: has no {}, which the checkpoint reads; give it with {} or as a column.\n"
    failed = bleurt("score", "-r", "ref.txt", "-t", "a.txt", *named, name_checkpoint=False, code=2)
    assert failed == ("", wrong.format("a.txt", "source", "-s"))
    assert bleurt("score", "-s", "src.txt", "-t", "a.txt", code=2) == ("", wrong.format("a.txt", "reference", "-r"))
    failed = bleurt("score", "-i", "t.jsonl", *named, name_checkpoint=False, code=2)
    assert failed == ("", wrong.format("t.jsonl, line 2", "source", "-s"))
    assert "line 1: has no reference, which" in bleurt("score", "-i", "t.jsonl", code=2)[1]
    sentence = bleurt("explain", "-s", "src.txt", "-t", "a.txt", *named, name_checkpoint=False, code=2)[1]
    assert "does not read a reference and a candidate as one pair" in sentence
