"""Energy trading: an organisation's ESM and its credentials, plant sync, plans relayed to the ESM, metered energy.

The AMQP interface of partners is not part of it. Switching trading on or off only queues an effect for it.
"""
