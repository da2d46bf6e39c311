"""Make one bundled model: `python -m pipeline.bundled mask-filler --params params.yaml --data data/real --out OUT`.

models/bundled/dvc.yaml runs it once for each model, and at the end `python -m pipeline.bundled scores ...`, which
scores all stored models for their cards. Training keeps its state under .work/bundled: a run that was killed continues
where it stopped. It starts again from the beginning if its data, its params or its code have changed.

A recipe is a module `pipeline.bundled.recipes.NAME` with
  Params                                 its section `bundled.NAME` of params.yaml, a class made by `params`
  MODELS                                 the models that it makes: NAME, or NAME-... (with "-" for "_")
  INPUTS                                 the folders inside the data that it reads
  make(model, params, data, work, out)   trains `model`, or continues from `work`, and writes it to the folder `out`
  scores(params, data, models)           name of a test set -> scores of its models in the folder `models`
There is no list of recipes. To add one, add its module, its values in params.yaml, its stage and its test.
"""

import argparse
import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from pipeline.core import modules, work
from pipeline.core.errors import InputError, ParamsError
from pipeline.core.modules import code_fingerprint
from pipeline.core.outputs import remove_folder
from pipeline.core.params import load_params
from pipeline.core.runtime import run_main

RECIPES = "pipeline.bundled.recipes"
"""The package whose modules are the recipes."""

SCORES = "scores"
"""What to name on the command line to score all models."""


class Recipe(Protocol):
    """What every module of RECIPES offers."""

    Params: type[Any]
    MODELS: tuple[str, ...]
    INPUTS: tuple[str, ...]

    def make(self, model: str, params: Any, data: Path, work: Path, out: Path) -> None: ...

    def scores(self, params: Any, data: Path, models: Path) -> dict[str, Any]: ...


def recipe_of(model: str) -> tuple[str, Recipe]:
    """Name and module of the recipe that makes `model`; a ParamsError if there is none.

    >>> recipe_of("translator-en-x")[0]
    'translator'
    """
    for name in modules.names(RECIPES):
        if f"{model}-".startswith(f"{name.replace('_', '-')}-"):
            recipe = cast(Recipe, modules.load(RECIPES, name, "recipe"))
            if model in recipe.MODELS:
                return name, recipe
    known = [model for recipe in modules.load_all(RECIPES).values() for model in recipe.MODELS]
    raise ParamsError(f"recipe: must be one of {', '.join([*known, SCORES])}, not {model!r}.")


def make(model: str, params_file: Path, data: Path, out: Path) -> None:
    """Train `model`, or continue its training, and put its files into `out`, beside the card that is there."""
    name, recipe = recipe_of(model)
    params = load_params(params_file, f"bundled.{name}", recipe.Params)
    state = state_folder(model, f"{RECIPES}.{name}", params, _inputs(recipe, data))
    state.mkdir(parents=True, exist_ok=True)
    recipe.make(model, params, data, state, state / "model")
    shutil.copytree(state / "model", out, dirs_exist_ok=True)
    remove_folder(state)


def state_folder(model: str, module: str, params: Any, inputs: Sequence[Path]) -> Path:
    """Folder of the training state of `model`; a change of params, code or the bytes of `inputs` gives another one."""
    parts = [repr(params), code_fingerprint(module), *map(work.file_hash, inputs)]
    digest = hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16]
    return work.WORK / "bundled" / f"{model}-{digest}"


def score(params_file: Path, data: Path, models: Path, out: Path) -> None:
    """Score the models in the folder `models` by all recipes; writes and prints the file `out`."""
    found: dict[str, Any] = {}
    for name in modules.names(RECIPES):
        recipe = cast(Recipe, modules.load(RECIPES, name, "recipe"))
        _inputs(recipe, data)
        found |= recipe.scores(load_params(params_file, f"bundled.{name}", recipe.Params), data, models)
    work.write_json(out, found)
    print(out.read_text(encoding="utf-8"))


def _inputs(recipe: Recipe, data: Path) -> list[Path]:
    folders = [data / name for name in recipe.INPUTS]
    for folder in folders:
        if not folder.is_dir():
            raise InputError("no such folder of real data; the bundled models are trained on it", file=folder)
    return folders


def main() -> None:
    """Parse the command line; make a model or score all."""
    parser = argparse.ArgumentParser(description="Train one of the bundled models, or score them all.")
    parser.add_argument("recipe", help=f"the model to make, such as mask-filler; or {SCORES}")
    parser.add_argument("--params", type=Path, required=True, help="params.yaml; its section is bundled.<recipe>")
    parser.add_argument("--data", type=Path, required=True, help="folder of real data (layout in docs/data.md)")
    parser.add_argument("--models", type=Path, default=Path("models/bundled"), help=f"for {SCORES}: their folder")
    parser.add_argument("--out", type=Path, required=True, help=f"folder of the model; for {SCORES} a JSON file")
    arguments = parser.parse_args()
    if arguments.recipe == SCORES:
        score(arguments.params, arguments.data, arguments.models, arguments.out)
    else:
        make(arguments.recipe, arguments.params, arguments.data, arguments.out)


if __name__ == "__main__":
    run_main(main)
