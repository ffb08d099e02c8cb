"""Index the plants that keys for the broker may see.

Revision ID: 0142
"""

from typing import Final

from alembic import op

revision = "0142"
down_revision = "0141"
branch_labels = None
depends_on = None

_STEPS: Final = (
    # Plants as in `allowed_plant_ids`, except deleted ones. To find a plant in the arrays, each of them would be read whole.
    """
CREATE TABLE IF NOT EXISTS partner_key_plant (
    plant_id uuid REFERENCES plant ON DELETE CASCADE,
    key_id uuid REFERENCES partner_key ON DELETE CASCADE,
    PRIMARY KEY (plant_id, key_id)
)
""",
    "CREATE INDEX IF NOT EXISTS partner_key_plant_of_key ON partner_key_plant (key_id)",
    "COMMENT ON TABLE partner_key_plant IS"
    " 'The plants of each key that may use the broker and is limited to some plants: a copy of allowed_plant_ids by plant.'",
    "COMMENT ON COLUMN partner_key_plant.key_id IS 'The key.'",
    # A trigger, because processes of the previous release insert keys too.
    """
CREATE OR REPLACE FUNCTION set_partner_key_plants() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM partner_key_plant WHERE key_id = NEW.id;
    INSERT INTO partner_key_plant (plant_id, key_id) SELECT p.id, NEW.id FROM plant p
        WHERE NEW.amqp_slug IS NOT NULL AND p.id = ANY(NEW.allowed_plant_ids) ORDER BY p.id FOR KEY SHARE;
    RETURN NULL;
END $$
""",
    "CREATE OR REPLACE TRIGGER partner_key_plants AFTER INSERT OR UPDATE OF amqp_slug, allowed_plant_ids ON partner_key"
    " FOR EACH ROW EXECUTE FUNCTION set_partner_key_plants()",
    "INSERT INTO partner_key_plant (plant_id, key_id) SELECT p.id, k.id FROM partner_key k"
    " CROSS JOIN LATERAL unnest(k.allowed_plant_ids) AS allowed (id) JOIN plant p ON p.id = allowed.id"
    " WHERE k.amqp_slug IS NOT NULL ON CONFLICT DO NOTHING",
    """
CREATE OR REPLACE FUNCTION has_subscription(organization uuid, plant uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM partner_queues q WHERE q.organization_id = organization AND q.enabled) AND (
        EXISTS (SELECT FROM partner_key k WHERE k.organization_id = organization AND k.amqp_slug IS NOT NULL
            AND k.activated_at IS NOT NULL AND k.allowed_plant_ids IS NULL)
        OR EXISTS (SELECT FROM partner_key_plant l JOIN partner_key k ON k.id = l.key_id WHERE l.plant_id = plant
            AND k.organization_id = organization AND k.amqp_slug IS NOT NULL AND k.activated_at IS NOT NULL))
$$
""",
)


def upgrade() -> None:
    """Create the table, fill it, and read it in the function that finds subscriptions. Each step commits by itself."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.get_bind().exec_driver_sql(step)
