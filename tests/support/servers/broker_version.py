"""The RabbitMQ of this machine, for tests that only some versions can run."""

import pytest

from gridfleet.local.broker.installation import find_installation


def broker_version() -> tuple[int, ...]:
    """Return the major and minor version. An installation that does not name its version counts as the newest."""
    return tuple(int(part) for part in (find_installation().version or "99.0").split(".")[:2])


def needs_mqtt_5() -> pytest.MarkDecorator:
    """Skip a test where the broker knows MQTT 3.1.1 alone."""
    return pytest.mark.skipif(broker_version() < (3, 13), reason="RabbitMQ before 3.13 does not support MQTT 5")


def needs_lasting_qos_0() -> pytest.MarkDecorator:
    """Skip on brokers that keep nothing for a subscription with QoS 0 while its client is away."""
    return pytest.mark.skipif(broker_version() < (3, 12), reason="RabbitMQ before 3.12 keeps no queue of a QoS 0 subscription")
