"""PostgreSQL: the pool, the unit of work, migrations. Only this package and `store.py` files touch SQL."""

from gridfleet.kernel.db.pool import Connection, Database, open_database

__all__ = ["Connection", "Database", "open_database"]
