"""The RabbitMQ of this machine, for tests that only some versions can run."""

import pytest

from gridfleet.local.broker.installation import find_installation


def broker_version() -> tuple[int, ...]:
    """Return the major and minor version. An installation that does not name its version counts as the newest."""
    return tuple(int(part) for part in (find_installation().version or "99.0").split(".")[:2])


def needs_mqtt_5() -> pytest.MarkDecorator:
    """Skip a test where the broker knows MQTT 3.1.1 alone."""
    return pytest.mark.skipif(broker_version() < (3, 13), reason="RabbitMQ before 3.13 does not support MQTT 5")
