import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { STATES } from "../searches/trading";
import type { SessionOrganization } from "../session";
import { type Site, sitesQuery } from "../trading";
import { Failure } from "../ui/failure";
import { FilterField } from "../ui/fields";
import { GridPower } from "../ui/grid-power";
import { Moment } from "../ui/moment";
import { Pager } from "../ui/pager";
import { PlantHeading } from "../ui/plant-heading";
import { SearchField } from "../ui/search-field";
import { Section } from "../ui/section";
import { PlantState } from "../ui/state";
import { ListTable } from "../ui/table";
import { Total } from "../ui/total";

const route = getRouteApi("/inside/o/$slug/trading");

/** The sites of the organisation with what partners have set there. */
export function Sites() {
  const texts = useTexts();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { organization } = route.useRouteContext();
  const sites = useQuery(sitesQuery(organization.id, search));
  const total = sites.data?.meta.total;
  return (
    <Section title={texts.trading.sites}>
      <search className="toolbar">
        <SearchField
          label={texts.fleet.search}
          value={search.q}
          onSearch={(q) => navigate({ search: ({ state }) => ({ state, q }), replace: true })}
        />
        <FilterField
          label={texts.trading.state}
          value={search.state}
          values={STATES}
          labels={texts.trading.states}
          onChoose={(state) => navigate({ search: ({ q }) => ({ q, state }) })}
        />
      </search>
      <Failure error={sites.error} />
      <Total total={total} text={texts.trading.count} />
      <ListTable
        rows={sites.data?.data}
        headings={[
          texts.trading.site,
          texts.fleet.status,
          texts.trading.mode,
          texts.trading.fallback,
          texts.trading.schedule,
        ]}
      >
        {(site) => <Row key={site.siteId} site={site} organization={organization} />}
      </ListTable>
      <Pager meta={sites.data?.meta} onPage={(page) => navigate({ search: (before) => ({ ...before, page }) })} />
    </Section>
  );
}

function Row({ site, organization }: { site: Site; organization: SessionOrganization }) {
  const texts = useTexts();
  const { modeOverride: override, fallback, schedule } = site;
  const { slug, timeZone } = organization;
  const time = (text: string) => <Moment time={text} timeZone={timeZone} />;
  return (
    <tr>
      <PlantHeading slug={slug} plant={{ ...site, id: site.siteId }} tab="trading" />
      <td>
        <PlantState status={site.status} />
      </td>
      <td>
        {texts.trading.modes[site.operatingMode]}
        {override !== null && (
          <span className="fine">
            {override.expiresAt === null ? (
              texts.trading.endless
            ) : (
              <>
                {texts.trading.until} {time(override.expiresAt)}
              </>
            )}
          </span>
        )}
      </td>
      <td>
        {fallback.mode === null || fallback.afterSeconds === null ? (
          texts.trading.none
        ) : (
          <>
            {texts.trading.modes[fallback.mode]}
            <span className="fine">
              {site.fallbackSince === null ? (
                texts.trading.afterSilence(fallback.afterSeconds)
              ) : (
                <strong>
                  {texts.trading.activeSince} {time(site.fallbackSince)}
                </strong>
              )}
            </span>
          </>
        )}
      </td>
      <td>
        {schedule === null ? (
          texts.trading.none
        ) : (
          <>
            {schedule.powerKw === null ? texts.trading.pause : <GridPower kilowatts={schedule.powerKw} />}
            <span className="fine">
              {texts.trading.until} {time(schedule.changesAt)}
            </span>
          </>
        )}
      </td>
    </tr>
  );
}
