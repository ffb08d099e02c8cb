"""Replace a plant's credentials while it runs: the old and the new ones are both valid for an hour."""

import secrets
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec

from gridfleet.domains.audit.models import Event, Subject
from gridfleet.domains.audit.recorder import record_in
from gridfleet.domains.plants.connections import queue_closing, queue_closing_of_certificate
from gridfleet.domains.plants.credentials import store
from gridfleet.domains.plants.errors import PlantStateForbids
from gridfleet.domains.plants.lifecycle import require_plant
from gridfleet.domains.plants.models import AuthMethod, Lifecycle
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.security.certificates import Authority
from gridfleet.kernel.security.keyring import DecryptionFailed, Keyring, UnknownKeyVersion

__all__ = ["OVERLAP", "RenewedCertificate", "RotatedSecret", "renew_certificate", "rotate_secret"]

OVERLAP: Final = timedelta(hours=1)
"""How long replaced credentials stay valid."""


class RotatedSecret(msgspec.Struct, frozen=True, rename="camel"):
    """The new HMAC secret (64 hex digits), and until when messages signed with the old one are accepted."""

    hmac_secret: str
    previous_valid_until: datetime


class RenewedCertificate(msgspec.Struct, frozen=True, rename="camel"):
    """A new client certificate and its key, PEM."""

    client_cert: str
    client_key: str


async def rotate_secret(db: Connection, org: OrgScope, keyring: Keyring, plant_id: UUID) -> RotatedSecret:
    """Replace the HMAC secret of an ACTIVE or SUSPENDED plant.

    A package that waits for its download is deleted, because it holds the old secret. Tokens end with the secret that they
    were issued for, and so do the connections of a plant of method TOKEN. A secret that cannot be decrypted is replaced without
    an overlap, so that the plant can be recovered.

    Raises:
        PlantNotFound: There is no such plant.
        PlantStateForbids: The plant is not ACTIVE or SUSPENDED.
    """
    plant = await require_plant(db, org, plant_id)
    row = await store.lock(db, org, plant_id)
    if plant.lifecycle_status not in (Lifecycle.ACTIVE, Lifecycle.SUSPENDED) or row is None:
        raise PlantStateForbids(f"Only an ACTIVE or SUSPENDED plant has a secret; this one is {plant.lifecycle_status}.")
    new, now = secrets.token_bytes(32), utc_now()
    try:
        old = keyring.decrypt(row.hmac_secret, row.key_version, table="plant_secret", column="hmac_secret", row_id=plant_id)
    except (UnknownKeyVersion, DecryptionFailed):
        previous, valid_until = None, now
    else:
        previous = keyring.encrypt(old, table="plant_secret", column="previous_hmac_secret", row_id=plant_id)
        valid_until = now + OVERLAP
    await store.rotate(
        db,
        org,
        plant_id,
        keyring.current_version,
        keyring.encrypt(new, table="plant_secret", column="hmac_secret", row_id=plant_id),
        previous,
        valid_until,
    )
    await store.record_rotation(db, org, plant_id)
    if plant.auth_method is AuthMethod.TOKEN:
        await queue_closing(db, org.organization_id, plant_id, (), valid_until - now)
    await record_in(db, org, Event.PLANT_SECRET_ROTATED, Subject.plant(plant_id))
    return RotatedSecret(new.hex(), valid_until)


async def renew_certificate(db: Connection, org: OrgScope, authority: Authority, plant_id: UUID) -> RenewedCertificate:
    """Issue a new client certificate to an ACTIVE plant of method MTLS.

    Connections with the replaced certificate are closed after an hour. A certificate older than that one is refused from now
    on. A package that waits for its download is deleted, because it holds the replaced certificate.

    Raises:
        PlantNotFound: There is no such plant.
        PlantStateForbids: The plant is not ACTIVE, or its method is not MTLS.
    """
    plant = await require_plant(db, org, plant_id)
    if plant.auth_method is not AuthMethod.MTLS or plant.lifecycle_status is not Lifecycle.ACTIVE:
        raise PlantStateForbids("Only an ACTIVE plant whose authMethod is MTLS has a certificate to renew.")
    current, *older = await store.certificate_serials(db, org, plant_id)
    issued = authority.issue_client(str(plant_id))
    await store.replace_certificate(db, org, plant_id, issued, utc_now() + OVERLAP)
    await store.delete_package(db, org, plant_id)
    await record_in(db, org, Event.PLANT_CERTIFICATE_RENEWED, Subject.plant(plant_id))
    await queue_closing_of_certificate(db, org.organization_id, plant_id, current, OVERLAP)
    for serial in older:
        await queue_closing_of_certificate(db, org.organization_id, plant_id, serial)
    return RenewedCertificate(issued.certificate_pem, issued.key_pem)
