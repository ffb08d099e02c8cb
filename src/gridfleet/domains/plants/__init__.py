"""Plants: the registry, their lifecycle, provisioning, credentials and certificates, their sub-devices, and who may do
what on the MQTT side of the broker.

A plant is one MQTT client. Sub-devices hang below it and never connect themselves.
"""
