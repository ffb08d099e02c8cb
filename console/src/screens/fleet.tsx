import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { apiOf, dataOf } from "../api/client";
import { age } from "../format/times";
import { useLanguage, useTexts } from "../i18n";
import { Failure } from "../ui/failure";
import { PlantState } from "../ui/state";

const route = getRouteApi("/inside/o/$slug");

export function FleetScreen() {
  const texts = useTexts();
  const language = useLanguage();
  const { organization } = route.useRouteContext();
  const plants = useQuery({
    queryKey: [organization.id, "plants"],
    queryFn: ({ signal }) =>
      dataOf(apiOf(organization.id).GET("/api/v1/plants", { params: { query: { limit: 100 } }, signal })),
  });
  const now = Date.now();
  return (
    <>
      <title>{`${texts.fleet.title} · ${organization.name}`}</title>
      <h1>{texts.fleet.title}</h1>
      <Failure error={plants.error} />
      {plants.data?.meta.total === 0 && (
        <div className="card empty">
          <h2>{texts.fleet.empty}</h2>
          <p>{texts.fleet.emptyHelp}</p>
        </div>
      )}
      {plants.data !== undefined && plants.data.meta.total > 0 && (
        <div className="table">
          <table>
            <thead>
              <tr>
                <th scope="col">{texts.fleet.name}</th>
                <th scope="col">{texts.fleet.serialNumber}</th>
                <th scope="col">{texts.fleet.status}</th>
                <th scope="col">{texts.fleet.lastSeen}</th>
              </tr>
            </thead>
            <tbody>
              {plants.data.data.map((plant) => (
                <tr key={plant.id}>
                  <td>
                    <Link to="/o/$slug/plants/$plantId" params={{ slug: organization.slug, plantId: plant.id }}>
                      {plant.name}
                    </Link>
                  </td>
                  <td>{plant.serialNumber}</td>
                  <td>
                    <PlantState status={plant.status} />
                  </td>
                  <td>{plant.lastSeenAt === null ? texts.fleet.never : age(plant.lastSeenAt, now, language)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}
