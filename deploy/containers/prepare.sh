#!/bin/sh
# Create the secrets of a compose deployment, once, and fill in its configuration, in deploy/containers/filled.
set -eu
umask 077
cd "$(dirname "$0")"
if [ -e filled ]; then
    echo "deploy/containers/filled exists already: its secrets stay" >&2
    exit 1
fi
secret() { openssl rand -hex 32; }
mkdir filled
is_complete=
trap '[ -n "$is_complete" ] || rm -rf filled' EXIT
# A signal that ends a shell skips the trap of its end.
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
keys=1:$(secret) internal=$(secret) broker=$(secret) redis=$(secret) database=$(secret) owner=$(secret)
printf %s "$database" >filled/database_password
printf %s "$owner" >filled/owner_password

# A quarter of the memory. With more than there is, PostgreSQL would not start, and its image creates the database at the first
# start only.
buffers=$(awk '/^MemTotal/ {print int($2 / 4096)}' /proc/meminfo)MB
# In the network of the containers, host names are those of the services, and no other program is connected.
grep -v -e '^#' -e '^$' ../answers.example |
    sed -e 's|^RABBITMQ_PRIVATE_ADDRESS=.*|RABBITMQ_PRIVATE_ADDRESS=0.0.0.0|' \
        -e 's|^RABBITMQ_TLS_FOLDER=.*|RABBITMQ_TLS_FOLDER=/tls|' \
        -e "s|^RABBITMQ_PASSWORD=.*|RABBITMQ_PASSWORD=$broker|" \
        -e 's|^INTERNAL_ADDRESS=.*|INTERNAL_ADDRESS=serve:8081|' \
        -e "s|^INTERNAL_SECRET=.*|INTERNAL_SECRET=$internal|" \
        -e 's|^POSTGRESQL_ADDRESS=.*|POSTGRESQL_ADDRESS=*|' \
        -e "s|^POSTGRESQL_SHARED_BUFFERS=.*|POSTGRESQL_SHARED_BUFFERS=$buffers|" \
        -e 's|^POSTGRESQL_TLS=.*|POSTGRESQL_TLS=off|' \
        -e 's|^POSTGRESQL_RECORD=.*|POSTGRESQL_RECORD=host|' \
        -e 's|^POSTGRESQL_CLIENTS=.*|POSTGRESQL_CLIENTS=samenet|' \
        -e 's|^REDIS_ADDRESS=.*|REDIS_ADDRESS=*|' \
        -e "s|^REDIS_PASSWORD=.*|REDIS_PASSWORD=$redis|" >filled/answers
../fill.sh filled/answers filled
sed -i 's/^log.console = false$/log.console = true/' filled/rabbitmq/rabbitmq.conf
# The image has the service's plugin: Containerfile.rabbitmq.
sed -e 's/^\[/[gridfleet_bounds,/' ../rabbitmq/enabled_plugins >filled/rabbitmq/enabled_plugins

cat >filled/gridfleet.env <<END
GRIDFLEET_KEYS=$keys
GRIDFLEET_INTERNAL_SECRET=$internal
GRIDFLEET_DATABASE_URL=postgresql://gridfleet:$database@postgresql/gridfleet
GRIDFLEET_BROKER_URL=amqp://_gridfleet:$broker@rabbitmq:5672
GRIDFLEET_BROKER_MANAGEMENT_URL=http://_gridfleet:$broker@rabbitmq:15672
GRIDFLEET_REDIS_URL=redis://:$redis@redis:6379/0
END
echo "GRIDFLEET_DATABASE_URL=postgresql://gridfleet_owner:$owner@postgresql/gridfleet" >filled/owner.env
# The users of the containers are not the user of this script: they may read the files. The folder protects the files from others.
chmod -R a+rX filled/rabbitmq filled/postgresql filled/redis
chmod a+r filled/database_password filled/owner_password
is_complete=yes
echo "made deploy/containers/filled: keep a copy of gridfleet.env in a safe place, apart from the backups"
