import { getRouteApi } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { CONDITIONS, STATUSES } from "../searches/fleet";
import { FilterField } from "../ui/fields";
import { SearchField } from "../ui/search-field";

const route = getRouteApi("/inside/o/$slug/fleet");

/** What is listed, and whether as a table or a map. */
export function FleetFilters() {
  const texts = useTexts();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <search className="toolbar">
      <SearchField
        label={texts.fleet.search}
        value={search.q}
        onSearch={(q) => navigate({ search: (before) => ({ ...before, q }), replace: true })}
      />
      <FilterField
        label={texts.fleet.status}
        value={search.status?.[0]}
        values={STATUSES}
        labels={texts.status}
        onChoose={(status) => navigate({ search: (before) => ({ ...before, status: status && [status] }) })}
      />
      <FilterField
        label={texts.fleet.alerts}
        value={search.alert}
        values={CONDITIONS}
        labels={texts.fleet.conditions}
        onChoose={(alert) => navigate({ search: (before) => ({ ...before, alert }) })}
      />
      <fieldset className="choices">
        <legend className="hidden">{texts.map.view}</legend>
        {([undefined, "map"] as const).map((view) => (
          <button
            key={view ?? "list"}
            type="button"
            aria-pressed={search.view === view}
            onClick={() => navigate({ search: ({ at: _at, ...before }) => ({ ...before, view }) })}
          >
            {view === "map" ? texts.map.title : texts.map.list}
          </button>
        ))}
      </fieldset>
    </search>
  );
}
