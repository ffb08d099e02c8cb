"""A minute of mutated messages for every decoder, and what each took at most."""

import itertools
import os
import time

import pytest

from support.builders.decoders import DECODERS, attack
from support.figures import Figure

SECONDS = 60.0
LONGEST_SECONDS = 1.0


@pytest.mark.faults
def test_a_minute_of_mutants(figure: Figure) -> None:
    first = int.from_bytes(os.urandom(6), "big")
    slowest = dict.fromkeys(DECODERS, 0.0)
    end = time.monotonic() + SECONDS
    for seed in itertools.count(first):
        for name in DECODERS:
            started = time.process_time()
            attack(name, [seed])
            slowest[name] = max(slowest[name], time.process_time() - started)
        if time.monotonic() > end:
            break
    print(f"from seed {first} to {seed}")
    longest = max(slowest.values())
    figure("a mutated message is decoded, the slowest", longest * 1000, "ms", LONGEST_SECONDS * 1000)
    assert longest < LONGEST_SECONDS
