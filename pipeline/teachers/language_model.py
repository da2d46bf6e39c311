"""Causal language models: how probable a text is, and what they answer to a prompt.

A text is read behind the model's start token (its end token if it has none, as GPT-2 does), so that its first token has
a probability too; the end of the text is not scored. A model without either scores from the second token on. A text is
cut to the model's positions.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from pipeline.core import runtime
from pipeline.core.batches import pad, token_batches
from pipeline.core.errors import ModelError
from pipeline.core.models import NO_CODE, from_folder, load, locate, usable_tokens
from pipeline.teachers.translator import Likelihoods


class LanguageModel:
    """A causal model in evaluation mode on the runtime's device; `truncated`: how many texts have been cut so far."""

    def __init__(self, folder: Path) -> None:
        self.device = runtime.device()
        self.model = load(AutoModelForCausalLM, folder, ("lm_head",)).to(self.device)
        with from_folder(folder):
            self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True, use_fast=True, **NO_CODE)
        if not len(self.tokenizer):
            raise ModelError(f"{folder}: holds no tokenizer.")
        starts = (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id)
        self._start = [token for token in starts if token is not None][:1]
        self.positions = usable_tokens(self.model.config, self.tokenizer)
        self.truncated = 0

    def log_likelihood(self, texts: Sequence[str], batch_tokens: int) -> Likelihoods:
        """Log probability of each text and how many of its tokens it is the sum of; a text without a token has 0, 0.

        `batch_tokens`: of a padded batch, for speed only.
        """
        rows = [self._ids(text) for text in texts]
        sums, counts = numpy.zeros(len(rows)), numpy.array([max(0, len(row) - 1) for row in rows], dtype=numpy.int64)
        scored = [row for row, count in enumerate(counts) if count]
        for places in token_batches([len(rows[row]) for row in scored], batch_tokens):
            chosen = [scored[place] for place in places]
            sums[chosen] = self._sums([rows[row] for row in chosen])
        return Likelihoods(sums, counts)

    def _ids(self, text: str) -> list[int]:
        ids = [*self._start, *self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]]
        self.truncated += len(ids) > self.positions
        return ids[: self.positions]

    @torch.inference_mode()
    def _sums(self, rows: Sequence[Sequence[int]]) -> list[float]:
        ids = pad(rows, 0).to(self.device)  # B, T
        real = pad([[1] * len(row) for row in rows], 0).to(self.device)
        logits = self.model(input_ids=ids, attention_mask=real).logits[:, :-1].float()  # B, T - 1, V
        logs = logits.log_softmax(-1).gather(2, ids[:, 1:, None])[:, :, 0].double()
        found: list[float] = (logs * real[:, 1:]).sum(1).tolist()
        return found

    @torch.inference_mode()
    def answer(self, prompt: str, max_new_tokens: int) -> tuple[str, int, int]:
        """The most probable continuation of `prompt`, step by step, and the tokens of prompt and answer.

        A model with a chat template gets the prompt as a user's message. A ModelError if the prompt leaves no room.
        """
        if self.tokenizer.chat_template:
            message = [{"role": "user", "content": prompt}]
            prompt = self.tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        ids = self.tokenizer(prompt, add_special_tokens=not self.tokenizer.chat_template, verbose=False)["input_ids"]
        room = min(max_new_tokens, self.positions - len(ids))
        if room < 1:
            raise ModelError(f"a prompt has {len(ids)} tokens, but the model only {self.positions} positions.")
        given = torch.tensor([ids], device=self.device)
        options = {"do_sample": False, "max_new_tokens": room, "pad_token_id": self.tokenizer.eos_token_id}
        made = self.model.generate(input_ids=given, attention_mask=torch.ones_like(given), **options)[0, len(ids) :]
        return str(self.tokenizer.decode(made, skip_special_tokens=True)), len(ids), len(made)


@functools.lru_cache(maxsize=2)
def load_language_model(name: str) -> LanguageModel:
    """The causal model `name` (see `pipeline.core.models`); a process loads it once."""
    return LanguageModel(locate(name))
