"""Commands to plants: checked against the template, sent until the plant acknowledges them, closed by an acknowledgement or by
time.

    PENDING → SENT → RECEIVED → APPLIED | REJECTED | FAILED        EXPIRED from any state but these three

The row of a command is its entry in the queue. A command is not an effect of the outbox because it is not complete when it is
sent: it is due again until the plant acknowledges it.
"""
