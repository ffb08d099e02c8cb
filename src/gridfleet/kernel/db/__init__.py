"""PostgreSQL: the pool, the unit of work, migrations. Only this package and `store.py` files touch SQL."""
