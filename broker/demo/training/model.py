"""The model that the demo trains: its network, its optimizer, and the text it learns from.

The network guesses the next character from the `CONTEXT` characters before it. The rule it keeps:
the same inputs give the same bits, so nothing here draws a random number that it was not handed.
Read `Network.gradient` first.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Indices = npt.NDArray[np.int64]

CONTEXT = 16
EMBEDDING = 12
HIDDEN = 160
LEARNING_RATE = 2e-3


class Network:
    """Embedding, one hidden layer, softmax; all weights are views into one flat vector."""

    def __init__(self, symbols: int, rng: np.random.Generator) -> None:
        shapes = (
            (symbols, EMBEDDING),
            (CONTEXT * EMBEDDING, HIDDEN),
            (HIDDEN,),
            (HIDDEN, symbols),
            (symbols,),
        )
        self.sizes = [int(np.prod(shape)) for shape in shapes]
        self.shapes = shapes
        self.flat = np.zeros(sum(self.sizes), np.float32)
        for view in self.views(self.flat):
            if view.ndim == 2:
                scale = np.float32(1.0 / np.sqrt(view.shape[0]))
                view[:] = rng.standard_normal(view.shape, np.float32) * scale

    def views(self, flat: Floats) -> list[Floats]:
        """The weights' shapes over `flat`, which shares its memory with them."""
        ends = np.cumsum(self.sizes)
        return [
            flat[end - size : end].reshape(shape)
            for end, size, shape in zip(ends, self.sizes, self.shapes, strict=True)
        ]

    def gradient(self, contexts: Indices, targets: Indices, out: Floats) -> float:
        """Write the gradient of the mean cross entropy into `out`; return that mean, in nats."""
        embedding, hidden_w, hidden_b, out_w, out_b = self.views(self.flat)
        d_embedding, d_hidden_w, d_hidden_b, d_out_w, d_out_b = self.views(out)
        batch = len(targets)
        rows = np.arange(batch)

        inputs = embedding[contexts].reshape(batch, -1)
        hidden = np.tanh(inputs @ hidden_w + hidden_b)
        logits = hidden @ out_w + out_b
        logits -= logits.max(axis=1, keepdims=True)
        chances = np.exp(logits)
        chances /= chances.sum(axis=1, keepdims=True)
        loss = float(-np.log(chances[rows, targets]).mean())

        chances[rows, targets] -= 1.0
        chances /= np.float32(batch)
        np.matmul(hidden.T, chances, out=d_out_w)
        d_out_b[:] = chances.sum(axis=0)
        d_hidden = (chances @ out_w.T) * (1.0 - hidden * hidden)
        np.matmul(inputs.T, d_hidden, out=d_hidden_w)
        d_hidden_b[:] = d_hidden.sum(axis=0)
        d_inputs = (d_hidden @ hidden_w.T).reshape(batch, CONTEXT, EMBEDDING)
        d_embedding[:] = 0.0
        np.add.at(d_embedding, contexts, d_inputs)
        return loss


class Adam:
    """Kingma and Ba, 2015, algorithm 1; `moments` is what a checkpoint must hold."""

    def __init__(self, size: int) -> None:
        self.moments = np.zeros((2, size), np.float32)

    def update(self, weights: Floats, gradient: Floats, step: int) -> None:
        """Take step number `step`, which counts from 1, in place."""
        first, second = self.moments
        first += np.float32(0.1) * (gradient - first)
        second += np.float32(0.001) * (gradient * gradient - second)
        unbiased = first / np.float32(1.0 - 0.9**step)
        spread = np.sqrt(second / np.float32(1.0 - 0.999**step))
        weights -= np.float32(LEARNING_RATE) * unbiased / (spread + np.float32(1e-8))


class Text:
    """The training text as symbols, and windows of it."""

    def __init__(self, path: Path) -> None:
        data = np.frombuffer(path.read_bytes(), np.uint8)
        alphabet, symbols = np.unique(data, return_inverse=True)
        self.symbols: Indices = symbols.astype(np.int64)
        self.alphabet_size = len(alphabet)

    def batch(self, rng: np.random.Generator, size: int) -> tuple[Indices, Indices]:
        """`size` contexts and the symbols that follow them, drawn from `rng`."""
        starts = rng.integers(0, len(self.symbols) - CONTEXT, size)
        windows = self.symbols[starts[:, None] + np.arange(CONTEXT + 1)]
        return windows[:, :CONTEXT], windows[:, CONTEXT]
