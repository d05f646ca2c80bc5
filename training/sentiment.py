"""Fine-tune a small BERT on tweets: negative, neutral or positive. `python -m training.sentiment --help`.

The base's vocabulary is pruned to the pieces that the training tweets use, all its layers are kept, and the
checkpoint is stored as fp16 safetensors, so that it is small enough to live in git. The state with the best
macro recall on the validation tweets wins; the test tweets are scored once, from the files as saved.
"""

from __future__ import annotations

import copy
import functools
import itertools
import json
import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress
from tokenizers import Tokenizer
from transformers import BertConfig, BertForSequenceClassification

from handlers.text import normalise_tweet
from training.metrics import Int64Array, Scores, table
from training.vocabulary import choose_pieces, count_pieces, prune_tokenizer

LABELS = ("negative", "neutral", "positive")
MAX_TOKENS = 512  # what the model takes, special tokens included
TRAIN_TOKENS = 96  # what training truncates to; no SemEval tweet is longer
TOKENS_PER_SCORED_BATCH = 4096  # bounds memory, not results
BUCKET = 64  # batches that are sorted by length together
WARMUP, WEIGHT_DECAY, GRADIENT_NORM = 0.06, 0.01, 1.0  # share of all steps; as in Devlin et al. 2019; clip
VADER_NEUTRAL = 0.05  # the thresholds that its authors advise
SPECIAL = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}

console = Console(stderr=True)


@dataclass(frozen=True, slots=True)
class Tweets:
    """N token-id lists with special tokens, and their labels int64[N]."""

    ids: list[list[int]]
    labels: Int64Array


@dataclass(frozen=True, slots=True)
class Plan:
    """How to train; `balance` is the power of the inverse class share that weighs a class in the loss."""

    epochs: float
    batch: int
    lr: float
    balance: float
    seed: int

    def steps(self, tweets: int) -> int:
        """Optimiser steps over so many tweets."""
        return max(1, round(self.epochs * math.ceil(tweets / self.batch)))


def read(path: Path, *, mend: bool) -> tuple[list[str], Int64Array]:
    """Texts as the handler would normalise them, and labels int64[N], from `label<TAB>text` lines.

    `mend` undoes what the SemEval files did to their tweets; off where published figures are compared.
    """
    rows = [line.split("\t", 1) for line in path.read_text("utf-8").split("\n") if line]
    texts = [normalise_tweet(mended(text) if mend else text) for _, text in rows]
    return texts, np.array([int(label) for label, _ in rows], np.int64)


def mended(text: str) -> str:
    r"""Undo \u2019 escapes, &amp; and the CSV quoting (`"\""so\"" he said"`) that SemEval's files carry."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    text = re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), text)
    text = re.sub(r'\\+"+|"{2,}', '"', text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def encode(tokenizer: Tokenizer, texts: Sequence[str], labels: Int64Array, max_tokens: int) -> Tweets:
    """Tokenise, cutting at `max_tokens`."""
    tokenizer.enable_truncation(max_tokens)
    encodings = tokenizer.encode_batch(list(texts))
    tokenizer.no_truncation()
    return Tweets([encoding.ids for encoding in encodings], labels)


def start(base: Path, tokenizer: Tokenizer, pieces: Sequence[str]) -> BertForSequenceClassification:
    """Return the base network with a new head and only the embedding rows of `pieces`."""
    config = BertConfig.from_pretrained(base, id2label=dict(enumerate(LABELS)), num_labels=len(LABELS))
    config.label2id = {label: index for index, label in enumerate(LABELS)}
    config.problem_type = "single_label_classification"
    config.attention_probs_dropout_prob = 0.0  # with dropout, attention has no fused kernel: a quarter slower
    model = BertForSequenceClassification.from_pretrained(base, config=config, dtype=torch.float32)
    rows = torch.tensor([tokenizer.token_to_id(piece) for piece in pieces])
    old = model.get_input_embeddings().weight.detach()
    pad = pieces.index(SPECIAL["pad_token"])
    model.set_input_embeddings(torch.nn.Embedding(len(pieces), old.shape[1], pad, _weight=old[rows]))
    model.config.vocab_size, model.config.pad_token_id = len(pieces), pad
    return model


def padded(ids: Sequence[list[int]]) -> dict[str, torch.Tensor]:
    """Network inputs int64[B, T], padded at the end with id 0 ([PAD] of every BERT) to the longest."""
    width = max(map(len, ids))
    return {
        "input_ids": torch.tensor([tokens + [0] * (width - len(tokens)) for tokens in ids]),
        "attention_mask": torch.tensor([[1] * len(tokens) + [0] * (width - len(tokens)) for tokens in ids]),
    }


def training_batches(lengths: Sequence[int], size: int, dice: random.Random) -> Iterator[list[int]]:
    """Yield one epoch of index lists: every index once, in batches of similar length, in random order."""
    order = list(range(len(lengths)))
    dice.shuffle(order)
    span = size * BUCKET
    pools = [sorted(order[at : at + span], key=lengths.__getitem__) for at in range(0, len(order), span)]
    batches = [pool[at : at + size] for pool in pools for at in range(0, len(pool), size)]
    dice.shuffle(batches)
    yield from batches


@torch.inference_mode()
def predict(model: BertForSequenceClassification, tweets: Tweets) -> Int64Array:
    """Return the likeliest label of each tweet, int64[N]."""
    model.eval()
    guesses = np.zeros(len(tweets.ids), np.int64)
    order = sorted(range(len(tweets.ids)), key=lambda index: len(tweets.ids[index]))
    while order:
        size = max(1, TOKENS_PER_SCORED_BATCH // len(tweets.ids[order[-1]]))
        order, batch = order[:-size], order[-size:]
        logits = model(**padded([tweets.ids[index] for index in batch])).logits
        guesses[batch] = logits.argmax(dim=-1).numpy()
    return guesses


def save(model: BertForSequenceClassification, tokenizer: Tokenizer, out: Path) -> None:
    """Write config.json, model.safetensors (fp16), tokenizer.json and tokenizer_config.json."""
    copy.deepcopy(model).half().save_pretrained(out)
    tokenizer.save(str(out / "tokenizer.json"), pretty=False)
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": MAX_TOKENS}
    text = json.dumps(settings | SPECIAL, indent=2) + "\n"
    (out / "tokenizer_config.json").write_text(text, "utf-8")


def fit(model: BertForSequenceClassification, tweets: Tweets, plan: Plan) -> Iterator[float]:
    """Train in place; yields the loss of each step once the step is taken."""
    dice = random.Random(plan.seed)  # noqa: S311 - an order to train in, not a secret
    lengths, steps = [len(ids) for ids in tweets.ids], plan.steps(len(tweets.ids))
    epochs = (training_batches(lengths, plan.batch, dice) for _ in itertools.count())
    parameters = list(model.parameters())
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0},  # biases and layer norms
    ]
    optimiser = torch.optim.AdamW(groups, lr=plan.lr, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, functools.partial(ramp, steps=steps))
    shares = np.bincount(tweets.labels, minlength=len(LABELS)) / len(tweets.labels) * len(LABELS)
    weights = torch.tensor(shares**-plan.balance, dtype=torch.float32)
    for batch in itertools.islice(itertools.chain.from_iterable(epochs), steps):
        model.train()
        logits = model(**padded([tweets.ids[index] for index in batch])).logits
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(tweets.labels[batch]), weights)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, GRADIENT_NORM)
        optimiser.step()
        schedule.step()
        yield loss.item()


def ramp(step: int, steps: int) -> float:
    """Share of the peak learning rate: linear warm-up, then linear decay to 0."""
    warmup = max(1, round(WARMUP * steps))
    return min((step + 1) / warmup, (steps - step) / max(1, steps - warmup))


def vader(texts: Sequence[str]) -> Int64Array:
    """Labels of the VADER lexicon (Hutto and Gilbert 2014), compound score within +-0.05 being neutral."""
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    analyser = SentimentIntensityAnalyzer()
    compound = np.array([analyser.polarity_scores(text)["compound"] for text in texts])
    return 1 + (compound >= VADER_NEUTRAL).astype(np.int64) - (compound <= -VADER_NEUTRAL)


def main(
    base: Annotated[Path, typer.Option(help="Folder of the base BERT: safetensors and tokenizer.json.")],
    train: Annotated[Path, typer.Option(help="Training tweets, label<TAB>text.")],
    val: Annotated[Path, typer.Option(help="Tweets that choose the best state.")],
    test: Annotated[Path, typer.Option(help="Tweets scored once, at the end.")],
    out: Annotated[Path, typer.Option(help="Folder of the checkpoint.")],
    published: Annotated[Path | None, typer.Option(help="Another model's test labels, one a line.")] = None,
    pieces: Annotated[int, typer.Option(help="Size of the pruned vocabulary.")] = 12_318,
    epochs: Annotated[float, typer.Option(help="Passes over the training tweets; may be a fraction.")] = 1.7,
    batch: Annotated[int, typer.Option(help="Tweets a step.")] = 32,
    lr: Annotated[float, typer.Option(help="Peak learning rate.")] = 1e-4,
    balance: Annotated[float, typer.Option(help="0: plain loss; 1: every class weighs the same.")] = 1.0,
    every: Annotated[int, typer.Option(help="Steps from one validation to the next.")] = 300,
    threads: Annotated[int, typer.Option(help="Intra-op threads.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the head, the order and the dropout.")] = 20,
) -> None:
    """Prune, fine-tune, keep the best, save as fp16, and score what was saved beside the baselines."""
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    texts, labels = read(train, mend=True)
    full = Tokenizer.from_file(str(base / "tokenizer.json"))
    kept = choose_pieces(full, count_pieces(full, texts), pieces)
    model, tokenizer = start(base, full, kept), prune_tokenizer(full, kept)
    tweets = encode(tokenizer, texts, labels, TRAIN_TOKENS)
    held_out = encode(tokenizer, *read(val, mend=True), MAX_TOKENS)
    plan, best = Plan(epochs, batch, lr, balance, seed), 0.0
    steps = plan.steps(len(texts))
    with Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=console) as progress:
        task = progress.add_task("fine-tune", total=steps)
        for step, loss in enumerate(fit(model, tweets, plan), start=1):
            progress.update(task, advance=1, description=f"loss {loss:.3f}")
            if step % every and step != steps:
                continue
            scores = Scores.of(held_out.labels, predict(model, held_out), len(LABELS))
            console.log(f"step {step}/{steps} loss {loss:.3f} macro recall {scores.macro_recall:.4f}")
            if scores.macro_recall > best:
                best = scores.macro_recall
                save(model, tokenizer, out)
    saved = BertForSequenceClassification.from_pretrained(out, dtype=torch.float32)
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    validation = table(held_out.labels, {"this model": predict(saved, held_out)}, LABELS)
    texts, labels = read(test, mend=False)
    rows = {"majority class": np.full(len(labels), np.bincount(labels).argmax()), "VADER": vader(texts)}
    if published is not None:
        rows["published"] = np.loadtxt(published, np.int64)
    rows["this model"] = predict(saved, encode(tokenizer, texts, labels, MAX_TOKENS))
    typer.echo(f"validation, as saved\n\n{validation}\n\ntest, as saved\n\n{table(labels, rows, LABELS)}")


if __name__ == "__main__":
    typer.run(main)
