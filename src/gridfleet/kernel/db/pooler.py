"""Connection poolers between the service and PostgreSQL."""

from psycopg import OperationalError

from gridfleet.kernel.db.pool import NOTICE_A_DEAD_MACHINE, OPTIONS, POOLER, TidyConnection, has_our_options
from gridfleet.kernel.outages import WrongSetting

__all__ = ["BehindPooler", "refuse_pooler"]


class BehindPooler(WrongSetting):
    """The database URL leads to a pooler, which gives a session of the server to several clients."""


async def refuse_pooler(url: str, setting: str = "GRIDFLEET_DATABASE_URL") -> None:
    """Check that the options of a connection reach PostgreSQL. Returns without a check if the server does not respond.

    PgBouncer in transaction mode runs statements of several clients in one session: prepared statements, advisory locks,
    `LISTEN` and time-outs of one would be those of another.

    Args:
        url: The database.
        setting: Names the URL in the error.

    Raises:
        BehindPooler: A pooler refuses or ignores the options.
    """
    try:
        connection = await TidyConnection.connect(url, connect_timeout=5, options=OPTIONS, **NOTICE_A_DEAD_MACHINE)
        async with connection:
            if await has_our_options(connection):
                return
    except OperationalError as error:
        if "unsupported startup parameter" not in str(error):
            return
    raise BehindPooler(f"{setting} leads to {POOLER}")
