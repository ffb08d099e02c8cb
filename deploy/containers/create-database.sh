#!/bin/sh
# Run by the PostgreSQL image on its first start: the account that owns the database, that of the processes, and the database.
set -eu
psql --no-psqlrc --set ON_ERROR_STOP=1 --username postgres \
    --set owner_password="$(cat "${OWNER_PASSWORD_FILE:-/run/secrets/owner_password}")" \
    --set password="$(cat "${DATABASE_PASSWORD_FILE:-/run/secrets/database_password}")" <<'SQL'
CREATE ROLE gridfleet_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE gridfleet LOGIN PASSWORD :'password';
CREATE DATABASE gridfleet OWNER gridfleet_owner;
SQL
