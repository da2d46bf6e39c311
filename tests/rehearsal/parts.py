"""What the rehearsal's hub and web serve: small random models, a dump and ratings, in the layouts of the real ones."""

import bz2
import io
import json
import random
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

import sentencepiece
import torch
from rehearsal.hub_server import Repository
from safetensors.torch import save
from tiny_filler import PIECES, SPECIAL
from tiny_marian import TEXTS, random_marian
from tiny_project import ADJECTIVES, NOUNS, PLACES, VERBS, sentence, write_dump
from tokenizers import BertWordPieceTokenizer
from tokenizers.implementations import ByteLevelBPETokenizer
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    PretrainedConfig,
    RobertaConfig,
    RobertaForSequenceClassification,
)

WORDS = ["article", "is", "here", "a", "until", "near", "came", "in", *ADJECTIVES, *NOUNS, *VERBS, *PLACES]
SIZES = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 512}
ENGLISH = [sentence(random.Random(seed)) for seed in range(60)]

Files = dict[str, bytes]


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2).encode()


def _vocabulary(*, lowercase: bool) -> Files:
    """vocab.txt and tokenizer.json of a WordPiece tokenizer, with settings as Google's repositories have them."""
    pieces = [*SPECIAL, *PIECES, *WORDS]
    pieces += [] if lowercase else [*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "The", "Article"]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = BertWordPieceTokenizer(vocabulary, lowercase=lowercase, strip_accents=lowercase or None)
    return {
        "vocab.txt": ("\n".join(vocabulary) + "\n").encode(),
        "tokenizer.json": tokenizer.to_str().encode(),
        "tokenizer_config.json": _json({"do_lower_case": lowercase, "model_max_length": 512}),
    }


def _bert_config(pieces: int, layers: int, **more: object) -> BertConfig:
    return BertConfig(vocab_size=pieces, num_hidden_layers=layers, initializer_range=0.5, **SIZES, **more)


def _stored(config: PretrainedConfig, kind: str) -> bytes:
    """config.json with what old files lack left out, and what they have put in."""
    values = config.to_diff_dict()
    for key in ("dtype", "torch_dtype", "transformers_version"):
        values.pop(key, None)
    return _json({**values, "architectures": [kind], "model_type": config.model_type, "gradient_checkpointing": False})


def old_bert(seed: int, layers: int = 2, *, lowercase: bool = True, both_heads: bool = True) -> Files:
    """A BERT as Google's are stored: LayerNorm weights are `gamma` and `beta`, the tied decoder is left out."""
    files = _vocabulary(lowercase=lowercase)
    config = _bert_config(files["vocab.txt"].count(b"\n"), layers)
    torch.manual_seed(seed)
    model = (BertForPreTraining if both_heads else BertForMaskedLM)(config)
    tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in model.state_dict().items()
        if "decoder" not in name and "position_ids" not in name
    }
    weights = save({name: value.contiguous().clone() for name, value in tensors.items()}, {"format": "pt"})
    others = {"README.md": b"# A model\n", "pytorch_model.bin": b"pickled", "tf_model.h5": b"weights"}
    others["coreml/fill-mask/model.mlpackage/Manifest.json"] = b"{}"
    return {**files, **others, "config.json": _stored(config, type(model).__name__), "model.safetensors": weights}


def classifier(seed: int) -> Files:
    """A RoBERTa for MNLI, as Meta's is stored: labels in its own order, and tensors that the classifier lacks."""
    tokenizer = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(ENGLISH, vocab_size=400, special_tokens=special, show_progress=False)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_model(folder)
        files = {name: (Path(folder) / name).read_bytes() for name in ("vocab.json", "merges.txt")}
    labels = {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}
    sizes = {**SIZES, "max_position_embeddings": 514}
    config = RobertaConfig(vocab_size=tokenizer.get_vocab_size(), num_hidden_layers=2, id2label=labels, **sizes)
    torch.manual_seed(seed)
    model = RobertaForSequenceClassification(config)
    tensors = {name: value.contiguous() for name, value in model.state_dict().items()}
    tensors["roberta.embeddings.position_ids"] = torch.arange(514).unsqueeze(0)
    tensors["roberta.pooler.dense.weight"] = torch.zeros(16, 16)
    return {
        **files,
        "tokenizer_config.json": _json({"model_max_length": 512}),
        "config.json": _stored(config, type(model).__name__),
        "model.safetensors": save(tensors, {"format": "pt"}),
    }


def _pieces(texts: list[str]) -> tuple[bytes, list[str]]:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=120, hard_vocab_limit=False, minloglevel=2
    )
    loaded = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return model.getvalue(), [loaded.id_to_piece(i) for i in range(loaded.get_piece_size())]


def opus(source: str, target: str, seed: int) -> Repository:
    """A model of OPUS-MT: two SentencePiece models, one joint vocabulary; safetensors only at refs/pr/7.

    As converted there: shared embeddings stand once, and the sinusoidal positions are stored.
    """
    spm = {"en": ENGLISH, "other": [*ENGLISH[:5], *TEXTS * 5]}
    (source_spm, one), (target_spm, other) = (_pieces(spm.get(side, spm["other"])) for side in (source, target))
    ordered = ["</s>", "<unk>", *dict.fromkeys(p for p in [*one, *other] if p not in {"<s>", "</s>", "<unk>"})]
    vocabulary = {piece: i for i, piece in enumerate([*ordered, "<pad>"])}
    model = random_marian(len(vocabulary), seed, "swish", end_bias=2.0)
    tensors = {name: value for name, value in model.state_dict().items() if "embed_tokens" not in name}
    tensors.pop("lm_head.weight", None)
    for side in ("encoder", "decoder"):
        tensors[f"model.{side}.embed_positions.weight"] = getattr(model.model, side).embed_positions.weight
    config = {**model.config.to_diff_dict(), "architectures": ["MarianMTModel"], "model_type": "marian"}
    for key in ("dtype", "transformers_version", "tie_word_embeddings"):
        config.pop(key, None)
    config |= {"static_position_embeddings": True, "num_beams": 6, "max_length": 512, "normalize_embedding": False}
    config |= {
        "bad_words_ids": [[len(vocabulary) - 1]],
        "add_final_layer_norm": False,
        "_name_or_path": "/tmp/Helsinki",
    }
    files = {
        "config.json": _json(config),
        "generation_config.json": _json({"num_beams": 6, "max_length": 512, "pad_token_id": len(vocabulary) - 1}),
        "source.spm": source_spm,
        "target.spm": target_spm,
        "vocab.json": _json(vocabulary),
        "tokenizer_config.json": _json({"target_lang": target, "source_lang": source}),
        "pytorch_model.bin": b"pickled",
        "rust_model.ot": b"weights",
    }
    weights = save({name: value.contiguous().clone() for name, value in tensors.items()}, {"format": "pt"})
    return Repository({"main": files, "refs/pr/7": {**files, "model.safetensors": weights}})


def models() -> dict[str, Repository]:
    """Every model that the profile `paper` names, and a multilingual BERT, by name."""
    found = {
        "google-bert/bert-base-uncased": Repository({"main": old_bert(1), "v0": old_bert(11)}),
        "FacebookAI/roberta-large-mnli": Repository({"main": classifier(5)}),
        "google-bert/bert-large-uncased": Repository({"main": old_bert(2, layers=24)}),
        "google-bert/bert-base-multilingual-cased": Repository(
            {"main": old_bert(3, lowercase=False, both_heads=False)}
        ),
    }
    for seed, (source, target) in enumerate((("en", "fr"), ("fr", "en"), ("en", "de"), ("de", "en"))):
        found[f"Helsinki-NLP/opus-mt-{source}-{target}"] = opus(source, target, seed)
    return found


def packed(files: Mapping[str, str | bytes]) -> bytes:
    """A .tar.gz of `files` by their paths."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, text in files.items():
            content = text.encode() if isinstance(text, str) else text
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def dump(articles: int) -> bytes:
    """A MediaWiki dump with so many articles, packed by bzip2."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "dump.xml"
        write_dump(file, articles, sentences=8)
        return bz2.compress(file.read_bytes())


PAIRS = ("de-en", "fi-en")
SEGMENTS = 14
SYSTEMS = ("alpha.1", "beta-nmt.2", "gamma.3")


def _references(year: int, pair: str) -> list[str]:
    draw = random.Random(f"{year} {pair}")
    return [sentence(draw) for _ in range(SEGMENTS)]


def _worse(reference: str, seed: str) -> tuple[str, float]:
    """A candidate with some words of the reference left out, and a rating that falls with them."""
    draw = random.Random(seed)
    words = reference.split()
    kept = [word for word in words if draw.random() > draw.choice((0.0, 0.2, 0.6))]
    return " ".join(kept or words[:1]), round(len(kept) / len(words) * 100 + draw.uniform(-8, 8), 2)


def daseg(year: int) -> bytes:
    """DAseg-wmt-newstest{year}.tar.gz, of 2015 and 2016."""
    files = {}
    for pair in PAIRS:
        rows = [(z, *_worse(z, f"{year} {z}")) for z in _references(year, pair)]
        stem = f"DAseg-wmt-newstest{year}/DAseg.newstest{year}"
        columns = {
            "source": [f"Quelle {year} {pair} {i}" for i in range(SEGMENTS)],
            "reference": [z for z, _, _ in rows],
            "mt-system": [candidate for _, candidate, _ in rows],
            "human": [str((rating - 60) / 25) for _, _, rating in rows],
        }
        for kind, lines in columns.items():
            files[f"{stem}.{kind}.{pair}"] = "\n".join(lines) + "\n"
    return packed(files)


def _texts(year: int, folder: str) -> tuple[dict[str, str], dict[tuple[str, str, int], float]]:
    """Sources, references and outputs of a test set, and people's ratings by pair, system and segment."""
    files, ratings = {}, {}
    for pair in PAIRS:
        source, target = pair.split("-")
        references = _references(year, pair)
        stem = f"newstest{year}-{source}{target}"
        sources = "".join(f"Quelle {year} {pair} {i}\n" for i in range(SEGMENTS))
        files[f"{folder}/sources/{stem}-src.{source}"] = sources
        files[f"{folder}/references/{stem}-ref.{target}"] = "\n".join(references) + "\n"
        for system in SYSTEMS:
            rows = [_worse(z, f"{year} {pair} {system} {i}") for i, z in enumerate(references)]
            outputs = f"{folder}/system-outputs/newstest{year}/{pair}/newstest{year}.{system}.{pair}"
            files[outputs] = "\n".join(candidate for candidate, _ in rows) + "\n"
            ratings |= {(pair, system, i + 1): rating for i, (_, rating) in enumerate(rows)}
    return files, ratings


def wmt17() -> bytes:
    """wmt17-metrics-task-package.tgz: ratings, and the texts in an inner archive."""
    files, ratings = _texts(2017, "wmt17-submitted-data/txt")
    lines = ["LP DATA SYSTEM SID HUMAN"]
    lines += [f"{pair} newstest2017 {system} {i} {(raw - 60) / 25}" for (pair, system, i), raw in ratings.items()]
    return packed(
        {
            "manual-evaluation/DA-seglevel.csv": "\n".join(lines) + "\n",
            "input/wmt17-metrics-task-no-hybrids.tgz": packed(files),
        }
    )


def humaneval(year: int, folder: str, outer: str) -> tuple[bytes, bytes]:
    """The two archives of 2018 and 2019, ratings and texts; `outer` is the folder of the texts."""
    files, ratings = _texts(year, outer)
    tables: dict[str, list[str]] = {}
    for (pair, system, segment), raw in ratings.items():
        lines = tables.setdefault(f"{folder}/ad-seg-scores-{pair}.csv", ["SYS SID RAW.SCR Z.SCR N"])
        lines.append(f"{system} {segment} {raw} {(raw - 60) / 25} 2")
    return packed({name: "\n".join(lines) + "\n" for name, lines in tables.items()}), packed(files)


def webnlg() -> bytes:
    """WebNLG's human evaluation, as its repository is packed."""
    draw = random.Random("webnlg")
    references = [sentence(draw) for _ in range(SEGMENTS)]
    triples = [f"Thing_{i} | place | {i}" for i in range(SEGMENTS)]
    rows = ["id,mr,team,text,category,type,bleu,meteor,ter,fluency,grammar,semantics"]
    for team in ("adapt", "melbourne", "vietnam"):
        for i, reference in enumerate(references):
            candidate, raw = _worse(reference, f"{team} {i}")
            rating = round(1 + 2 * min(max(raw, 0), 100) / 100, 3)
            rows.append(f"{len(rows)},{triples[i]},{team},{candidate},City,seen,0.5,0.5,50,{rating},{rating},{rating}")
    folder = "webnlg-human-evaluation-master"
    return packed(
        {
            f"{folder}/all_data_final_averaged.csv": "\n".join(rows) + "\n",
            f"{folder}/MRs.txt": "\n".join(triples),
            f"{folder}/sample-ids.txt": "".join(f"{i + 1}\n" for i in range(SEGMENTS)) + "\n",
            f"{folder}/gold-sample-reference0.lex": "\n".join(references) + "\n",
        }
    )


def ratings_table() -> Repository:
    """The hub's table of direct assessments: a CSV file, and a later revision of it."""
    header = "lp,src,mt,ref,score,raw,annotators,domain,year\n"
    row = 'de-en,Eine Katze.,"None",A cat.,0.5,80.0,1,news,2018\n'
    first, second = header + row, header + row + "de-en,Ein Hund.,A dog.,A dog.,-1.5,20,1,news,2019\n"
    card = b"---\nlicense: apache-2.0\n---\n# Ratings\n"
    files = [{"README.md": card, "train.csv": text.encode()} for text in (first, second)]
    return Repository({"v1": files[0], "main": files[1]})


def web(dump_articles: int) -> Files:
    """Every file that the profile `paper` names by its URL, by host and path."""
    graham, bojar = "/www.scss.tcd.ie/~ygraham", "/ufallab.ms.mff.cuni.cz/~bojar"
    ratings18, texts18 = humaneval(2018, "newstest2018-humaneval/analysis", "wmt18-metrics-task-nohybrids")
    turkle = "newstest2019-humaneval/turkle-sntlevel-humaneval-newstest2019/analysis"
    ratings19, texts19 = humaneval(2019, turkle, "wmt19-submitted-data-v3/txt")
    project = "/gitlab.com/webnlg/webnlg-human-evaluation/-/archive/master"
    return {
        "/dumps.wikimedia.org/enwiki/latest/enwiki-latest-pages-articles.xml.bz2": dump(dump_articles),
        f"{graham}/DAseg-wmt-newstest2015.tar.gz": daseg(2015),
        f"{graham}/DAseg-wmt-newstest2016.tar.gz": daseg(2016),
        f"{bojar}/wmt17-metrics-task-package.tgz": wmt17(),
        f"{graham}/newstest2018-humaneval.tar.gz": ratings18,
        f"{bojar}/wmt18/wmt18-metrics-task-nohybrids.tgz": texts18,
        f"{graham}/newstest2019-humaneval.tar.gz": ratings19,
        f"{bojar}/wmt19/wmt19-submitted-data-v3-txt-minimal.tgz": texts19,
        f"{project}/webnlg-human-evaluation-master.tar.gz": webnlg(),
    }
