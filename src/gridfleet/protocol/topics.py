"""The four MQTT topics of a plant: `v1/plants/{plantId}/{channel}`."""

from enum import StrEnum
from typing import Final, NamedTuple

__all__ = ["PREFIX", "Channel", "PlantTopic", "parse_routing_key", "parse_topic", "routing_key_pattern", "topic"]

PREFIX: Final = "v1/plants/"


class Channel(StrEnum):
    """Last part of a plant's topic."""

    TELEMETRY = "telemetry"
    STATUS = "status"
    COMMANDS = "commands"
    ACK = "ack"


class PlantTopic(NamedTuple):
    """A parsed topic."""

    plant_id: str
    channel: Channel


def topic(plant_id: str, channel: Channel) -> str:
    """Return the MQTT topic of a plant's channel."""
    return f"{PREFIX}{plant_id}/{channel.value}"


def parse_topic(text: str) -> PlantTopic | None:
    """Parse an MQTT topic. Returns None if it is not a plant's topic. The plant id is not validated."""
    parts = text.split("/")
    if len(parts) != 4 or parts[0] != "v1" or parts[1] != "plants" or not parts[2]:
        return None
    try:
        return PlantTopic(parts[2], Channel(parts[3]))
    except ValueError:
        return None


def parse_routing_key(routing_key: str) -> PlantTopic | None:
    """Parse the AMQP routing key that RabbitMQ derives from an MQTT topic (`/` becomes `.`).

    Returns None if it is not a plant's topic.
    """
    return parse_topic(routing_key.replace(".", "/"))


def routing_key_pattern(channel: Channel) -> str:
    """Return the binding key that matches a channel's messages of all plants."""
    return f"v1.plants.*.{channel.value}"
