import { getRouteApi } from "@tanstack/react-router";
import { Suspense } from "react";
import { rarerFiltersOf } from "../fleet";
import { useTexts } from "../i18n";
import { CONDITIONS, STATUSES } from "../searches/fleet";
import { Choices } from "../ui/choices";
import { FilterField } from "../ui/fields";
import { lazyPart } from "../ui/lazy-part";
import { Picker } from "../ui/picker";
import { SearchField } from "../ui/search-field";

const route = getRouteApi("/inside/o/$slug/fleet");
const RarerFilters = lazyPart(async () => (await import("./fleet-rarer-filters")).FleetRarerFilters);
/** What a plant may be: one status, or one of two. */
const CHOICES = STATUSES.flatMap((one, at) => [[one], ...STATUSES.slice(at + 1).map((other) => [one, other])]).sort(
  (one, other) => one.length - other.length,
);

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
        value={search.status?.join()}
        values={CHOICES.map((choice) => choice.join())}
        labels={Object.fromEntries(
          CHOICES.map((choice) => [choice.join(), choice.map((one) => texts.status[one]).join(", ")]),
        )}
        onChoose={(status) =>
          navigate({
            search: (before) => ({ ...before, status: CHOICES.find((choice) => choice.join() === status) }),
          })
        }
      />
      <FilterField
        label={texts.fleet.alerts}
        value={search.alert}
        values={CONDITIONS}
        labels={texts.fleet.conditions}
        onChoose={(alert) => navigate({ search: (before) => ({ ...before, alert }) })}
      />
      <Picker
        className="picker wide"
        label={texts.fleet.more(Object.values(rarerFiltersOf(search)).filter((one) => one !== undefined).length)}
      >
        <Suspense>
          <RarerFilters />
        </Suspense>
      </Picker>
      <Choices
        label={texts.map.view}
        values={["list", "map"]}
        chosen={search.view ?? "list"}
        labelOf={(view) => (view === "map" ? texts.map.title : texts.map.list)}
        onChoose={(view) =>
          navigate({
            search: ({ at: _at, ...before }) => ({ ...before, view: view === "map" ? "map" : undefined }),
          })
        }
      />
    </search>
  );
}
