"""Coded errors of plants and their sub-devices."""

from gridfleet.kernel.errors import CodedError

__all__ = [
    "ExternalIdTaken",
    "PlantGroupNotFound",
    "PlantNotFound",
    "PlantSerialTaken",
    "PlantStateForbids",
    "SubDeviceNotFound",
    "TemplateWrongLevel",
]


class PlantNotFound(CodedError):
    """The plant does not exist, belongs to another organisation or is hidden from the caller."""

    code = "PLANT_NOT_FOUND"
    message = "There is no such plant."


class PlantGroupNotFound(CodedError):
    """The group does not exist or belongs to another organisation."""

    code = "NOT_FOUND"
    message = "There is no such plant group."


class PlantSerialTaken(CodedError):
    """Serial numbers are unique in an organisation."""

    code = "PLANT_ALREADY_EXISTS"
    message = "A plant with this serial number exists in the organisation."


class PlantStateForbids(CodedError):
    """The plant's state or its link does not allow the change."""

    code = "BAD_REQUEST"
    message = "The plant's state does not allow this."


class TemplateWrongLevel(CodedError):
    """A plant takes a template of level PLANT only."""

    code = "DEVICE_TEMPLATE_WRONG_LEVEL"
    message = "A plant needs a template of level PLANT."


class SubDeviceNotFound(CodedError):
    """The sub-device or its plant does not exist."""

    code = "SUB_DEVICE_NOT_FOUND"
    message = "There is no such sub-device."


class ExternalIdTaken(CodedError):
    """External ids are unique in a plant."""

    code = "SUB_DEVICE_EXTERNAL_ID_TAKEN"
    message = "The plant has a sub-device with this external id."
