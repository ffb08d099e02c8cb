"""Bounds the alerts of an organisation: ingest raises them while the messages of all plants wait."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

import structlog

from gridfleet.domains.alerts.matches import Hit
from gridfleet.domains.alerts.models import AlertRule, Severity
from gridfleet.domains.alerts.rules import store as rules
from gridfleet.domains.notifications.models import LESS_SEVERE, rank
from gridfleet.kernel.db import Connection
from gridfleet.kernel.hourly import HourlyAmounts

__all__ = ["MOST_AN_HOUR", "MOST_AT_ONCE", "count_raised", "rules_with_room"]

log = structlog.get_logger(__name__)

MOST_AT_ONCE: Final = 1_000
"""The most alerts of an organisation in one transaction."""

MOST_AN_HOUR: Final = 100_000
"""The most alerts of an organisation in an hour, in each process.

INFO and WARNING have half of it, so that they do not use up the hour of the more severe.
"""

_raised_in_hour: Final = HourlyAmounts[UUID]()


async def rules_with_room(db: Connection, candidates: Mapping[UUID, Hit]) -> list[UUID]:
    """Return the rules whose organisation has room for an alert. Of too many, the most severe whose cooldown is over.

    A rule that is left out is not changed: it raises its alert with a later batch while its condition holds.
    """
    by_organization: dict[UUID, list[AlertRule]] = defaultdict(list)
    for hit in candidates.values():
        by_organization[hit.watch.rule.organization_id].append(hit.watch.rule)
    found: list[UUID] = []
    crowded: dict[UUID, AlertRule] = {}
    left_out: Counter[UUID] = Counter()
    for organization_id, own in by_organization.items():
        rooms = {severity: _room(organization_id, severity) for severity in Severity}
        if len(own) <= min(rooms.values()):
            found += [rule.id for rule in own]
            continue
        waiting = {rule.id: rule for rule in own if rooms[rule.severity] > 0}
        left_out[organization_id] = len(own) - len(waiting)
        crowded |= waiting
    if crowded:
        # Those in their cooldown raise nothing: they must not take the room of the others.
        ready = [crowded[rule_id] for rule_id in await rules.without_cooldown(db, crowded)]
        taken: Counter[UUID] = Counter()
        for rule in sorted(ready, key=lambda rule: rank(rule.severity), reverse=True):
            if taken[rule.organization_id] < _room(rule.organization_id, rule.severity):
                taken[rule.organization_id] += 1
                found.append(rule.id)
            else:
                left_out[rule.organization_id] += 1
    for organization_id, count in left_out.items():
        if count:
            log.warning("too many alerts", organization_id=str(organization_id), left_out=count)
    return found


def count_raised(db: Connection, organization_ids: Iterable[UUID]) -> None:
    """Count raised alerts in the hour if the transaction commits: `organization_ids` has one id for each alert."""
    for organization_id, count in Counter(organization_ids).items():
        _raised_in_hour.add_after_commit(db, organization_id, count)


def _room(organization_id: UUID, severity: Severity) -> int:
    """Return how many alerts of a severity the organisation may raise in a transaction that begins now."""
    most = MOST_AN_HOUR // (2 if severity in LESS_SEVERE else 1)
    return min(MOST_AT_ONCE, most - _raised_in_hour.of(organization_id))
