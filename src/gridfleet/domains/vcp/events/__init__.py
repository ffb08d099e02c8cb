"""Events on their way to partners: queued in the transaction of their cause, gone once the broker has confirmed them."""
