"""Events to partners: queued in the transaction of their cause, deleted when the broker has confirmed them."""
