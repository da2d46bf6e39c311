"""One vocabulary of pieces for many languages (a unigram model, Kudo 2018), and a first embedding for every piece.

Text is lower-cased in Unicode's form NFKC and keeps its accents. A piece starts as the mean of English embeddings: of
the pieces that it stands for in parallel text (`pipeline.bundled.alignment`), and of its own letters as the English
encoder reads them, as often as the piece occurs in English text. So an English word starts as itself, a foreign word as
its translation, and a name that no parallel text holds as its letters.
"""

import unicodedata
from collections.abc import Iterable
from pathlib import Path

import numpy
import sentencepiece
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram
from transformers import BertTokenizerFast, PreTrainedTokenizerFast

from pipeline.bundled.alignment import Ids, Links
from pipeline.bundled.encoder import SPECIAL
from pipeline.core.pieces import MODEL_INPUTS, WORD_START

FAINT = 0.2
"""Links of a piece with less than this share of its strongest link do not count for its embedding."""

NAMES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


def learn_pieces(texts: Iterable[str], size: int, folder: Path) -> PreTrainedTokenizerFast:
    """A tokenizer with at most `size` pieces learned from `texts`, the five special ones first; written to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(" ".join(unicodedata.normalize("NFKC", text).lower().split()) for text in texts),
        model_prefix=str(folder / "pieces"),
        vocab_size=size - len(SPECIAL) + 1,
        hard_vocab_limit=False,
        character_coverage=0.9998,
        seed_sentencepiece_size=300_000,
        normalization_rule_name="identity",
        unk_id=0,
        bos_id=-1,
        eos_id=-1,
        num_threads=1,
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "pieces.model"))
    scored = [(model.id_to_piece(i), model.get_score(i)) for i in range(1, model.get_piece_size())]
    for suffix in ("model", "vocab"):
        (folder / f"pieces.{suffix}").unlink()
    tokenizer = shared_tokenizer(scored)
    tokenizer.save_pretrained(folder)
    return tokenizer


def shared_tokenizer(scored: list[tuple[str, float]]) -> PreTrainedTokenizerFast:
    """The tokenizer of pieces with their log probabilities; texts are framed as BERT's."""
    tokenizer = Tokenizer(Unigram([*((name, 0.0) for name in SPECIAL), *scored], SPECIAL.index("[UNK]"), False))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    ends = [(name, SPECIAL.index(name)) for name in ("[SEP]", "[CLS]")]
    tokenizer.post_processor = processors.BertProcessing(*ends)
    names = dict(zip(NAMES, SPECIAL, strict=True))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=512, model_input_names=list(MODEL_INPUTS), **names
    )


def first_embeddings(
    pieces: list[str],
    full: BertTokenizerFast,
    embeddings: NDArray[numpy.float32],
    links: list[Links],
    english_counts: Ids,
) -> NDArray[numpy.float32]:
    """Embeddings (pieces, D) from those of the tokenizer `full`, (its pieces, D).

    `links` go from `pieces` to pieces of `full`; `english_counts[i]` says how often piece i occurs in English text. A
    mean is as long as the vectors that it is made of are on average.
    """
    letters = [surface_ids(piece, full) for piece in pieces]
    rows = [numpy.repeat(i, len(ids)) for i, ids in enumerate(letters)]
    shares = [numpy.repeat((english_counts[i] + 1) / max(1, len(ids)), len(ids)) for i, ids in enumerate(letters)]
    strong = [_strong(part, len(pieces)) for part in links]
    weights = coo_matrix(
        (
            numpy.concatenate([*(part.count for part in strong), *shares]),
            (
                numpy.concatenate([*(part.foreign for part in strong), *rows]).astype(numpy.int64),
                numpy.concatenate([*(part.english for part in strong), *letters]).astype(numpy.int64),
            ),
        ),
        shape=(len(pieces), len(embeddings)),
    ).tocsr()
    total = numpy.asarray(weights.sum(axis=1))
    mean = weights @ embeddings / numpy.maximum(total, 1e-9)
    wanted = weights @ numpy.linalg.norm(embeddings, axis=1)[:, None] / numpy.maximum(total, 1e-9)
    mean *= wanted / numpy.maximum(numpy.linalg.norm(mean, axis=1, keepdims=True), 1e-9)
    found = numpy.where(total > 0, mean, embeddings.mean(axis=0))
    vocabulary = full.get_vocab()
    for place, name in enumerate(SPECIAL):
        found[place] = embeddings[vocabulary[name]]
    return numpy.asarray(found, dtype=numpy.float32)


def surface_ids(piece: str, full: BertTokenizerFast) -> list[int]:
    """Ids of the letters of `piece` in the WordPiece tokenizer `full`; those inside a word are read as such there."""
    vocabulary, unknown = full.get_vocab(), full.unk_token_id
    word = piece.removeprefix(WORD_START)
    if not piece.startswith(WORD_START) and f"##{word}" in vocabulary:
        return [vocabulary[f"##{word}"]]
    return [i for i in full.convert_tokens_to_ids(full.tokenize(word)) if i != unknown]


def _strong(links: Links, pieces: int) -> Links:
    strongest = numpy.zeros(pieces)
    numpy.maximum.at(strongest, links.foreign, links.count)
    kept = links.count >= FAINT * strongest[links.foreign]
    return Links(links.foreign[kept], links.english[kept], links.count[kept])
