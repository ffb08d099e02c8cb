"""What the `broker` fixture gives."""

from dataclasses import dataclass

from gridfleet.kernel.security.certificates import Authority
from gridfleet.kernel.settings import Settings


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A running node. Its questions go to `settings.internal_port`, where nothing listens unless the test does."""

    settings: Settings
    authority: Authority
    url: str
    management_url: str
