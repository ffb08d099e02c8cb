import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { filtersOf } from "../fleet";
import { count } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { atlasQuery, pointsOf } from "../map/atlas";
import { otherFiltersQuery } from "../map/filters";
import { textOfView, viewOfText } from "../map/view";
import { isTroubled, matching, type Place, placesQuery } from "../places";
import { STATUSES } from "../searches/fleet";
import { Failure } from "../ui/failure";
import { FleetMap } from "../ui/fleet-map";
import { LoadingPage } from "../ui/pages";
import { AlertState, PlantState } from "../ui/state";

const route = getRouteApi("/inside/o/$slug/fleet");
const MOST_LISTED = 50;

/** The plants that match the filters of the list, on a map. */
export function FleetMapScreen() {
  const texts = useTexts();
  const locale = useLocale();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { organization } = route.useRouteContext();
  const atlas = useQuery(atlasQuery);
  const all = useQuery(placesQuery(organization.id));
  const others = useQuery(otherFiltersQuery(organization.id, search));
  const ids = others.data;
  const { q, status, alert, lifecycleStatus, at } = search;
  const places = useMemo(() => {
    if (all.data === undefined || ids === undefined) return undefined;
    const found = matching(all.data.features, { q, status, alert, lifecycleStatus });
    return ids === null ? found : found.filter(({ id }) => ids.has(id));
  }, [all.data, ids, q, status, alert, lifecycleStatus]);
  const points = useMemo(() => places && pointsOf(places), [places]);
  // Ids, so that the list shows the newest states.
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const listed = places?.filter(({ id }) => chosen.has(id)) ?? [];
  if (atlas.data === undefined || places === undefined || points === undefined) {
    const error = atlas.error ?? all.error ?? others.error;
    return error ? <Failure error={error} /> : <LoadingPage />;
  }
  const troubled = places.filter(isTroubled).length;
  // How many of the plants without coordinates match is not known.
  const isFiltered = Object.values(filtersOf(search)).some((one) => one !== undefined);
  const shown = texts.map.count(count(places.length, locale), places.length);
  return (
    <section className="block" aria-label={texts.map.title}>
      <Failure error={all.error ?? others.error} />
      <p className="fine" role="status">
        {shown}, {texts.map.troubled(count(troubled, locale))}.
        {all.data !== undefined &&
          all.data.withoutPlace > 0 &&
          ` ${isFiltered ? texts.map.withoutPlaceFiltered : texts.map.withoutPlace(count(all.data.withoutPlace, locale), all.data.withoutPlace)}`}
        {q !== undefined && ` ${texts.map.namesOnly}`}
      </p>
      <FleetMap
        atlas={atlas.data}
        points={points}
        start={at === undefined ? undefined : viewOfText(at)}
        label={`${shown}. ${texts.map.keys}`}
        onView={(view) => {
          const text = view && textOfView(view);
          if (text !== at) {
            navigate({ search: (before) => ({ ...before, at: text }), replace: true, resetScroll: false });
          }
        }}
        onChoose={(found) => setChosen(new Set(found.map(({ place }) => place.id)))}
      />
      {listed.length > 0 && <Chosen places={listed} onClose={() => setChosen(new Set())} />}
      <ul className="legend fine">
        {STATUSES.map((one) => (
          <li key={one}>
            <PlantState status={one} />
          </li>
        ))}
        <li>
          <AlertState severity="WARNING" word={texts.fleet.conditions.WARNING} />
        </li>
        <li>{texts.map.ring}</li>
      </ul>
    </section>
  );
}

/** The plants of a mark. */
function Chosen({ places, onClose }: { places: readonly Place[]; onClose: () => void }) {
  const texts = useTexts();
  const locale = useLocale();
  const { slug } = route.useParams();
  return (
    <section className="card" aria-label={texts.map.chosen}>
      <ul className="found">
        {places.slice(0, MOST_LISTED).map(({ id, properties: { name, status, worstAlert } }) => (
          <li key={id} className="toolbar">
            <Link to="/o/$slug/plants/$plantId" params={{ slug, plantId: id }} className="grow">
              {name}
            </Link>
            <PlantState status={status} />
            {worstAlert !== null && <AlertState severity={worstAlert} />}
          </li>
        ))}
      </ul>
      {places.length > MOST_LISTED && (
        <p className="fine">{texts.map.others(count(places.length - MOST_LISTED, locale))}</p>
      )}
      <div className="toolbar">
        <button type="button" onClick={onClose}>
          {texts.close}
        </button>
      </div>
    </section>
  );
}
