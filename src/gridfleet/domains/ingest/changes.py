"""Changes that the database notifies ingest of, and the caches of the pipeline that they make outdated."""

from collections.abc import Callable
from uuid import UUID

from gridfleet.domains.alerts.rule_cache import RULES_CHANNEL
from gridfleet.domains.ingest.pipeline import Pipeline
from gridfleet.domains.partners.signing import KEY_CHANGED

__all__ = ["receivers"]


def receivers(pipeline: Pipeline) -> dict[str, tuple[Callable[[str], None], ...]]:
    """Return what receives the payloads of database notifications, by channel."""
    plants, rules, subscriptions = pipeline.plant_cache, pipeline.rule_cache, pipeline.subscription_cache

    def note_power(plant_id: str) -> None:
        pipeline.power_refresher.note(None, [UUID(plant_id)])

    def note_device(name: str) -> None:
        plant_id, _, external_id = name.partition(" ")
        plants.note_device(plant_id, external_id)
        # No check depends on a sub-device's registration. But the checks of deleted sub-devices would stay cached, and a rule
        # whose metrics had several units gets one when it is compiled after a deletion has left only that unit.
        rules.invalidate(plant_id)
        note_power(plant_id)

    return {
        "plant_updated": (plants.note_change, rules.invalidate, subscriptions.invalidate, note_power),
        "plant_deleted": (plants.invalidate, rules.invalidate, subscriptions.invalidate, note_power),
        "sub_device_changed": (note_device,),
        "plant_offline": (plants.invalidate_status,),
        "template_changed": (lambda _: plants.invalidate_all(),),
        RULES_CHANNEL: (rules.invalidate,),
        KEY_CHANGED: (lambda _: subscriptions.invalidate_all(),),
    }
