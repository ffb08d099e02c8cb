"""Input of calls: Pydantic models whose errors are all listed at once, as `path.to.field: what is wrong`.

`Input` is the base of bodies and queries. It makes Pydantic strict (`strict.py`). `complaints.py` words the errors.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

from msgspec import UNSET
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function

from gridfleet.api.http.complaints import (
    MAX_COMPLAINTS,
    below,
    complaints_of,
    refuse,
    schema_of,
    without_null,
)
from gridfleet.api.http.strict import strict
from gridfleet.domains.identity.emails import is_address
from gridfleet.kernel.db import json_size
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.time_zones import is_time_zone

__all__ = [
    "NOT_NULL",
    "As",
    "Email",
    "Input",
    "Metadata",
    "Pattern",
    "TimeZone",
    "omitted",
    "read",
    "read_query",
]

_MAX_METADATA: Final = 32 * 1024
_MOST_ERRORS: Final = 10_000
"""Maximum number of errors that are examined. Each takes some ten microseconds, in which all other requests wait."""

_INTEGER = re.compile(r"-?[0-9]{1,18}\Z")
_NUMBER = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?\Z")

Model = TypeVar("Model", bound="Input")


class Input(BaseModel):
    """A body or query. Its fields have camel case in JSON, and unknown fields are refused.

    A subclass may define `complaints(self) -> Iterator[str]` for rules across fields. It runs when all fields are valid.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        model: Any = handler.resolve_ref_schema(schema)
        inner = model
        while inner["type"] != "model-fields":
            inner = inner["schema"]
        for field in inner["fields"].values():
            field["schema"] = strict(field["schema"], handler.resolve_ref_schema)
        if hasattr(cls, "complaints"):
            # Changed in place, so that the model keeps its name in JSON Schemas.
            unchecked = {name: part for name, part in model.items() if name != "ref"}
            checked = no_info_after_validator_function(_checked, unchecked, ref=model.get("ref"))
            model.clear()
            model.update(checked)
        return schema


@dataclass(frozen=True)
class Pattern:
    """Restricts a text to a regular expression. `rule` is the complaint about other texts."""

    expression: str
    rule: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the text with this check."""
        found = re.compile(self.expression).search
        return no_info_after_validator_function(lambda text: text if found(text) else refuse(self.rule), handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON Schema with the expression."""
        return {**handler(schema), "pattern": self.expression}


@dataclass(frozen=True)
class As:
    """Reads a record of a domain with a model that has the same fields: `Annotated[TimeBlock, As(TimeBlockInput)]`."""

    model: type[Input]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the model, whose result is made into the record."""
        return no_info_after_validator_function(lambda found: source(**dict(found)), handler.generate_schema(self.model))


class _NotNull:
    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema: Any = handler(source)
        inner: CoreSchema = schema["schema"] if schema["type"] == "nullable" else schema
        return inner


NOT_NULL: Final = _NotNull()
"""Marks an optional body field that may be omitted but not null: `Annotated[Description | None, NOT_NULL] = None`."""


def omitted() -> Any:
    """Return the pydantic default of a PATCH's field: it sets an omitted field to UNSET, which differs from null."""
    return Field(default_factory=lambda: UNSET)


def _checked(record: Any) -> Any:
    if found := list(record.complaints()):
        raise PydanticCustomError("complaints", "see the list", {"complaints": found})
    return record


def _email(text: str) -> str:
    return text if is_address(text) else refuse("must be an e-mail address")


Email = Annotated[str, Field(max_length=254, json_schema_extra={"format": "email"}), AfterValidator(_email)]
"""An e-mail address as entered. Domains convert it to lower case."""


def _time_zone(name: str) -> str:
    return name if is_time_zone(name) else refuse("must be the name of an IANA time zone, such as Europe/Prague")


TimeZone = Annotated[str, Field(max_length=64), AfterValidator(_time_zone)]
"""The name of a time zone."""


def _bounded(value: dict[str, Any]) -> dict[str, Any]:
    return value if json_size(value) <= _MAX_METADATA else refuse(f"must have at most {_MAX_METADATA} bytes as JSON")


Metadata = Annotated[dict[str, Any], AfterValidator(_bounded)]
"""Free-form notes of users about a record. Limited in size, because a page of a list holds a hundred of them."""


def read(model: type[Model], value: Any) -> Model:
    """Return the model of a decoded JSON value. Raises ValidationFailed with every error."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        if (count := error.error_count()) > _MOST_ERRORS:
            raise ValidationFailed(details=[f"body: has {count} errors, which are too many to list"]) from None
        raise ValidationFailed(details=complaints_of(error, model)) from None


def read_query(model: type[Model], pairs: list[tuple[str, str]]) -> Model:
    """Return the model of the pairs of a query string. Raises ValidationFailed with every error."""
    root = schema_of(model)
    values: dict[str, Any] = {}
    twice: list[str] = []
    for name, text in pairs:
        schema = without_null(root["properties"].get(name, {}), root)
        if schema.get("type") == "array":
            values.setdefault(name, []).append(_from_text(text, schema["items"]))
        elif name in values:
            twice.append(f"{below('', name)}: must not be given twice")
        else:
            values[name] = _from_text(text, schema)
    try:
        record = read(model, values)
    except ValidationFailed as error:
        raise ValidationFailed(details=(twice + error.details)[:MAX_COMPLAINTS]) from None
    if twice:
        raise ValidationFailed(details=twice[:MAX_COMPLAINTS])
    return record


def _from_text(text: str, schema: dict[str, Any]) -> Any:
    match schema.get("type"):
        case "integer":
            return int(text) if _INTEGER.match(text) else text
        case "number":
            return float(text) if _NUMBER.match(text) else text
        case "boolean":
            return {"true": True, "false": False}.get(text, text)
    return text
