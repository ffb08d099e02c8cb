"""Whatever arrives, decoders answer with their own errors and nothing else. `make faults` asks for a minute."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders.decoders import DECODERS, attack


@pytest.mark.parametrize("name", DECODERS)
def test_mutants_are_answered(name: str) -> None:
    attack(name, range(400))


@settings(max_examples=60)
@given(name=st.sampled_from(sorted(DECODERS)), seed=st.integers(min_value=0, max_value=2**64))
def test_other_mutants_each_time(name: str, seed: int) -> None:
    attack(name, [seed])
