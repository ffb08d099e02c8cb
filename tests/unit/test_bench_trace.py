"""A followed message has the stages of its batch."""

import pytest
from bench.freshness import Probe
from bench.stack import BenchFailed
from bench.trace import STAGES, follow
from bench.traced_ingest import TracedBatch, key_of

BODY = b'{"v":1}'


def test_the_stages_of_a_message_add_up_to_its_latency() -> None:
    probe = Probe(BODY, due=9.0, published=10.0, found=17.5)
    batch = TracedBatch({key_of(BODY): 11.0, "other": 11.5}, 12.0, 13.0, 14.0, 15.0, 16.0, 16.5)

    [followed] = follow([probe], [batch])

    assert len(followed.stages) == len(STAGES)
    assert followed.stages == [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.5]
    assert followed.total == pytest.approx(7.5)
    assert followed.delay == 1.0
    assert followed.batch_messages == 2


def test_a_message_without_a_batch_ends_the_trace() -> None:
    with pytest.raises(BenchFailed, match="in no traced batch"):
        follow([Probe(BODY, 0.0, 0.0, 0.0)], [])
