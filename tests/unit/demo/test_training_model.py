"""The model learns by its true gradient, and repeats itself bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from broker.demo.training import model
from broker.demo.training.model import Adam, Network, Text

TEXT = Path(model.__file__).with_name("opticks.txt")


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    text = Text(TEXT)
    rng = np.random.default_rng(3)
    network = Network(text.alphabet_size, rng)
    batch = text.batch(rng, 16)
    gradient = np.zeros_like(network.flat)
    network.gradient(*batch, gradient)

    direction = gradient / np.linalg.norm(gradient)
    scratch = np.zeros_like(gradient)
    start, reach = network.flat.copy(), np.float32(1e-2)
    network.flat[:] = start + reach * direction
    above = network.gradient(*batch, scratch)
    network.flat[:] = start - reach * direction
    below = network.gradient(*batch, scratch)

    slope = (above - below) / (2 * float(reach))
    assert abs(slope / float(np.linalg.norm(gradient)) - 1) < 0.01


def test_adam_takes_the_steps_of_the_paper() -> None:
    weights = np.array([1.0, -2.0], np.float32)
    adam = Adam(2)
    adam.update(weights, np.array([0.5, -4.0], np.float32), 1)
    # The first step has the learning rate as its length, whatever the gradient's.
    assert np.allclose(weights, [1.0 - model.LEARNING_RATE, -2.0 + model.LEARNING_RATE])
    assert np.allclose(adam.moments, [[0.05, -0.4], [0.00025, 0.016]])


def test_the_text_is_plain_and_windows_are_of_it() -> None:
    data = TEXT.read_bytes()
    assert data.isascii()
    text = Text(TEXT)
    alphabet = sorted(set(data))
    contexts, targets = text.batch(np.random.default_rng(1), 50)
    assert contexts.shape == (50, model.CONTEXT)
    for context, target in zip(contexts, targets, strict=True):
        window = bytes(alphabet[symbol] for symbol in [*context, target])
        assert window in data


def test_the_same_seed_gives_the_same_bits() -> None:
    def weights_after_five_steps() -> bytes:
        text, rng = Text(TEXT), np.random.default_rng(11)
        network = Network(text.alphabet_size, rng)
        adam, gradient = Adam(len(network.flat)), np.zeros_like(network.flat)
        for step in range(1, 6):
            network.gradient(*text.batch(rng, 32), gradient)
            adam.update(network.flat, gradient, step)
        return network.flat.tobytes()

    assert weights_after_five_steps() == weights_after_five_steps()
