"""The original BLEURT's two tokenizers, WordPiece and SentencePiece, as transformers' tokenizers.

WordPiece is that of BERT (Devlin et al. 2019), with words of up to 200 characters where transformers allows 100. Its
rules for characters are Python's, as in the original; transformers' own classes follow older tables: they remove
private characters, know fewer marks and signs, miss a part of the Chinese characters and end no Greek word in a final
sigma. Against the original's rules all characters of Unicode 14 agree but two (U+1171E, U+11938).

SentencePiece is the library itself: its pieces are looked up one by one, and [CLS] and [SEP] are among them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from sentencepiece import SentencePieceProcessor
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece
from transformers import BatchEncoding, PreTrainedTokenizer, PreTrainedTokenizerFast

from pipeline.core.errors import ModelError

LONGEST_WORD = 200
"""Characters of a word; a longer one is unknown."""

CLS, SEP, MASK, PAD, UNKNOWN = "[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]"

MODEL_INPUTS = ("input_ids", "token_type_ids", "attention_mask")

REMOVED = r"[\x{0}\x{FFFD}\p{Cf}[\p{Cc}&&[^\t\n\r]]]"
PUNCTUATION = r"[\p{P}\x21-\x2F\x3A-\x40\x5B-\x60\x7B-\x7E]"
CHINESE = (
    r"[\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FAFF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}"
    r"\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}\x{2F800}-\x{2FA1F}]"
)
FINAL_SIGMA = r"(?<=\p{Cased}|\p{Cased}\p{Case_Ignorable})Σ(?!\p{Case_Ignorable}*\p{Cased})"

WORD_START = "\u2581"
"""What SentencePiece writes for the space before a word."""


def word_pieces(file: Path, lower_case: bool | None, longest: int, **settings: str) -> PreTrainedTokenizerFast:
    """WordPiece with the pieces of `file`, one a line; `longest`: tokens that the model reads.

    `lower_case`: None if nothing says it; then a vocabulary without capital letters is one of lower case. `settings`
    are saved with it. A file that lacks a special token, or is no text, is a ModelError.
    """
    ids: dict[str, int] = {}
    try:
        for line in file.read_text(encoding="utf-8").removesuffix("\n").split("\n"):
            ids.setdefault(line.strip(), len(ids))
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{file}: is not text in UTF-8.") from error
    lost = [token for token in (CLS, SEP, UNKNOWN) if token not in ids]
    if lost:
        raise ModelError(f"{file}: lacks {lost[0]}.")
    if lower_case is None:
        lower_case = not any(piece != piece.lower() for piece in ids if not piece.startswith("["))
    tokenizer = Tokenizer(WordPiece(ids, unk_token=UNKNOWN, max_input_chars_per_word=LONGEST_WORD))
    steps: list[normalizers.Normalizer] = [normalizers.Replace(Regex(REMOVED), "")]
    if lower_case:
        steps += [normalizers.Replace(Regex(FINAL_SIGMA), "ς"), normalizers.Lowercase()]
        steps += [normalizers.NFD(), normalizers.Replace(Regex(r"\p{Mn}"), "")]
    tokenizer.normalizer = normalizers.Sequence(steps)
    apart = [pre_tokenizers.Split(Regex(characters), "isolated") for characters in (CHINESE, PUNCTUATION)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), *apart])
    tokenizer.post_processor = processors.BertProcessing((SEP, ids[SEP]), (CLS, ids[CLS]))
    return _named(tokenizer, longest, settings)


def saved_pieces(file: Path, longest: int, **settings: str) -> PreTrainedTokenizerFast:
    """The tokenizer that others saved as `file`, a tokenizer.json, with BERT's special tokens."""
    return _named(Tokenizer.from_file(str(file)), longest, settings)


def _named(tokenizer: Tokenizer, longest: int, settings: dict[str, str]) -> PreTrainedTokenizerFast:
    """`tokenizer` with the names of its special tokens; in a text their names are nothing special."""
    names = {"unk_token": UNKNOWN, "cls_token": CLS, "sep_token": SEP, "pad_token": PAD, "mask_token": MASK}
    known = {name: token for name, token in names.items() if tokenizer.token_to_id(token) is not None}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=longest,
        model_input_names=list(MODEL_INPUTS),
        split_special_tokens=True,
        **known,
        **settings,
    )


def sentence_pieces(file: Path, longest: int, **settings: str) -> "SentencePieces":
    """SentencePiece with the model in `file`; a ModelError if it is none, or lacks [CLS] or [SEP]."""
    try:
        tokenizer = SentencePieces(str(file), model_max_length=longest, **settings)
    except (OSError, RuntimeError) as error:
        raise ModelError(f"{file}: is no SentencePiece model.") from error
    if tokenizer.cls_token is None or tokenizer.sep_token is None:
        raise ModelError(f"{file}: lacks the piece {CLS} or {SEP}.")
    return tokenizer


@dataclass(frozen=True)
class Pieces:
    """A pair, or one text, in tokens, with the methods of a fast tokenizer's encoding that callers use.

    `sequence_ids`: 0 for the reference, 1 for the candidate, None for a special token. `word_ids`: number of the word.
    `offsets`: first and last character, exclusive.
    """

    ids: list[int]
    tokens: list[str]
    sequence_ids: list[int | None]
    word_ids: list[int | None]
    offsets: list[tuple[int, int]]


class SentencePieces(PreTrainedTokenizer):  # type: ignore[misc]
    """SentencePiece with the model in `vocab_file`; `__call__` makes pairs [CLS] reference [SEP] candidate [SEP].

    Texts are never cut or padded here; `pipeline.metric.pairs` does both.
    """

    vocab_files_names: ClassVar[dict[str, str]] = {"vocab_file": "sent_piece.model"}
    model_input_names = MODEL_INPUTS

    def __init__(self, vocab_file: str, **settings: Any) -> None:
        self.vocab_file = str(vocab_file)
        self.pieces = SentencePieceProcessor(model_file=self.vocab_file)
        settings.setdefault("unk_token", self.pieces.id_to_piece(self.pieces.unk_id()))
        settings.setdefault("pad_token", self.pieces.id_to_piece(max(self.pieces.pad_id(), 0)))
        for name, token in (("cls_token", CLS), ("sep_token", SEP), ("mask_token", MASK)):
            if self.pieces.piece_to_id(token) != self.pieces.unk_id():
                settings.setdefault(name, token)
        super().__init__(**settings)

    @property
    def vocab_size(self) -> int:
        """Number of pieces."""
        return int(self.pieces.get_piece_size())

    def get_vocab(self) -> dict[str, int]:
        """Piece -> id."""
        return {self.pieces.id_to_piece(number): number for number in range(self.vocab_size)}

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """[CLS], and [SEP] after each text."""
        return 3 if pair else 2

    def __call__(self, text: Any, text_pair: Any = None, **options: Any) -> BatchEncoding:
        """A text or a list of texts, perhaps with a second each, in ids; `options` say what else is returned."""
        assert not options.get("padding") and not options.get("truncation"), "SentencePieces neither pads nor cuts"
        single, sides = isinstance(text, str), 1 if text_pair is None else 2
        seconds = [None] * (1 if single else len(text)) if text_pair is None else [text_pair] if single else text_pair
        exact = bool(options.get("return_offsets_mapping"))
        rows = [self._row(*pair, exact) for pair in zip([text] if single else text, seconds, strict=True)]
        columns: dict[str, list[Any]] = {"input_ids": [row.ids for row in rows]}
        columns["token_type_ids"] = [_types(row.sequence_ids) for row in rows]
        if options.get("return_attention_mask") is not False:
            columns["attention_mask"] = [[1] * len(row.ids) for row in rows]
        if exact:
            columns["offset_mapping"] = [row.offsets for row in rows]
        data = {name: column[0] for name, column in columns.items()} if single else columns
        return BatchEncoding(data, encoding=rows, tensor_type=options.get("return_tensors"), n_sequences=sides)

    def _row(self, first: str, second: str | None, exact: bool) -> Pieces:
        cls, sep = self.cls_token_id, self.sep_token_id
        row = Pieces([cls], [self.cls_token], [None], [None], [(0, 0)])
        for side, text in enumerate([first] if second is None else [first, second]):
            tokens = self.pieces.encode(text, out_type=str)
            row.ids.extend(self.pieces.piece_to_id(token) for token in tokens)
            row.tokens.extend(tokens)
            row.sequence_ids.extend([side] * len(tokens))
            row.word_ids.extend(_words(tokens))
            row.offsets.extend(self._offsets(text) if exact else [(0, 0)] * len(tokens))
            row.ids.append(sep)
            row.tokens.append(self.sep_token)
            row.sequence_ids.append(None)
            row.word_ids.append(None)
            row.offsets.append((0, 0))
        return row

    def _offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each piece stands in `text`, without the space before it."""
        found = []
        for start, end in self.pieces.EncodeAsOffsetMapping(text)["offsets"]:
            surface = text[start:end]
            found.append((end - len(surface.lstrip()), end))
        return found

    def _tokenize(self, text: str, **_: Any) -> list[str]:
        tokens: list[str] = self.pieces.encode(text, out_type=str)
        return tokens

    def _convert_token_to_id(self, token: str) -> int:
        return int(self.pieces.piece_to_id(token))

    def _convert_id_to_token(self, index: int) -> str:
        return str(self.pieces.id_to_piece(index))

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str]:
        """Write the model, as it was read, into `save_directory`."""
        file = Path(save_directory) / ((f"{filename_prefix}-" if filename_prefix else "") + "sent_piece.model")
        file.write_bytes(self.pieces.serialized_model_proto())
        return (str(file),)


def _types(sides: Sequence[int | None]) -> list[int]:
    """Segment types: 0 up to the first [SEP], 1 behind it."""
    found, current = [], 0
    for place, side in enumerate(sides):
        found.append(current)
        if side is None and place > 0:
            current = 1
    return found


def _words(tokens: Sequence[str]) -> list[int]:
    """The number of the word that each piece belongs to; a piece that begins with a space begins a word."""
    numbers, number = [], -1
    for token in tokens:
        if token.startswith(WORD_START) or number < 0:
            number += 1
        numbers.append(number)
    return numbers
