"""Foreign keys: each has an index for its cascade, and each id without one has a reason."""

from gridfleet.kernel.db import Database

NEVER_DELETED = {"telemetry_layout": "layouts are shared and small; nothing deletes them"}
"""Referenced tables whose rows are not deleted, so that no index is needed to find the rows that refer to them."""

UNINDEXED = (
    "SELECT c.conrelid::regclass::text, c.conname, c.confrelid::regclass::text FROM pg_constraint c"
    " JOIN pg_class t ON t.oid = c.conrelid"
    " WHERE c.contype = 'f' AND t.relnamespace = 'public'::regnamespace AND t.relname NOT LIKE 'procrastinate%'"
    " AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.conrelid AND i.indisvalid"
    # A partial index serves only if its condition excludes no row that refers to another: those where the column is null.
    " AND (i.indpred IS NULL OR pg_get_expr(i.indpred, i.indrelid) = '(' || (SELECT quote_ident(attname) FROM pg_attribute"
    " WHERE attrelid = c.conrelid AND attnum = i.indkey[0]) || ' IS NOT NULL)')"
    # The leading columns are those of the key, or one that is unique among the referenced rows.
    " AND ((i.indkey::smallint[])[0:cardinality(c.conkey) - 1] <@ c.conkey"
    " OR EXISTS (SELECT FROM pg_index u, unnest(c.conkey, c.confkey) AS pair (ours, theirs)"
    " WHERE pair.ours = i.indkey[0] AND u.indrelid = c.confrelid AND u.indisunique AND u.indpred IS NULL AND u.indnkeyatts = 1"
    " AND u.indkey[0] = pair.theirs)))"
)

WITHOUT_FOREIGN_KEY = {
    "alert.acknowledged_by": "a user or an API key",
    "alert.organization_id": "that of the plant, which it follows",
    "alert.rule_id": "an alert outlives its rule",
    "audit_event.actor_id": "an event outlives its subject",
    "audit_event.organization_id": "an event outlives its subject",
    "audit_event.plant_id": "an event outlives its subject",
    "audit_event.subject_id": "an event outlives its subject",
    "energy_account.organization_id": "an account outlives a deleted plant until the totals no longer contain it",
    "energy_dirty.plant_id": "telemetry has no foreign keys",
    "idempotent_answer.user_id": "a user or an API key",
    "invitation.invited_by": "an invitation stays when its author's account is removed",
    "notification_log.ticket": "an id of the push service",
    "partner_event.api_key_id": "a row lives until the broker confirms it; each key would cost every event a look-up",
    "partner_event.event_id": "its own id in the message",
    "partner_event.plant_id": "events about a plant are delivered even after its deletion",
    "partner_key.allowed_plant_ids": "an array; an unknown plant allows nothing",
    "partner_key.partner_id": "the organisation's own name",
    "plant.external_plant_id": "an id of the ESM",
    "plant_energy.plant_id": "energies outlive their plant until the totals no longer contain it",
    "plant_command.organization_id": "a command belongs to the organisation that issued it, which its plant may leave",
    "plant_command.requester_id": "a user, an API key or the service",
    "refused_message.organization_id": "a message belongs to the organisation that its plant had, which the plant may leave",
    "refused_message.message_id": "text of the message",
    "sandbox_esm_plant.external_plant_id": "the client's own name",
    "sub_device.external_id": "text of the messages",
    "telemetry_source.external_id": "text of the messages",
    "telemetry_source.organization_id": "a source outlives its plant until its telemetry is erased",
    "telemetry_source.plant_id": "a source outlives its plant until its telemetry is erased",
    "trading_config.esm_client_id": "an id of the ESM",
    "trading_config_change.organization_id": "the organisation that sent the plan, which the plant may leave",
    "trading_config_change.requested_by": "a plan outlives its author; an API key may be the author",
    "unregistered_device.external_id": "text of the messages",
    "unregistered_device.organization_id": "copied from the plant with each message",
    "vcp_command.api_key_id": "the log outlives the key",
    "vcp_command.correlation_id": "text of the message",
    "vcp_command.message_id": "text of the message",
    "vcp_command.site_id": "text of the message",
    "vcp_site.override_set_by": "text in the partner's answer; keys are revoked, not deleted",
    "vcp_site.override_command_id": "commands are deleted by age, the site stays",
    "vcp_site.schedule_command_id": "commands are deleted by age, the site stays",
    "vcp_site.schedule_id": "the partner's own name",
    "vcp_site.setpoint_command_id": "commands are deleted by age, the site stays",
    "vcp_unconfirmed.command_id": "commands are deleted by age, the row waits for another",
    **{
        f"telemetry_{table}.{column}": "checked by telemetry_latest, which is written in the same transaction; decision 0223"
        for table in ("frame", "minute", "quarter", "hour", "day")
        for column in ("source_id", "layout_id")
    },
    "telemetry_dirty.source_id": "written with frames or from telemetry_latest; decision 0223",
}
"""Columns that hold ids and have no foreign key, with the reason."""


async def test_every_foreign_key_has_an_index(database: Database) -> None:
    async with database.transaction() as db:
        rows = await (await db.execute(UNINDEXED)).fetchall()
    assert [row for row in rows if row[2] not in NEVER_DELETED] == []
    assert {row[2] for row in rows} == NEVER_DELETED.keys()


async def test_every_id_has_a_foreign_key_or_a_reason(database: Database) -> None:
    async with database.transaction() as db:
        cursor = await db.execute(
            "SELECT t.relname || '.' || a.attname FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid"
            " WHERE t.relnamespace = 'public'::regnamespace AND t.relkind IN ('r', 'p') AND NOT t.relispartition"
            " AND t.relname NOT LIKE 'procrastinate%' AND a.attnum > 0 AND NOT a.attisdropped"
            " AND (a.attname ~ '_(id|ids|by)$' OR a.attname = 'ticket') AND a.atttypid <> 'boolean'::regtype"
            " AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = t.oid AND a.attnum = c.conkey[1]"
            " AND (c.contype = 'f' OR c.contype = 'p' AND cardinality(c.conkey) = 1))"
        )
        found = {row[0] for row in await cursor.fetchall()}
    assert found == WITHOUT_FOREIGN_KEY.keys()


async def test_hours_that_are_set_aside_end_with_their_source(database: Database) -> None:
    async with database.transaction() as db:
        cursor = await db.execute(
            "INSERT INTO telemetry_source (organization_id, plant_id)"
            " VALUES (gen_random_uuid(), gen_random_uuid()) RETURNING id"
        )
        source = await cursor.fetchone()
        await db.execute(
            "INSERT INTO telemetry_set_aside (source_id, hour, error, retry_at) VALUES (%s, now(), '', now())", source
        )
        await db.execute("DELETE FROM telemetry_source WHERE id = %s", source)
        assert await (await db.execute("SELECT FROM telemetry_set_aside")).fetchall() == []
