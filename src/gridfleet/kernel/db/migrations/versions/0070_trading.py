"""Energy trading: an organisation's ESM, the plans sent to it, and the sandbox ESM.

Revision ID: 0070
"""

from alembic import op

revision = "0070"
down_revision = "0060"
branch_labels = None
depends_on = None

TABLES = """
-- One row an organisation, made when it is first read; one that was saved keeps the organisation from being deleted.
CREATE TABLE trading_config (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT trading_config_organization_key UNIQUE REFERENCES organization,
    esm_api_url text,
    esm_client_id text,
    esm_client_secret bytea,
    key_version integer,
    queue_prefix text,
    status text NOT NULL DEFAULT 'DISABLED' CHECK (status IN ('DISABLED', 'ENABLED')),
    saved boolean NOT NULL DEFAULT false,
    last_sync_at timestamptz,
    last_sync_error text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT trading_config_secret CHECK ((esm_client_secret IS NULL) = (key_version IS NULL))
);

-- What was sent to the ESM for a plant, written before it is sent; what came of it is added afterwards. Follows its plant
-- to another organisation.
CREATE TABLE trading_config_change (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization_id uuid NOT NULL,
    plant_id uuid NOT NULL,
    request_code uuid NOT NULL CONSTRAINT trading_config_change_request_key UNIQUE,
    result_code text,
    message text,
    is_error boolean NOT NULL DEFAULT false,
    is_terminal boolean NOT NULL DEFAULT false,
    validate_only boolean NOT NULL,
    config_snapshot jsonb NOT NULL,
    requested_by uuid NOT NULL,
    sent_at timestamptz NOT NULL,
    responded_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT trading_config_change_plant_fkey FOREIGN KEY (plant_id, organization_id)
        REFERENCES plant (id, organization_id) ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE INDEX trading_config_change_newest ON trading_config_change (plant_id, id DESC);

CREATE TABLE sandbox_esm_client (
    client_id text PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT sandbox_esm_client_organization_key UNIQUE
        REFERENCES organization ON DELETE CASCADE,
    secret_hash bytea NOT NULL,
    enabled boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE sandbox_esm_token (
    token_hash bytea PRIMARY KEY,
    client_id text NOT NULL REFERENCES sandbox_esm_client ON DELETE CASCADE,
    expires_at timestamptz NOT NULL
);
CREATE INDEX sandbox_esm_token_client ON sandbox_esm_token (client_id, expires_at);

CREATE TABLE sandbox_esm_plant (
    id uuid PRIMARY KEY,
    client_id text NOT NULL CONSTRAINT sandbox_esm_plant_client_fkey REFERENCES sandbox_esm_client ON DELETE CASCADE,
    external_plant_id text NOT NULL,
    name text NOT NULL,
    description text,
    capacity_kwh double precision NOT NULL,
    fve_peak_power_kwp double precision NOT NULL,
    config_enabled boolean NOT NULL,
    plant_with_load boolean NOT NULL DEFAULT true,
    esi_state text NOT NULL DEFAULT 'PLC_READY' CHECK (esi_state IN ('PLC_READY', 'PLC_OFFLINE', 'MAINTENANCE', 'UNKNOWN')),
    time_configs jsonb NOT NULL,
    version integer NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT sandbox_esm_plant_key UNIQUE (client_id, external_plant_id)
);

-- Answers to plans, so that one that is sent again is not carried out again.
CREATE TABLE sandbox_esm_answer (
    sandbox_plant_id uuid NOT NULL REFERENCES sandbox_esm_plant ON DELETE CASCADE,
    request_code text NOT NULL,
    answer jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (sandbox_plant_id, request_code)
);
"""


def upgrade() -> None:
    """Makes them."""
    op.execute(TABLES)
