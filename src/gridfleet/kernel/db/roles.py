"""Rights of a running role: it reads and writes rows, and owns nothing.

The owner of the database migrates it. The processes connect as another role, which cannot change the schema, and cannot
change or delete audit events.
"""

from typing import Final

import psycopg
from psycopg import sql

__all__ = ["CannotGrant", "grant", "role_without_rights"]

_QUEUE: Final = "procrastinate"

# Temporary tables: ingest copies each batch into one. The four functions are revoked from PUBLIC again, because a restored
# backup lacks the restriction.
_STATEMENTS: Final = (
    "GRANT CONNECT, TEMPORARY ON DATABASE {database} TO {role}",
    "GRANT USAGE ON SCHEMA {schemas} TO {role}",
    "REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schemas} TO {role}",
    "REVOKE UPDATE, DELETE ON audit_event FROM {role}",
    "REVOKE INSERT, UPDATE, DELETE ON alembic_version FROM {role}",
    "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {schemas} TO {role}",
    "REVOKE EXECUTE ON FUNCTION forget_audit_events, create_telemetry_partition, drop_telemetry_partition,"
    " drop_telemetry_chunks FROM PUBLIC",
    "GRANT EXECUTE ON ALL ROUTINES IN SCHEMA {schemas} TO {role}",
    # What later migrations create.
    "ALTER DEFAULT PRIVILEGES IN SCHEMA {schemas} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {role}",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA {schemas} GRANT USAGE, SELECT ON SEQUENCES TO {role}",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA {schemas} GRANT EXECUTE ON ROUTINES TO {role}",
)


class CannotGrant(RuntimeError):
    """The text says why, and what to do."""


def grant(url: str, role: str) -> str:
    """Give `role` the rights that the processes need, as the owner at `url`. Repetitions change nothing.

    Returns:
        What the role may do now, in words. Nothing was changed if it is the owner, or if it is the role at `url` itself and has
        its rights: a machine without the owner's password repeats what another one did.

    Raises:
        CannotGrant: There is no such role, or the role at `url` is not the owner.
        psycopg.Error: The database is not available.
    """
    with psycopg.connect(url, connect_timeout=5) as connection:
        row = connection.execute(
            "SELECT current_database(), current_schema(), relowner = to_regrole(%(role)s), pg_has_role(relowner, 'USAGE'),"
            " current_user = %(name)s"
            " FROM pg_class WHERE oid = 'alembic_version'::regclass",
            {"role": sql.Identifier(role).as_string(connection), "name": role},
        ).fetchone()
        assert row is not None
        database, schema, is_owner, may_grant, is_own = row
        if is_owner is None:
            raise CannotGrant(f"there is no role {role}: CREATE ROLE {role} LOGIN PASSWORD …")
        if not may_grant and is_own and role_without_rights(url) is None:
            return "has its rights already"
        if not may_grant:
            raise CannotGrant("only the owner of the database can do this: set GRIDFLEET_DATABASE_URL to its account")
        if is_owner:
            return "is the owner, and needs no grant"
        names = {
            "database": sql.Identifier(database),
            "role": sql.Identifier(role),
            "schema": sql.Identifier(schema),
            "schemas": sql.SQL(", ").join(map(sql.Identifier, (schema, _QUEUE))),
        }
        for statement in _STATEMENTS:
            connection.execute(sql.SQL(statement).format(**names))
    return "may run the service"


def role_without_rights(url: str) -> str | None:
    """Return the role that `url` logs in as if there is a table of the service that it cannot read; None if it can read all.

    Raises:
        psycopg.Error: The database is unavailable.
    """
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        row = connection.execute(
            "SELECT current_user FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname IN (current_schema(), %s) AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
            " AND NOT (has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')) LIMIT 1",
            (_QUEUE,),
        ).fetchone()
    return None if row is None else str(row[0])
