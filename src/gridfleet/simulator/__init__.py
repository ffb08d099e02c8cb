"""A fleet of simulated plants that talk to a service as real ones do: over REST once, then over MQTT.

`registration` makes the demo organisation and its plants, `physics` says what they do, `run` sends it and keeps the
ledger. Imports the device client and the protocol, nothing of the service.
"""
