#!/bin/sh
# Run by the PostgreSQL image on its first start: the service's account and its database.
set -eu
psql --no-psqlrc --set ON_ERROR_STOP=1 --username postgres --set password="$(cat "${DATABASE_PASSWORD_FILE:-/run/secrets/database_password}")" <<'SQL'
CREATE ROLE gridfleet LOGIN PASSWORD :'password';
CREATE DATABASE gridfleet OWNER gridfleet;
SQL
