"""Events to trading partners: queued in the database in the transaction of their cause, published by the gateway."""
