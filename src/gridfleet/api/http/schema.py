"""JSON Schema (2020-12) of the types that endpoints accept and return.

msgspec's own generator omits the format of times and does not state that unknown fields are refused. Responses always contain
every field, so they are described separately from request bodies.
"""

import re
from typing import Any, Literal

import msgspec
from msgspec import inspect

__all__ = ["JsonSchemas", "reference"]

Schema = dict[str, Any]


def reference(name: str) -> Schema:
    """Return a reference to a named schema."""
    return {"$ref": f"#/components/schemas/{name}"}


class JsonSchemas:
    """Schemas of structs, each described once under its name."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}
        self._names: dict[tuple[Any, str], str] = {}

    def taken(self, annotation: Any) -> Schema:
        """Return the schema of the type in requests."""
        return self._schema(inspect.type_info(annotation), "taken")

    def given(self, annotation: Any) -> Schema:
        """Return the schema of the type in responses."""
        return self._schema(inspect.type_info(annotation), "given")

    def fields_taken(self, annotation: Any) -> dict[str, tuple[Schema, bool]]:
        """Return the fields of a query struct: name → (schema, whether required). Query fields cannot be null."""
        info = inspect.type_info(annotation)
        if not isinstance(info, inspect.StructType):
            raise TypeError(f"{annotation} is no struct")
        return {
            field.encode_name: (_with_default(_without_null(self._schema(field.type, "taken")), field), field.required)
            for field in info.fields
        }

    def resolve(self, schema: Schema) -> Schema:
        """Return the schema that a `$ref` points to, or the schema itself."""
        reference = schema.get("$ref")
        return schema if reference is None else self.components[reference.rsplit("/", 1)[1]]

    def _schema(self, info: inspect.Type, way: Literal["taken", "given"]) -> Schema:
        match info:
            case inspect.Metadata(type=inner, extra_json_schema=added, extra=extra):
                schema = self._schema(inner, way)
                if way == "taken" and (extra or {}).get("null") is False:
                    schema = _without_null(schema)
                return {**schema, **(added or {})}
            case inspect.StructType():
                return self._struct(info, way)
            case inspect.UnionType(types=types):
                return _any_of([self._schema(option, way) for option in types])
            case inspect.ListType() | inspect.SetType() | inspect.FrozenSetType() | inspect.VarTupleType():
                items = {"type": "array", "items": self._schema(info.item_type, way)}
                return _present(items, minItems=info.min_length, maxItems=info.max_length)
            case inspect.DictType(value_type=value):
                free = isinstance(value, inspect.AnyType)
                return {"type": "object", "additionalProperties": True if free else self._schema(value, way)}
            case inspect.EnumType(cls=cls):
                return self._enum(cls)
        return _plain(info)

    def _enum(self, cls: Any) -> Schema:
        described = {**_choice([member.value for member in cls]), "description": _documentation(cls)}
        if self.components.setdefault(cls.__name__, described)["enum"] != described["enum"]:
            raise TypeError(f"two schemas are called {cls.__name__}")
        return reference(cls.__name__)

    def _struct(self, info: inspect.StructType, way: Literal["taken", "given"]) -> Schema:
        name = _name_of(info.cls)
        if (info.cls, way) not in self._names:
            self._names[info.cls, way] = name
            earlier = self.components.get(name)
            if earlier is None:
                self.components[name] = {}  # reserved before the fields are described: a field may refer to this struct
            described = self._describe(info, way)
            other_way = {**(earlier or {}), "additionalProperties": False}
            if earlier is not None and other_way != {**described, "additionalProperties": False}:
                raise TypeError(f"two schemas are called {name}")
            self.components[name].update(described)
        return reference(name)

    def _describe(self, info: inspect.StructType, way: Literal["taken", "given"]) -> Schema:
        properties: dict[str, Schema] = {}
        for field in info.fields:
            schema = self._schema(field.type, way)
            properties[field.encode_name] = _with_default(schema, field) if way == "taken" else schema
        required = [
            field.encode_name for field in info.fields if field.required or (way == "given" and not _may_be_unset(field))
        ]
        described: Schema = {"type": "object", "description": _documentation(info.cls), "properties": properties}
        if required:
            described["required"] = required
        if way == "taken" and not getattr(info.cls, "ignores_unknown", False):
            described["additionalProperties"] = False
        return described


def _plain(info: inspect.Type) -> Schema:
    match info:
        case inspect.StrType(min_length=low, max_length=high, pattern=pattern):
            return _present({"type": "string"}, minLength=low, maxLength=high, pattern=pattern)
        case inspect.IntType() | inspect.FloatType():
            return _present(
                {"type": "integer" if isinstance(info, inspect.IntType) else "number"},
                minimum=info.ge,
                exclusiveMinimum=info.gt,
                maximum=info.le,
                exclusiveMaximum=info.lt,
                multipleOf=info.multiple_of,
            )
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.UUIDType():
            return {"type": "string", "format": "uuid"}
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case inspect.DateType():
            return {"type": "string", "format": "date"}
        case inspect.LiteralType(values=(only,)):
            return {"type": "string" if isinstance(only, str) else "integer", "const": only}
        case inspect.LiteralType(values=values):
            return _choice(list(values))
        case inspect.NoneType():
            return {"type": "null"}
        case inspect.BytesType():
            return {"type": "string"}
        case inspect.AnyType() | inspect.RawType():
            return {}
    raise TypeError(f"no schema for {info}")


def _choice(values: list[Any]) -> Schema:
    return {"type": "string" if all(isinstance(value, str) for value in values) else "integer", "enum": values}


def _present(schema: Schema, **constraints: Any) -> Schema:
    return {**schema, **{name: value for name, value in constraints.items() if value is not None}}


def _any_of(options: list[Schema]) -> Schema:
    return options[0] if len(options) == 1 else {"anyOf": options}


def _without_null(schema: Schema) -> Schema:
    if "anyOf" not in schema:
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**_any_of([option for option in schema["anyOf"] if option != {"type": "null"}]), **rest}


def _with_default(schema: Schema, field: inspect.Field) -> Schema:
    default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    if default is msgspec.NODEFAULT or default is None or default is msgspec.UNSET:
        return schema
    return {**schema, "default": msgspec.json.decode(msgspec.json.encode(default))}


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
    text = " ".join((cls.__doc__ or "").split("\n\n", 1)[0].split())
    text = re.sub(r" \(spec, [^)]*\)", "", text)
    if issubclass(cls, msgspec.Struct):
        for field in msgspec.structs.fields(cls):
            text = text.replace(f"`{field.name}`", f"`{field.encode_name}`")
    return text
