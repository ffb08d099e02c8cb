import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { type ReactNode, useMemo, useState } from "react";
import { energy, power, sign, unsignedPower } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import type { Range } from "../plants";
import { HOURS } from "../searches/trading";
import { adherenceQuery, columnsOf, lastHours } from "../trading";
import { Chart } from "../ui/chart";
import { Choices } from "../ui/choices";
import { Failure } from "../ui/failure";
import { GridPower } from "../ui/grid-power";
import { Moment } from "../ui/moment";
import { useNow } from "../ui/now";
import { Section } from "../ui/section";
import { Swatch } from "../ui/swatch";
import { Table } from "../ui/table";

const route = getRouteApi("/inside/o/$slug/plants/$plantId/trading");
/** Milliseconds. A shorter range has no whole quarter of an hour. */
const LEAST_ZOOM = 1_800_000;

/** Ordered against measured power. */
export function SiteAdherence({ timeZone }: { timeZone: string }) {
  const texts = useTexts();
  const locale = useLocale();
  const now = useNow(60);
  const { organization } = route.useRouteContext();
  const { plantId } = route.useParams();
  const { hours = 24 } = route.useSearch();
  const navigate = route.useNavigate();
  const [zoom, setZoom] = useState<Range | null>(null);
  const range = zoom ?? lastHours(hours, now);
  const adherence = useQuery(adherenceQuery(organization.id, plantId, range));
  const { ordered, measured } = texts.trading;
  const columns = useMemo(
    () => adherence.data && columnsOf(adherence.data, ordered, measured),
    [adherence.data, ordered, measured],
  );
  const { data } = adherence;
  const isOrdered = data?.quarters.some(({ orderedKw }) => orderedKw !== null);
  return (
    <Section
      title={texts.trading.adherence}
      tools={
        <Choices
          label={texts.history.range}
          values={HOURS}
          chosen={zoom === null ? hours : null}
          labelOf={texts.trading.hours}
          onChoose={(one) => {
            setZoom(null);
            navigate({ search: (before) => ({ ...before, hours: one }), replace: true });
          }}
        />
      }
    >
      <Failure error={adherence.error} />
      {data !== undefined && !isOrdered && <p className="fine">{texts.trading.noOrder}</p>}
      {data !== undefined && columns !== undefined && isOrdered && (
        <figure className="card">
          <Chart
            columns={columns}
            timeZone={timeZone}
            label={texts.history.chart([ordered, measured])}
            onZoom={(chosen) => {
              if (Date.parse(chosen.to) - Date.parse(chosen.from) >= LEAST_ZOOM) setZoom(chosen);
            }}
          />
          <figcaption className="block">
            <dl className="facts">
              <Amount name={ordered} series={0}>
                {signedEnergy(data.comparedQuarters === 0 ? null : data.orderedKwh, locale, texts.fleet.gridWord)}
              </Amount>
              <Amount name={measured} series={1}>
                {signedEnergy(data.comparedQuarters === 0 ? null : data.deliveredKwh, locale, texts.fleet.gridWord)}
              </Amount>
              <Amount name={texts.trading.deviation}>{power(data.meanDeviationKw, locale)}</Amount>
            </dl>
            <p className="fine">{texts.trading.compared(data.comparedQuarters, timeZone)}</p>
            <details>
              <summary>{texts.trading.quarters}</summary>
              <Table
                headings={[
                  texts.trading.from,
                  { label: ordered, kind: "number" },
                  { label: measured, kind: "number" },
                  { label: texts.trading.difference, kind: "number" },
                ]}
              >
                {data.quarters.map((quarter) => (
                  <tr key={quarter.time}>
                    <th scope="row">
                      <Moment time={quarter.time} timeZone={timeZone} />
                    </th>
                    <td className="number">
                      <GridPower kilowatts={quarter.orderedKw} />
                    </td>
                    <td className="number">
                      <GridPower kilowatts={quarter.measuredKw} />
                    </td>
                    <td className="number">
                      {unsignedPower(quarter.deviationKw, locale)}{" "}
                      <span className="fine">{texts.trading.deviationWord(sign(quarter.deviationKw))}</span>
                    </td>
                  </tr>
                ))}
              </Table>
            </details>
          </figcaption>
        </figure>
      )}
    </Section>
  );
}

interface AmountProps {
  name: string;
  /** Index of its line in the chart. */
  series?: number;
  children: ReactNode;
}

function Amount({ name, series, children }: AmountProps) {
  return (
    <div>
      <dt className="fine">
        {series !== undefined && <Swatch index={series} />}
        {name}
      </dt>
      <dd>
        <strong>{children}</strong>
      </dd>
    </div>
  );
}

function signedEnergy(kilowattHours: number | null, locale: string, word: (sign: -1 | 0 | 1) => string): string {
  const amount = energy(kilowattHours && Math.abs(kilowattHours), locale);
  return `${amount} ${word(sign(kilowattHours))}`.trim();
}
