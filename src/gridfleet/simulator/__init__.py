"""Simulated plants that use a service as real ones do: REST once for registration, then MQTT.

`registration` creates the demo organisation and its plants, `physics` computes their behaviour, and `run` sends the data and
writes the ledger. The package imports the plant client and the protocol, and nothing of the service.
"""
