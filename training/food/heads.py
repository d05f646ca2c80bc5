"""Heads fitted by logistic regression to what a network sees: where training starts, and a baseline."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from training.food.evaluate import predict
from training.food.networks import Classifier, features_of, heads_of
from training.food.photos import Photos

HEAD_C = 1.0  # inverse regularisation of the heads that training starts with


def features(classifier: Classifier, photos: Photos, *, bf16: bool = False) -> NDArray[np.float32]:
    """Return what the first head reads, [N, C], of whole photos."""
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        found = predict(lambda pixels: features_of(classifier.model, pixels), classifier.see, photos)
    values: NDArray[np.float32] = found.numpy()
    return values


def linear_head(found: NDArray[np.float32], labels: NDArray[np.int64], c: float) -> LogisticRegression:
    """Fit multinomial logistic regression on features [N, C]; `c` is the inverse of its regularisation."""
    return LogisticRegression(C=c, max_iter=2000).fit(found, labels)


def start_heads(classifier: Classifier, photos: Photos, *, bf16: bool = False) -> None:
    """Fit all heads on what the network sees now, before any fine-tuning (Kumar et al., ICLR 2022).

    A label without photos keeps the weights it has. With two classes, the fit's one row is spread over both.
    """
    fitted = linear_head(features(classifier, photos, bf16=bf16), photos.labels.numpy(), HEAD_C)
    weight, bias = torch.from_numpy(fitted.coef_).float(), torch.from_numpy(fitted.intercept_).float()
    if len(weight) == 1:
        weight, bias = torch.cat([-weight, weight]) / 2, torch.cat([-bias, bias]) / 2
    rows = torch.from_numpy(fitted.classes_)
    for head in heads_of(classifier.model).values():
        if head.in_features == weight.shape[1]:
            head.weight.data[rows] = weight
            head.bias.data[rows] = bias
