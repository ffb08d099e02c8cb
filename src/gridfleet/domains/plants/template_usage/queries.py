"""Count and list the users of a device template."""

from uuid import UUID

from gridfleet.domains.device_templates.catalogue import get_template
from gridfleet.domains.plants.template_usage import store
from gridfleet.domains.plants.template_usage.models import TemplateUsage
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import MOST_COUNTED, CursorPage, CursorPaging

__all__ = ["template_usage"]


async def template_usage(db: Connection, org: OrgScope, template_id: UUID, paging: CursorPaging[tuple[UUID]]) -> TemplateUsage:
    """Return how many plants and sub-devices of the organisation use a template, and one page of the plants.

    Raises:
        TemplateNotFound: There is no such template.
    """
    await get_template(db, template_id)
    plant_count, device_count = await store.count(db, org, template_id)
    users = await store.page(db, org, template_id, paging)
    plants = CursorPage.of([((user.id,), user) for user in users], min(plant_count, MOST_COUNTED), paging)
    return TemplateUsage(plant_count, device_count, plants)
