"""SQL of the certificate authority: one row."""

from gridfleet.kernel.db import Connection


async def find(db: Connection) -> tuple[str, bytes, int] | None:
    """Certificate (PEM), encrypted key and its key version."""
    cursor = await db.execute("SELECT certificate, private_key, key_version FROM certificate_authority")
    row = await cursor.fetchone()
    return None if row is None else (row[0], row[1], row[2])


async def insert(db: Connection, certificate: str, private_key: bytes, key_version: int) -> None:
    """Keeps the authority unless there is one."""
    await db.execute(
        "INSERT INTO certificate_authority (certificate, private_key, key_version) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
        (certificate, private_key, key_version),
    )
