"""The four MQTT topics of a plant: `v1/plants/{plantId}/{channel}`."""

from enum import StrEnum
from typing import Final, NamedTuple

__all__ = ["PREFIX", "Channel", "PlantTopic", "parse_routing_key", "parse_topic", "routing_key_pattern", "topic"]

PREFIX: Final = "v1/plants/"


class Channel(StrEnum):
    """The last part of a plant's topic."""

    TELEMETRY = "telemetry"
    STATUS = "status"
    COMMANDS = "commands"
    ACK = "ack"


class PlantTopic(NamedTuple):
    """A topic taken apart."""

    plant_id: str
    channel: Channel


def topic(plant_id: str, channel: Channel) -> str:
    """The MQTT topic of one plant's channel."""
    return f"{PREFIX}{plant_id}/{channel.value}"


def parse_topic(text: str) -> PlantTopic | None:
    """Plant id and channel of an MQTT topic, or None when it is no plant's topic. The id is not checked."""
    parts = text.split("/")
    if len(parts) != 4 or parts[0] != "v1" or parts[1] != "plants" or not parts[2]:
        return None
    try:
        return PlantTopic(parts[2], Channel(parts[3]))
    except ValueError:
        return None


def parse_routing_key(routing_key: str) -> PlantTopic | None:
    """The same for the AMQP routing key that RabbitMQ makes of an MQTT topic (`/` becomes `.`)."""
    return parse_topic(routing_key.replace(".", "/"))


def routing_key_pattern(channel: Channel) -> str:
    """The binding key that catches every plant's messages of a channel."""
    return f"v1.plants.*.{channel.value}"
