"""Named JSON Schemas of requests and responses.

Pydantic describes requests. Responses are the domains' msgspec records and are described here: msgspec's generator omits
the format of times and does not mark every field of a response as required.
"""

import re
from typing import Any

import msgspec
from msgspec import inspect

from gridfleet.api.http.complaints import schema_of

__all__ = ["JsonSchemas", "reference"]

Schema = dict[str, Any]

_PLAIN: dict[type[inspect.Type], Schema] = {
    inspect.StrType: {"type": "string"},
    inspect.IntType: {"type": "integer"},
    inspect.FloatType: {"type": "number"},
    inspect.BoolType: {"type": "boolean"},
    inspect.UUIDType: {"type": "string", "format": "uuid"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
    inspect.DateType: {"type": "string", "format": "date"},
    inspect.NoneType: {"type": "null"},
    inspect.AnyType: {},
}


def reference(name: str) -> Schema:
    """Return a reference to a named schema."""
    return {"$ref": f"#/components/schemas/{name}"}


class JsonSchemas:
    """Schemas of requests and responses, each described once under its name."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}

    def taken(self, model: Any) -> Schema:
        """Return the schema of a request body: a string for `bytes`, else a reference to the `Input`, added to `components`."""
        if model is bytes:
            return {"type": "string"}
        self._add(_short(model.__name__), _named(self._inner(model)))
        return reference(_short(model.__name__))

    def fields_taken(self, model: Any) -> dict[str, tuple[Schema, bool]]:
        """Return the fields of a query: name → (schema, whether required). Query fields cannot be null."""
        described = self._inner(model)
        required = described.get("required", ())
        return {name: (_without_null(_named(schema)), name in required) for name, schema in described["properties"].items()}

    def _inner(self, model: Any) -> Schema:
        """Add the schemas inside a model and return its own."""
        for name, schema in schema_of(model).get("$defs", {}).items():
            self._add(_short(name), _named(schema))
        return {name: schema for name, schema in schema_of(model).items() if name != "$defs"}

    def given(self, kind: Any) -> Schema:
        """Return the schema of the type of a response."""
        return self._schema(inspect.type_info(kind))

    def resolve(self, schema: Schema) -> Schema:
        """Return the schema that a `$ref` points to, or the schema itself."""
        found = schema.get("$ref")
        return schema if found is None else self.components[found.rsplit("/", 1)[1]]

    def _add(self, name: str, schema: Schema) -> None:
        """Add a component. Requests and responses, and enums with the same members, may share one."""
        known = self.components.setdefault(name, schema)
        if "enum" in schema and schema["enum"] == known.get("enum"):
            return
        if {**known, "additionalProperties": False} != {**schema, "additionalProperties": False}:
            raise TypeError(f"two schemas are called {name}")
        known.update(schema)

    def _schema(self, info: inspect.Type) -> Schema:
        match info:
            case inspect.Metadata(type=inner, extra_json_schema=extra):
                return self._schema(inner) | (extra or {})
            case inspect.StructType():
                return self._struct(info)
            case inspect.UnionType(types=types):
                return {"anyOf": [self._schema(option) for option in types]}
            case inspect.ListType() | inspect.VarTupleType():
                return {"type": "array", "items": self._schema(info.item_type)}
            case inspect.DictType(value_type=value):
                return {"type": "object", "additionalProperties": self._schema(value) or True}
            case inspect.EnumType(cls=cls):
                values = [member.value for member in cls]
                kind = "string" if all(isinstance(value, str) for value in values) else "integer"
                self._add(cls.__name__, {"type": kind, "enum": values, "description": _documentation(cls)})
                return reference(cls.__name__)
            case inspect.LiteralType(values=(only,)):
                return {"type": "string", "const": only}
        plain = dict(_PLAIN[type(info)])
        constraints = {"pattern": "pattern", "minimum": "ge", "maximum": "le"}
        found = {keyword: getattr(info, name, None) for keyword, name in constraints.items()}
        return plain | {keyword: value for keyword, value in found.items() if value is not None}

    def _struct(self, info: inspect.StructType) -> Schema:
        name = _name_of(info.cls)
        described: Schema = {"type": "object", "description": _documentation(info.cls)}
        if name not in self.components:
            self.components[name] = described  # before the fields are described: a field may refer to this struct
        described["properties"] = {field.encode_name: self._schema(field.type) for field in info.fields}
        if required := [field.encode_name for field in info.fields if not _may_be_unset(field)]:
            described["required"] = required
        self._add(name, described)
        return reference(name)


def _named(schema: Any) -> Any:
    """Return one of Pydantic's schemas with references to the names of components."""
    if isinstance(schema, list):
        return [_named(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _named(inner) for name, inner in schema.items()}
    if isinstance(found.get("$ref"), str):
        found["$ref"] = _short(found["$ref"])
    if isinstance(found.get("description"), str):
        found["description"] = _first_paragraph(found["description"])
    return found


def _short(name: str) -> str:
    return name.removesuffix("Input")


def _without_null(schema: Schema) -> Schema:
    if "anyOf" not in schema:
        return schema
    [only] = [option for option in schema["anyOf"] if option != {"type": "null"}]
    return {**only, **{name: value for name, value in schema.items() if name != "anyOf"}}


def _may_be_unset(field: inspect.Field) -> bool:
    return not field.required and field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT


def _name_of(cls: Any) -> str:
    origin = getattr(cls, "__origin__", None)
    if origin is None:
        return str(cls.__name__)
    return "And".join(_name_of(argument) for argument in cls.__args__) + str(origin.__name__)


def _documentation(cls: Any) -> str:
    """Return the first paragraph of a docstring, with the names of fields as in JSON."""
    cls = getattr(cls, "__origin__", cls)
    text = _first_paragraph(cls.__doc__ or "")
    if issubclass(cls, msgspec.Struct):
        for field in msgspec.structs.fields(cls):
            text = text.replace(f"`{field.name}`", f"`{field.encode_name}`")
    return text


def _first_paragraph(text: str) -> str:
    return re.sub(r" \(spec, [^)]*\)", "", " ".join(text.split("\n\n", 1)[0].split()))
