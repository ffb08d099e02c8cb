"""Partners' API keys, and the queues that an organisation has at the broker for them.

Revision ID: 0050
"""

from alembic import op

revision = "0050"
down_revision = "0012"
branch_labels = None
depends_on = None

KEYS = """
-- The broker knows a partner by its organisation's slug, so the slug stays while a key uses it.
ALTER TABLE organization ADD CONSTRAINT organization_slug_of_key UNIQUE (id, slug);

-- `amqp_slug` is the user name at the broker; null for a key that may not, or may no longer, log in there. `activated_at` is
-- null until the broker has proved that the new key works: until then it counts for nothing but that proof.
CREATE TABLE partner_key (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization,
    name text NOT NULL,
    partner_id text NOT NULL,
    key_prefix text NOT NULL,
    key_hash bytea NOT NULL CONSTRAINT partner_key_hash_key UNIQUE,
    scopes text[] NOT NULL CHECK (cardinality(scopes) > 0),
    allowed_plant_ids uuid[],
    allowed_ips cidr[] NOT NULL DEFAULT '{}',
    vhost text NOT NULL,
    amqp_slug text,
    signing_key bytea,
    key_version integer,
    created_by uuid NOT NULL REFERENCES user_account,
    expires_at timestamptz,
    activated_at timestamptz,
    revoked_at timestamptz,
    connected_at timestamptz,
    last_used_at timestamptz,
    bundle_acknowledged_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT partner_key_amqp_fkey FOREIGN KEY (organization_id, amqp_slug) REFERENCES organization (id, slug),
    CONSTRAINT partner_key_sealed CHECK ((signing_key IS NULL) = (key_version IS NULL)),
    CONSTRAINT partner_key_amqp_ends CHECK (amqp_slug IS NULL OR revoked_at IS NULL)
) WITH (fillfactor = 80);
CREATE INDEX partner_key_newest ON partner_key (organization_id, created_at DESC, id DESC);
CREATE INDEX partner_key_amqp ON partner_key (organization_id) WHERE amqp_slug IS NOT NULL;
CREATE INDEX partner_key_expiry ON partner_key (expires_at) WHERE amqp_slug IS NOT NULL AND expires_at IS NOT NULL;
CREATE INDEX partner_key_unproven ON partner_key (created_at) WHERE activated_at IS NULL;

-- A revoked key does not keep its organisation alive.
CREATE FUNCTION forget_revoked_partner_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM partner_key WHERE organization_id = OLD.id AND revoked_at IS NOT NULL;
    RETURN OLD;
END $$;
CREATE TRIGGER organization_forgets_revoked_keys
    BEFORE DELETE ON organization FOR EACH ROW EXECUTE FUNCTION forget_revoked_partner_keys();

-- Whether an organisation's queues stand at the broker, and what the names of its own ones begin with.
CREATE TABLE partner_queues (
    organization_id uuid PRIMARY KEY REFERENCES organization ON DELETE CASCADE,
    prefix text NOT NULL,
    enabled boolean NOT NULL
);

-- The api remembers who may do what; the gateway, to whose vhost what goes.
CREATE FUNCTION notify_partner_key_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed uuid := (CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END).id;
BEGIN
    PERFORM pg_notify('access_changed', changed::text), pg_notify('partner_key_changed', changed::text);
    RETURN NULL;
END $$;
CREATE TRIGGER partner_key_changed
    AFTER INSERT OR DELETE OR UPDATE OF scopes, allowed_plant_ids, allowed_ips, vhost, amqp_slug, expires_at, activated_at,
        revoked_at ON partner_key
    FOR EACH ROW EXECUTE FUNCTION notify_partner_key_changed();
"""

# A key's requests may be sent again like a person's. The answers are forgotten within a day, whoever they were for.
ANSWERS = "ALTER TABLE idempotent_answer DROP CONSTRAINT idempotent_answer_user_id_fkey"


def upgrade() -> None:
    """Creates the tables."""
    op.execute(KEYS)
    op.execute(ANSWERS)
