"""PostgreSQL: the pool, the unit of work, migrations. Only this package and `store.py` files touch SQL."""

from psycopg import Error as DatabaseError

from gridfleet.kernel.db.pool import Connection, Database, open_database

__all__ = ["Connection", "Database", "DatabaseError", "open_database"]
