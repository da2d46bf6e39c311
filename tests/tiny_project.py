"""A whole project on tiny random models: a copy of the code, a small dump, a profile `tiny`. For end-to-end tests."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from ruamel.yaml import YAML
from tiny_filler import save_tiny_filler
from tiny_marian import save_tiny_marian
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, BertModel

ROOT = Path(__file__).resolve().parents[1]
ADJECTIVES = ["small", "red", "quiet", "famous", "early", "northern", "wooden", "public", "royal", "modern"]
NOUNS = ["cat", "dog", "house", "bird", "river", "church", "school", "bridge", "letter", "garden", "market", "tower"]
VERBS = ["stood", "lived", "ran", "sang", "worked", "slept", "travelled", "grew"]
PLACES = ["town", "valley", "island", "village", "harbour", "castle"]


def sentence(draw: random.Random) -> str:
    """One plain English sentence of 14 words, most often unlike any other."""
    one, two, three = draw.sample(ADJECTIVES, 3)
    near = f"near the {two} {draw.choice(PLACES)} until the {three} {draw.choice(NOUNS)} came"
    return f"The {one} {draw.choice(NOUNS)} {draw.choice(VERBS)} {near} in {draw.randint(1500, 1999)}."


def write_dump(file: Path, articles: int, sentences: int) -> None:
    """A MediaWiki export with `articles` articles, a redirect and a talk page."""
    draw = random.Random(1)
    pages = [
        f"<page><title>Article {i}</title><ns>0</ns><id>{i}</id><revision><id>{i}</id><text>"
        f"'''Article {i}''' is here. {' '.join(sentence(draw) for _ in range(sentences))}</text></revision></page>"
        for i in range(1, articles + 1)
    ]
    redirect = '<page><title>R</title><ns>0</ns><id>900</id><redirect title="Article 1"/><revision><id>900</id>'
    pages.append(redirect + "<text>#REDIRECT [[Article 1]]</text></revision></page>")
    pages.append(
        "<page><title>Talk:T</title><ns>1</ns><id>901</id><revision><id>901</id><text>x</text></revision></page>"
    )
    head = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">'
    head += "<siteinfo><sitename>Wikipedia</sitename><dbname>enwiki</dbname></siteinfo>"
    file.write_text(f"{head}\n" + "\n".join(pages) + "\n</mediawiki>\n", encoding="utf-8")


def write_models(folder: Path) -> None:
    """Random stand-ins, under the names of the bundled models, and an encoder."""
    languages = (">>fra<<", ">>deu<<")
    save_tiny_filler(folder / "mask-filler", positions=128)
    save_tiny_marian(folder / "translator-en-x", languages, seed=1)
    save_tiny_marian(folder / "translator-x-en", seed=2)
    tokenizer = AutoTokenizer.from_pretrained(folder / "mask-filler")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=128, **sizes)
    torch.manual_seed(3)
    BertModel(config).save_pretrained(folder / "encoder")
    labels = {0: "entailment", 1: "neutral", 2: "contradiction"}
    config.num_labels, config.id2label = 3, labels
    BertForSequenceClassification(config).save_pretrained(folder / "entailment")
    for name in ("encoder", "entailment"):
        tokenizer.save_pretrained(folder / name)


def write_params(file: Path) -> None:
    """The project's params.yaml with a profile `tiny`: embedded's, on the tiny encoder, with few of everything."""
    document = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    tiny = document["profiles"]["embedded"]
    tiny["extract"] |= {"source": "dump.xml", "segments": 60, "segments_per_shard": 12, "pages_per_chunk": 3}
    tiny["perturb"]["mask_fill"] |= {"beam_width": 2}
    tiny["models"] = {
        "encoder": "bundled:encoder",
        "matcher": "bundled:encoder",
        "mask_filler": "bundled:mask-filler",
        "entailment": "bundled:entailment",
        "pivots": {
            language: {"to": "bundled:translator-en-x", "back": "bundled:translator-x-en"} for language in ("fr", "de")
        },
        "text": "none",
    }
    tiny["pretrain"]["continue_from"] = None
    tiny["pretrain"]["schedule"] |= {"steps": 12, "evaluate_every": 6, "save_every": 4}
    tiny["finetune"]["schedule"] |= {"steps": 12, "evaluate_every": 6, "save_every": 4}
    tiny["evaluate"] |= {"bertscore": {"model": "encoder", "layer": 2}, "resamples": 50, "permutations": 50}
    document["profile"] = "tiny"
    document["profiles"] = {"tiny": tiny}
    with file.open("w", encoding="utf-8") as stream:
        YAML().dump(document, stream)


def make_sources(folder: Path) -> Path:
    """Everything that the stages need, in `folder`."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "pipeline", folder / "pipeline", ignore=ignore)
    shutil.copy(ROOT / "dvc.yaml", folder)
    write_dump(folder / "dump.xml", articles=12, sentences=8)
    write_models(folder / "models" / "bundled")
    (folder / "data" / "sample").mkdir(parents=True)
    (folder / "data" / "own").mkdir()
    (folder / "data" / "own" / ".gitkeep").touch()
    lines = (ROOT / "data" / "sample" / "ratings.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "data" / "sample" / "ratings.tsv").write_text("".join(lines[: 1 + 7 * 24]), encoding="utf-8")
    write_params(folder / "params.yaml")
    return folder


def make_project(folder: Path) -> Path:
    """Everything that `dvc repro` needs, in `folder`, under git and DVC."""
    make_sources(folder)
    (folder / ".gitignore").write_text("/data\n/models\n/reports\n/.work\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    run(folder, "-m", "dvc", "init", "-q")
    subprocess.run(["git", "add", "."], cwd=folder, check=True)
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", *author, "commit", "-q", "-m", "start"], cwd=folder, check=True)
    return folder


def environment(**more: str) -> dict[str, str]:
    """The environment of a stage: this interpreter, one worker, CPU, no hub, no analytics."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "BLEURT_WORKERS": "1", "BLEURT_DEVICE": "cpu", "HF_HUB_OFFLINE": "1", "DVC_NO_ANALYTICS": "1"}
    return {**os.environ, **own, "PYTHONPATH": ".", "OMP_NUM_THREADS": "1", **more}


def run(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run Python with `arguments` in `folder`; a failure shows its whole output."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment(**more), capture_output=True, text=True
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


def data_bytes(folder: Path) -> dict[str, bytes]:
    """Name -> bytes of every Parquet shard and weight file under `folder`."""
    files = [f for f in sorted(folder.rglob("*")) if f.suffix in (".parquet", ".safetensors")]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}
