"""The command `python -m training.sentiment`."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from training.command import run as run_app
from training.sentiment import LABELS
from training.sentiment.settings import Settings

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Fine-tune a sentiment classifier on tweets.")
console = Console(stderr=True, highlight=False, log_path=False)
DEFAULT = Settings()

Base = Annotated[str, typer.Argument(help="A transformers checkpoint: a folder or a hub id.")]
Out = Annotated[Path, typer.Argument(help="Folder of the result.")]
Train = Annotated[
    str, typer.Option(help="Training tweets: .tsv, .jsonl, .parquet or a hub data set (owner/name:config).")
]
Mend = Annotated[bool, typer.Option("--mend", help="Undo SemEval's escapes in training and validation tweets.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what a training left in OUT.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")]
Batch = Annotated[int, typer.Option(help="Tweets a batch.", min=1)]
Lr = Annotated[float, typer.Option(help="Peak learning rate.", min=0)]
MaxTokens = Annotated[int, typer.Option(help="Training tweets are cut there.", min=4)]
Dropout = Annotated[float, typer.Option(help="In attention; below 0: the base's. 0 is a quarter faster.", max=1)]
Seed = Annotated[int, typer.Option(help="Of the head, the order and the dropout.")]
Threads = Annotated[int, typer.Option(help="Intra-op threads; 0: as torch chooses.", min=0)]
Optim = Annotated[str, typer.Option(help="Any optimizer name of the Trainer.")]


@app.command()
def prune(
    base: Base,
    train: Annotated[str, typer.Argument(help="The tweets whose pieces are kept.")],
    out: Out,
    pieces: Annotated[int, typer.Option(help="Size of the pruned vocabulary.", min=1)] = 12_318,
    mend: Mend = False,
    force: Force = False,
    seed: Seed = DEFAULT.seed,
) -> None:
    """Cut a BERT's WordPiece vocabulary to what the training tweets use; OUT is a base for `train`."""
    from training.sentiment import prune as pruning
    from training.sentiment.data import read

    texts = read(train, "train", LABELS, mend=mend).texts
    kept = pruning.prune(base, texts, out, pieces, seed, force=force)
    typer.echo(f"{out}: {kept:,} pieces")


@app.command()
def train(
    base: Base,
    out: Out,
    train: Train,
    validation: Annotated[str, typer.Option(help="Tweets that choose the state to keep.")],
    test: Annotated[str, typer.Option(help="Tweets that are scored once, at the end.")],
    published: Annotated[Path | None, typer.Option(help="Another model's test labels, one a line.")] = None,
    mend: Mend = False,
    epochs: Annotated[float, typer.Option(help="Passes over the training tweets; may be a fraction.")] = DEFAULT.epochs,
    max_steps: Annotated[int, typer.Option(help="Above 0: so many steps, whatever --epochs says.", min=0)] = 0,
    batch: Batch = DEFAULT.batch,
    accumulate: Annotated[int, typer.Option(help="Batches a step.", min=1)] = DEFAULT.accumulate,
    lr: Lr = DEFAULT.lr,
    warm_up: Annotated[float, typer.Option(help="Share of all steps.", min=0, max=0.99)] = DEFAULT.warm_up,
    weight_decay: Annotated[float, typer.Option(min=0)] = DEFAULT.weight_decay,
    balance: Annotated[float, typer.Option(help="0: plain loss; 1: every class weighs the same.")] = DEFAULT.balance,
    attention_dropout: Dropout = DEFAULT.attention_dropout,
    max_tokens: MaxTokens = DEFAULT.max_tokens,
    group_by_length: Annotated[bool, typer.Option(help="Batches of tweets of similar length.")] = True,
    every: Annotated[int, typer.Option(help="Steps between evaluations; 0: every epoch.", min=0)] = DEFAULT.every,
    patience: Annotated[int, typer.Option(help="Evaluations without a gain that end it; 0: none.", min=0)] = 0,
    torch_compile: Annotated[bool, typer.Option(help="Compile the network.")] = DEFAULT.torch_compile,
    bf16: Annotated[bool, typer.Option(help="Matrix products in bf16.")] = DEFAULT.bf16,
    optim: Optim = DEFAULT.optim,
    seed: Seed = DEFAULT.seed,
    threads: Threads = DEFAULT.threads,
    store: Annotated[Literal["fp16", "fp32"], typer.Option(help="Precision of the stored weights.")] = DEFAULT.store,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last good checkpoint in OUT.")] = False,
    force: Force = False,
    keep_checkpoints: Annotated[bool, typer.Option("--keep-checkpoints", help="Leave them in OUT.")] = False,
    json: Json = None,
) -> None:
    """Fine-tune, keep the best state, store it, and score what was stored beside the baselines."""
    from training.sentiment.run import Sources, run, write_json
    from training.sentiment.show import scores, show

    sources = Sources(base, train, validation, test, str(published or ""), mend)
    settings = Settings(
        epochs=epochs,
        max_steps=max_steps,
        batch=batch,
        accumulate=accumulate,
        lr=lr,
        warm_up=warm_up,
        weight_decay=weight_decay,
        balance=balance,
        attention_dropout=attention_dropout,
        max_tokens=max_tokens,
        group_by_length=group_by_length,
        every=every,
        patience=patience,
        seed=seed,
        threads=threads,
        optim=optim,
        torch_compile=torch_compile,
        bf16=bf16,
        store=store,
    )
    result = run(sources, settings, out, console, resume=resume, force=force, keep=keep_checkpoints)
    if json:
        write_json(result, json)
    show(scores(result))
    console.print(f"{out}: model, report.html and MODEL_CARD.md", soft_wrap=True)


@app.command()
def ablate(
    base: Base,
    train: Train,
    steps: Annotated[int, typer.Option(help="Timed steps.", min=1)] = 30,
    warm_up_steps: Annotated[int, typer.Option(help="Steps before, not timed: compiling is there.", min=1)] = 10,
    rounds: Annotated[int, typer.Option(help="Runs of each variant, interleaved; figures are medians.", min=1)] = 1,
    mend: Mend = False,
    batch: Batch = DEFAULT.batch,
    lr: Lr = DEFAULT.lr,
    attention_dropout: Dropout = DEFAULT.attention_dropout,
    max_tokens: MaxTokens = DEFAULT.max_tokens,
    seed: Seed = DEFAULT.seed,
    threads: Threads = DEFAULT.threads,
    json: Json = None,
) -> None:
    """Measure what torch.compile, bf16 and the fused optimizer gain on this machine, alone and together."""
    from training.sentiment import ablate as ablation
    from training.sentiment.advice import advice
    from training.sentiment.run import write_json
    from training.sentiment.show import show, variants

    plan = ablation.Measurement(base, train, steps, warm_up_steps, rounds, mend)
    settings = Settings(
        batch=batch, lr=lr, attention_dropout=attention_dropout, max_tokens=max_tokens, seed=seed, threads=threads
    )
    result = ablation.ablate(plan, settings, console)
    result["advice"] = advice(result)
    if json:
        write_json(result, json)
    show(variants(result), *result["advice"])


if __name__ == "__main__":
    run_app(app)
