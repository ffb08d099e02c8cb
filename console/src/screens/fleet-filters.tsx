import { getRouteApi } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { CONDITIONS, STATUSES } from "../searches/fleet";
import { Choices } from "../ui/choices";
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
      <FilterField
        label={texts.fleet.messages}
        value={search.refused && "REFUSED"}
        values={["REFUSED"]}
        labels={texts.fleet.refusedLately}
        onChoose={(refused) =>
          navigate({ search: ({ view: _view, ...before }) => ({ ...before, refused: refused && true }) })
        }
      />
      <Choices
        label={texts.map.view}
        values={["list", "map"]}
        chosen={search.view ?? "list"}
        labelOf={(view) => (view === "map" ? texts.map.title : texts.map.list)}
        onChoose={(view) =>
          navigate({
            search: ({ at: _at, refused: _refused, ...before }) => ({
              ...before,
              view: view === "map" ? "map" : undefined,
            }),
          })
        }
      />
    </search>
  );
}
