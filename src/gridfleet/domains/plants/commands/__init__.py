"""Commands to plants: checked against the template, sent until the plant acknowledges, closed by its word or by time.

    PENDING → SENT → RECEIVED → APPLIED | REJECTED | FAILED        EXPIRED from any state but these three

The command's row is its own place in the queue. It is not an effect of the outbox because it is not done when it was
sent: it is due again until the plant has said that it got it.
"""
