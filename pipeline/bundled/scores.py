"""Scores of the bundled models as they are stored (half precision), for their cards; writes OUT/scores.json.

Translators: corpus BLEU and chrF (sacrebleu, signatures included) on FLORES-200 devtest and on held-out Tatoeba pairs,
through CTranslate2 with beam 4, as the pipeline uses them. Mask filler: top-1 on 15% masked pieces of WikiText-2 valid.
Entailment: accuracy on SNLI test.

    python -m pipeline.bundled.scores --data data/real --models models/bundled
"""

import argparse
from pathlib import Path
from typing import Any

import sacrebleu
import torch
from transformers import AutoTokenizer, BertForMaskedLM, BertForSequenceClassification

from pipeline.bundled import entailment, mask_filler, translator
from pipeline.bundled.parallel import LANGUAGES, SentencePair, read_flores, read_parallel
from pipeline.bundled.wikipedia import read_wikitext
from pipeline.core.runtime import run_main
from pipeline.core.work import write_json
from pipeline.teachers.translator import load_translator

BEAM_WIDTH = 4
BATCH_SENTENCES = 64


def translation_scores(folder: Path, into_english: bool, pairs: list[SentencePair]) -> dict[str, dict[str, Any]]:
    """`fr-en` or `en-fr`, and German alike -> BLEU, chrF, their signatures and the number of pairs."""
    model, found = load_translator(str(folder)), {}
    for language in LANGUAGES:
        chosen = [pair for pair in pairs if pair.language == language]
        english, foreign = [p.english for p in chosen], [p.foreign for p in chosen]
        source, target = (foreign, english) if into_english else (english, foreign)
        guess = model.translate(source, "en" if into_english else language, BEAM_WIDTH, BATCH_SENTENCES)
        scores: dict[str, Any] = {"pairs": len(chosen)}
        for name, metric in (("bleu", sacrebleu.BLEU()), ("chrf", sacrebleu.CHRF())):
            scores[name] = round(metric.corpus_score(guess, [target]).score, 2)
            scores[f"{name}_signature"] = str(metric.get_signature())
        found[f"{language}-en" if into_english else f"en-{language}"] = scores
    return found


def mask_filler_score(folder: Path, data: Path) -> float:
    """Top-1 accuracy of the stored mask filler."""
    model = BertForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = read_wikitext(data / "wikipedia" / "wikitext-2-raw.valid.txt.gz")
    rows = tokenizer(texts, truncation=True, max_length=mask_filler.RECIPE.max_pieces)["input_ids"]
    return round(mask_filler.top1(model, rows, 0.15, 0), 4)


def entailment_score(folder: Path, data: Path) -> float:
    """Accuracy of the stored classifier on SNLI test."""
    model = BertForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = entailment.read_snli(data / "nli" / "snli_1.0_test.jsonl.gz")
    encoded = entailment.encode(tokenizer, rows, entailment.RECIPE.max_pieces)
    return round(entailment.accuracy(model, encoded, [row[2] for row in rows]), 4)


def main() -> None:
    """Score all four models and write the file that their cards quote."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", type=Path, default=Path("models/bundled"))
    arguments = parser.parse_args()
    data, models = arguments.data, arguments.models
    heldout = read_parallel(data / "parallel", translator.RECIPE.heldout_one_in).heldout
    sets = {"flores200_devtest": read_flores(data / "parallel"), "tatoeba_heldout": heldout}
    scores: dict[str, Any] = {
        "mask_filler_top1_wikitext2_valid": mask_filler_score(models / "mask-filler", data),
        "entailment_accuracy_snli_test": entailment_score(models / "entailment", data),
    }
    for direction in ("en-x", "x-en"):
        for name, pairs in sets.items():
            folder = models / f"translator-{direction}"
            scores.setdefault(name, {}).update(translation_scores(folder, direction == "x-en", pairs))
    write_json(models / "scores.json", scores)
    print((models / "scores.json").read_text(encoding="utf-8"))


if __name__ == "__main__":
    run_main(main)
