"""A minute of mutated messages for every decoder, and what each took at most."""

import itertools
import os
import time

import pytest

from support.builders.decoders import DECODERS, attack

SECONDS = 60.0
LONGEST_SECONDS = 1.0


@pytest.mark.faults
def test_a_minute_of_mutants(capsys: pytest.CaptureFixture[str]) -> None:
    first = int.from_bytes(os.urandom(6), "big")
    slowest = dict.fromkeys(DECODERS, 0.0)
    counts = dict.fromkeys(DECODERS, 0)
    end = time.monotonic() + SECONDS
    for seed in itertools.count(first):
        for name in DECODERS:
            started = time.process_time()
            attack(name, [seed])
            slowest[name] = max(slowest[name], time.process_time() - started)
            counts[name] += 1
        if time.monotonic() > end:
            break
    with capsys.disabled():
        print(f"\nfrom seed {first}:")
        for name in DECODERS:
            print(f"  {name:24} {counts[name]:8,} mutants, the slowest {slowest[name] * 1000:7.1f} ms")
    assert max(slowest.values()) < LONGEST_SECONDS
