"""Roll-ups: aggregates over minutes, quarters of an hour, hours and days, recomputed from frames that changed.

Hours from the watermark on are open and in no roll-up. A changed frame of an hour before it adds a row to the dirty log, in
the same transaction. The job takes the rows that it sees and recomputes their hours from the frames that it sees, which
include those of the rows. Nothing is ever added to a sum, so neither order nor repetition changes the result.
"""
