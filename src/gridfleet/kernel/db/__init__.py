"""PostgreSQL: the pool, the unit of work, migrations. Only this package and `store.py` files touch SQL."""

from psycopg import Error as DatabaseError

from gridfleet.kernel.db.pool import Connection, Database, after_commit, open_database

__all__ = ["Connection", "Database", "DatabaseError", "after_commit", "open_database"]
