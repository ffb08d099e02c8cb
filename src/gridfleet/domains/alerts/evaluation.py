"""Turn the findings of a batch into alerts and notifications, in the batch's own transaction.

All state that must survive a restart is in the database: a batch that is rolled back and processed again has the same result,
and another process that takes over a plant continues from that state.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final
from uuid import UUID

import structlog

from gridfleet.domains.alerts import store
from gridfleet.domains.alerts.bounds import count_raised, rules_with_room
from gridfleet.domains.alerts.conditions import Point, Progress, RuleState, advance
from gridfleet.domains.alerts.matches import MOST_STATES, Findings, Hit, Run, RunKey, Watch
from gridfleet.domains.alerts.messages import alert_message
from gridfleet.domains.alerts.models import Severity
from gridfleet.domains.alerts.publishing import publish_changes
from gridfleet.domains.alerts.rules import store as rules
from gridfleet.domains.alerts.states import store as states
from gridfleet.domains.notifications.models import rank
from gridfleet.domains.notifications.queue import Notification, NotificationContent, notify_each
from gridfleet.domains.telemetry.frames.models import microseconds, to_datetime
from gridfleet.kernel.cause import current_cause
from gridfleet.kernel.db import Connection, after_commit
from gridfleet.kernel.ids import new_id

__all__ = ["note_newest", "raise_alerts"]

log = structlog.get_logger(__name__)

_VALUES_AT_ONCE: Final = 20_000

RequestIdOf = Callable[[int, int], str | None]
"""Return the request id of the message that reported a source's values of a time."""


async def note_newest(db: Connection, findings: Findings) -> None:
    """Read the time of the newest earlier value of each metric whose condition may begin to hold.

    Call this before the batch's values are written.
    """
    metrics = {(run.watch.source_id, run.watch.name) for run in findings.runs if run.watch.rule.for_seconds}
    if metrics:
        newest = await store.newest_times(db, metrics)
        findings.newest = {metric: microseconds(moment) for metric, moment in newest.items()}


async def raise_alerts(db: Connection, findings: Findings, request_id_of: RequestIdOf) -> list[Severity]:
    """Raise alerts, at most one per rule, and clear those that ended. Returns the severities of new alerts."""
    if not findings:
        return []
    known = await _states(db, findings)
    # Most values have no effect: they do not match, and no stored state could end.
    runs = {run.key: run for run in findings.runs}
    runs |= {run.key: run for run in findings.runs_of(known.keys() - runs.keys())}
    candidates = dict(findings.hits)
    plant_ids = {run.watch.plant_id for run in runs.values()} | {hit.watch.plant_id for hit in candidates.values()}
    if not plant_ids:
        return []
    # From here on none of the plants can be deleted or moved. A plant that moved while its message waited is no longer
    # covered by the rule.
    plants = await store.plant_names(db, plant_ids)
    runs = {key: run for key, run in runs.items() if _watches(run.watch, plants)}
    candidates = {rule_id: hit for rule_id, hit in candidates.items() if _watches(hit.watch, plants)}
    runs, candidates = await _of_existing_devices(db, runs, known, candidates)
    runs = await _with_room(db, runs, known)
    steps: dict[RunKey, Progress] = {}
    since_pause = 0
    for key, run in runs.items():
        steps[key] = _advance(findings, run, known.get(key), may_raise=True)
        since_pause += len(run.points)
        if since_pause > _VALUES_AT_ONCE:
            await asyncio.sleep(0)  # otherwise many values of a metric with many rules would block heartbeats
            since_pause = 0
    winners: dict[UUID, RunKey] = {}
    for key, step in steps.items():
        if step.raised_at is None:
            continue
        rule_id = key[0]
        if rule_id not in candidates or step.raised_at.time < candidates[rule_id].point.time:
            candidates[rule_id] = Hit(runs[key].watch, step.raised_at)
            winners[rule_id] = key
    raised = await _raise(db, candidates, plants, request_id_of)
    for key, step in steps.items():
        if step.raised_at is not None and not (key[0] in raised and winners.get(key[0]) == key):
            steps[key] = _advance(findings, runs[key], known.get(key), may_raise=False)
            await asyncio.sleep(0)
    await _save(db, runs, known, steps, raised)
    return [candidates[rule_id].watch.rule.severity for rule_id in raised]


async def _states(db: Connection, findings: Findings) -> dict[RunKey, states.RuleStateRow]:
    if not findings.values:
        return {}
    rows = await states.rule_states(db, {source_id for source_id, _, _ in findings.values})
    return {(row.rule_id, row.source_id, row.metric): row for row in rows}


async def _of_existing_devices(
    db: Connection, runs: dict[RunKey, Run], known: dict[RunKey, states.RuleStateRow], candidates: dict[UUID, Hit]
) -> tuple[dict[RunKey, Run], dict[UUID, Hit]]:
    """Return the runs and candidates without those of sub-devices that were deleted while the message waited.

    No further values would resolve their alerts. States with an alert are left as they are: the deletion has ended them.
    """
    raised = {key for key, row in known.items() if row.alert_id is not None}
    watches = [*(run.watch for key, run in runs.items() if key not in raised), *(hit.watch for hit in candidates.values())]
    if not watches:
        return runs, candidates
    held = await store.hold_sources(db, {watch.source_id for watch in watches})
    return (
        {key: run for key, run in runs.items() if key in raised or run.watch.source_id in held},
        {rule_id: hit for rule_id, hit in candidates.items() if hit.watch.source_id in held},
    )


async def _with_room(db: Connection, runs: dict[RunKey, Run], known: dict[RunKey, states.RuleStateRow]) -> dict[RunKey, Run]:
    """Return the runs that have a state, and as many others as their organisation has room for states."""
    new: dict[UUID, list[RunKey]] = {}
    for key, run in runs.items():
        if key not in known:
            new.setdefault(run.watch.rule.organization_id, []).append(key)
    if not new:
        return runs
    left_out: set[RunKey] = set()
    for organization_id, count in (await states.count_states(db, new, MOST_STATES)).items():
        surplus = new[organization_id][max(0, MOST_STATES - count) :]
        if surplus:
            log.warning("too many states of alert rules", organization_id=str(organization_id), left_out=len(surplus))
            left_out.update(surplus)
    return {key: run for key, run in runs.items() if key not in left_out} if left_out else runs


def _watches(watch: Watch, plants: dict[UUID, store.PlantName]) -> bool:
    plant = plants.get(watch.plant_id)
    return plant is not None and plant.organization_id == watch.rule.organization_id


def _advance(findings: Findings, run: Run, row: states.RuleStateRow | None, *, may_raise: bool) -> Progress:
    state = None
    if row is not None:
        state = RuleState(microseconds(row.since), microseconds(row.seen_at), row.alert_id is not None)
    watch = run.watch
    newest = findings.newest.get((watch.source_id, watch.name))
    return advance(watch.rule, state, sorted(run.points), may_raise=may_raise, newest=newest)


async def _raise(
    db: Connection, candidates: dict[UUID, Hit], plants: dict[UUID, store.PlantName], request_id_of: RequestIdOf
) -> dict[UUID, UUID]:
    """Raise an alert for each rule whose cooldown is over and whose organisation has room. Returns their ids by rule."""
    due = await rules_with_room(db, candidates)
    if not due:
        return {}
    raised: dict[UUID, UUID] = {}
    alerts: list[store.NewAlert] = []
    for rule_id in sorted(await rules.claim(db, due)):
        watch, point = candidates[rule_id]
        alert = _new_alert(plants[watch.plant_id], watch, point, current_cause(request_id_of(watch.source_id, point.time)))
        raised[rule_id] = alert.id
        alerts.append(alert)
        _log_after_commit(db, alert)
    if alerts:
        # Together: a plant may have 500 rules, and alone each alert takes 3 ms, in which all other plants wait.
        await store.insert(db, alerts)
        count_raised(db, [alert.organization_id for alert in alerts])
        # The most severe first: of too many, the last are left out.
        alerts.sort(key=lambda alert: rank(alert.severity), reverse=True)
        await notify_each(db, [_notification(alert) for alert in alerts])
        await publish_changes(db, list(raised.values()))
    return raised


def _new_alert(plant: store.PlantName, watch: Watch, point: Point, cause: dict[str, str] | None) -> store.NewAlert:
    rule = watch.rule
    return store.NewAlert(
        new_id(),
        plant.organization_id,
        plant.id,
        rule.id,
        rule.name,
        rule.condition,
        rule.threshold,
        rule.severity,
        alert_message(rule, plant.name, watch.name, point.value, watch.unit),
        watch.name,
        point.value,
        watch.unit or None,
        to_datetime(point.time),
        cause,
    )


def _notification(alert: store.NewAlert) -> Notification:
    content = NotificationContent(
        subject=f"{alert.severity}: {alert.message}",
        body=f"{alert.message}\nMeasured at {alert.measured_at:%Y-%m-%d %H:%M:%S} UTC.",
        metadata={
            "alertId": str(alert.id),
            "ruleId": str(alert.rule_id),
            "plantId": str(alert.plant_id),
            "organizationId": str(alert.organization_id),
            "severity": alert.severity.value,
        },
    )
    return Notification(alert.organization_id, content, alert.cause, alert.severity)


def _log_after_commit(db: Connection, alert: store.NewAlert) -> None:
    known = {"alert_id": str(alert.id), "rule_id": str(alert.rule_id), "plant_id": str(alert.plant_id)}
    if alert.cause is not None:
        known["request_id"] = alert.cause["request_id"]
    after_commit(db, partial(log.info, "alert raised", **known))


async def _save(
    db: Connection,
    runs: dict[RunKey, Run],
    known: dict[RunKey, states.RuleStateRow],
    steps: dict[RunKey, Progress],
    raised: dict[UUID, UUID],
) -> None:
    """Write the states that changed, and resolve alerts that end automatically."""
    gone: list[RunKey] = []
    inserted: list[states.RuleStateRow] = []
    updated: list[states.RuleStateRow] = []
    resolved: list[UUID] = []
    for key, step in steps.items():
        row = known.get(key)
        new_alert = raised.get(key[0]) if step.raised_at is not None else None
        if runs[key].watch.rule.auto_resolve:
            resolved.extend(_ended(step, row, new_alert))
        if step.state is None:
            if row is not None:
                gone.append(key)
            continue
        alert_id = None
        if step.state.raised:
            alert_id = new_alert or (row.alert_id if row else None)
        new = states.RuleStateRow(*key, to_datetime(step.state.since), to_datetime(step.state.seen_at), alert_id)
        if new != row:
            (inserted if row is None or new_alert is not None else updated).append(new)
    if inserted:
        existing = await states.hold_rules(db, {row.rule_id for row in inserted})
        inserted = [row for row in inserted if row.rule_id in existing]
    if resolved:
        await publish_changes(db, await store.resolve_by_itself(db, resolved))
    if changed := [key for key in (*gone, *(row[:3] for row in (*inserted, *updated))) if key in known]:
        await states.hold_states(db, changed)
    if gone:
        await states.delete_rule_states(db, gone)
    if inserted:
        await states.insert_rule_states(db, inserted)
    if updated:
        await states.update_rule_states(db, updated)


def _ended(step: Progress, row: states.RuleStateRow | None, new_alert: UUID | None) -> Iterable[UUID]:
    if step.cleared and row is not None and row.alert_id is not None:
        yield row.alert_id
    if new_alert is not None and (step.state is None or not step.state.raised):
        yield new_alert
