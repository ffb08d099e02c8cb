"""The plants that a list covers: those that the caller may see, and of them the one that a filter names."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

__all__ = ["ChosenPlants"]

_MANY: Final = 100
"""From this number of plants on, an organisation's rows are read in their order instead of those of each plant."""


@dataclass(frozen=True, slots=True)
class ChosenPlants:
    """The ids of the plants; None means every plant of the organisation."""

    ids: frozenset[UUID] | None

    @classmethod
    def of(cls, visible: frozenset[UUID] | None, wanted: UUID | None) -> "ChosenPlants":
        """Return the wanted plant, or all visible ones if it is None."""
        if wanted is None:
            return cls(visible)
        return cls(frozenset({wanted} if visible is None else visible & {wanted}))

    @property
    def are_few(self) -> bool:
        """Whether the rows of each plant should be read, by an index that begins with the plant."""
        return self.ids is not None and len(self.ids) < _MANY

    def condition(self, column: str) -> str:
        """Return the SQL condition that a row's plant, in `column`, is one of these, for many plants. See `parameters`.

        A hash table of the plants: `= ANY` compares them one by one in the plan of a prepared statement. IS TRUE: otherwise the
        planner may look each of the plants up.
        """
        return "true" if self.ids is None else f"({column} IN (SELECT unnest(%(plants)s::uuid[]))) IS TRUE"

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameter of the conditions: `plants`."""
        return {} if self.ids is None else {"plants": list(self.ids)}
