"""Topics and the routing keys that RabbitMQ makes of them."""

from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.protocol.topics import Channel, PlantTopic, parse_routing_key, parse_topic, routing_key_pattern, topic


@pytest.mark.parametrize("channel", list(Channel))
def test_a_topic_and_its_routing_key_come_apart_again(channel: Channel) -> None:
    plant_id = str(uuid4())
    text = topic(plant_id, channel)

    assert text == f"v1/plants/{plant_id}/{channel}"
    assert parse_topic(text) == PlantTopic(plant_id, channel)
    assert parse_routing_key(text.replace("/", ".")) == PlantTopic(plant_id, channel)
    assert routing_key_pattern(channel) == f"v1.plants.*.{channel}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v1/plants",
        "v1/plants//telemetry",
        "v2/plants/a/telemetry",
        "v1/plants/a/other",
        "v1/plants/a/b/telemetry",
        "/v1/plants/a/ack",
    ],
)
def test_other_topics_are_none(text: str) -> None:
    assert parse_topic(text) is None


@given(st.text())
def test_no_text_raises(text: str) -> None:
    parsed = parse_topic(text)
    assert parsed is None or topic(*parsed) == text
