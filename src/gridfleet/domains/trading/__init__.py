"""Energy trading: an organisation's ESM and its credentials, the sync of plants, the plans that are relayed, metered energy.

What partners do over AMQP is not here; that trading was switched on or off is queued for it.
"""
