import { getRouteApi } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { CONDITIONS, STATUSES, type Status } from "../searches/fleet";
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
      <label>
        {texts.fleet.status}
        <select
          value={search.status?.[0] ?? ""}
          onChange={({ target }) =>
            navigate({
              search: (before) => ({ ...before, status: target.value === "" ? undefined : [target.value as Status] }),
            })
          }
        >
          <option value="">{texts.fleet.all}</option>
          {STATUSES.map((one) => (
            <option key={one} value={one}>
              {texts.status[one]}
            </option>
          ))}
        </select>
      </label>
      <label>
        {texts.fleet.alerts}
        <select
          value={search.alert ?? ""}
          onChange={({ target }) =>
            navigate({
              search: (before) => ({ ...before, alert: CONDITIONS.find((one) => one === target.value) }),
            })
          }
        >
          <option value="">{texts.fleet.all}</option>
          {CONDITIONS.map((one) => (
            <option key={one} value={one}>
              {texts.fleet.conditions[one]}
            </option>
          ))}
        </select>
      </label>
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
