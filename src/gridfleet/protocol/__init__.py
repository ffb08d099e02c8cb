"""Topics, envelopes, messages and signatures that plants, partners and the service exchange.

Pure functions and structs without I/O, except the connection in `amqp`. The service and both clients import this package, so
each byte is defined once.
"""
