"""Plants: registry, lifecycle, provisioning, credentials, certificates, sub-devices and MQTT permissions.

A plant is one MQTT client. Sub-devices belong to a plant and do not connect themselves.
"""
