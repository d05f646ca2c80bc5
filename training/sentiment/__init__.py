"""Fine-tune a sentiment classifier on tweets: `python -m training.sentiment --help`.

`prune` makes a small base, `train` fine-tunes any BERT or RoBERTa and leaves a folder that `marsmith build` takes,
`ablate` measures what torch.compile, bf16 and the fused optimizer gain on this machine.
"""

LABELS = ("negative", "neutral", "positive")
