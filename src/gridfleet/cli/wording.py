"""Names of parameters and texts of validation errors on the command line."""

from collections.abc import Mapping
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

__all__ = ["PlainCommand", "PlainGroup", "use_plain_help", "what_is_wrong"]

_RULES: Final = {
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "bool_parsing": "must be true or false",
    "literal_error": "must be {expected}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
}


def what_is_wrong(complaint: Mapping[str, Any]) -> str:
    """Return an entry of pydantic's `ValidationError.errors()` as a rule that the value must satisfy."""
    rule = _RULES.get(complaint["type"])
    if rule is not None:
        return rule.format(**complaint.get("ctx", {}))
    text: str = complaint["msg"]
    return text.removeprefix("Value error, ").replace("Input should", "must", 1)


_NO_BRACES: Final = str.maketrans("", "", "{}")


class _Plain:
    """Arguments in capitals, switches without a type, and rules instead of pydantic's messages."""

    def get_params(self, ctx: Any) -> Any:
        parameters = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if parameter.metavar is None:
                parameter.metavar = _placeholder(parameter)
        return parameters

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.translate(_NO_BRACES) for piece in super().collect_usage_pieces(ctx)]  # type: ignore[misc]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            parsed: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except typer.BadParameter as error:
            # Typer repeats pydantic's first message, which names pydantic's own types.
            complaints = getattr(error.__cause__, "errors", None)
            if complaints is not None:
                error.message = what_is_wrong(complaints()[0])
            raise
        return parsed


class PlainCommand(_Plain, TyperCommand):
    """A command with plain help and errors."""


class PlainGroup(_Plain, TyperGroup):
    """A group of commands with plain help and errors."""


def use_plain_help(application: typer.Typer) -> None:
    """Apply plain help and errors to an application and all of its commands."""
    application.info.cls = PlainGroup
    for command in application.registered_commands:
        command.cls = PlainCommand
    for group in application.registered_groups:
        group.cls = PlainGroup
        if group.typer_instance is not None:
            use_plain_help(group.typer_instance)


def _placeholder(parameter: TyperArgument | TyperOption) -> str | None:
    if isinstance(parameter, TyperArgument):
        return str(parameter.name).upper()
    return "" if parameter.is_flag else None
