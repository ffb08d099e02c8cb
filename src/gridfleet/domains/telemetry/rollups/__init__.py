"""Roll-ups: sums over minutes, quarters of an hour, hours and days, recomputed from frames wherever those changed.

Hours from the watermark on are open and in no roll-up. A frame of an hour before it leaves a row in the dirty log, in its own
transaction; the job takes the rows it sees and recomputes their hours from the frames it sees, which hold at least as
much. Nothing is ever added to a sum, so neither order nor repetition matters.
"""
