"""`bleurt convert`: write a checkpoint of the original BLEURT as a transformers folder with the same scores.

  bleurt convert BLEURT-20 models/bleurt-20
  bleurt score -r ref.txt -t system.txt --checkpoint models/bleurt-20

FOLDER is a checkpoint as the original releases it, a warmed-up BERT, or a conversion of the model type "bleurt". OUT
gets config.json, model.safetensors and the tokenizer, so that transformers loads the model without this project; the
tokenizer of a SentencePiece checkpoint needs `pipeline.core.pieces.SentencePieces`. All of `bleurt` reads FOLDER
itself, so converting is no need; it saves the check of every weight at the start.
"""

import argparse
import shutil
from pathlib import Path

from pipeline.core.errors import ModelError, ParamsError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to convert, and where to write it."""
    parser.add_argument("folder", metavar="FOLDER", help="a checkpoint of another BLEURT")
    parser.add_argument("out", metavar="OUT", type=Path, help="a folder that does not exist or is empty")


def run(arguments: argparse.Namespace) -> int:
    """Convert, and print where the result is."""
    if arguments.out.exists() and (not arguments.out.is_dir() or any(arguments.out.iterdir())):
        raise ParamsError(f"OUT: {arguments.out} exists already and is no empty folder.")
    kind = convert(arguments.folder, arguments.out)
    print(f"wrote {arguments.out}: {kind}")
    return 0


def convert(name: str, out: Path) -> str:
    """Write the checkpoint `name` to the folder `out`; returns what it is. A ModelError if it needs no conversion."""
    from transformers import AutoModel, AutoModelForSequenceClassification

    from pipeline.core import originals
    from pipeline.core.models import load, load_tokenizer, locate, quiet
    from pipeline.metric.checkpoint import save_metric
    from pipeline.scoring.calibration import FILE as CALIBRATION

    folder = locate(name)
    foreign = originals.found_in(folder)
    if foreign is None:
        raise ModelError(f"{folder}: is a transformers folder already.")
    scores = foreign.scores()
    model = load(AutoModelForSequenceClassification if scores else AutoModel, folder, () if scores else ("pooler",))
    with quiet():
        save_metric(model, load_tokenizer(folder), out)
    if (folder / CALIBRATION).is_file():
        shutil.copyfile(folder / CALIBRATION, out / CALIBRATION)
    return f"{type(model).__name__}{'' if scores else ', an encoder to fine-tune, which has no last layer'}"
