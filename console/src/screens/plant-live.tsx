import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { type FleetPlant, fleetPlantQuery } from "../fleet";
import { rangeOfPeriod } from "../format/zones";
import { useTexts } from "../i18n";
import { alarmOf, type MetricName, partsOf, useMetricNames, valueWord } from "../metrics";
import { energyQuery, latestQuery, type Point, useTimeZone } from "../plants";
import { dateOf } from "../searches/energy";
import { Age } from "../ui/age";
import { EnergyFlow } from "../ui/energy-flow";
import { Failure } from "../ui/failure";
import { useNow } from "../ui/now";
import { SignedNumber } from "../ui/signed-number";
import { AlertState } from "../ui/state";

const route = getRouteApi("/inside/o/$slug/plants/$plantId");

/**
 * A value that is so much older than the plant's power is stale, and each is if the power is no longer fresh: by the service's
 * rule, after this time or three usual intervals. Without a power, after this time.
 */
const STALE_AFTER = 15 * 60_000;

/** The energy flow of a plant, and every newest value by device, with its unit; its age stands once where it is the same. */
export function PlantLiveScreen() {
  const texts = useTexts();
  const { organization } = route.useRouteContext();
  const { plantId } = route.useParams();
  const timeZone = useTimeZone(organization, plantId);
  const latest = useQuery({ ...latestQuery(organization.id, plantId), refetchInterval: 15_000 });
  const row = useQuery(fleetPlantQuery(organization.id, plantId));
  // Not the count of the fleet's row: until an hour is over, that lacks values that came late.
  const range = rangeOfPeriod(timeZone, "day", dateOf({}, timeZone));
  const today = useQuery({
    ...energyQuery(organization.id, plantId, range, "1 hour", timeZone),
    refetchInterval: 15_000,
  });
  const nameOf = useMetricNames(organization.id, plantId, texts.templates.labelOf);
  if (latest.data?.length === 0) {
    return (
      <div className="card empty">
        <h2>{texts.plant.noValues}</h2>
        <p>{texts.plant.noValuesHelp}</p>
      </div>
    );
  }
  return (
    <>
      <Failure error={latest.error ?? row.error ?? today.error} />
      {row.data?.power && (
        <EnergyFlow plant={row.data} power={row.data.power} today={today.data?.total} timeZone={timeZone} />
      )}
      <div className="cards">
        {[...byDevice(latest.data ?? [])].map(([device, points]) => (
          <Device
            key={device}
            externalId={device}
            points={points}
            power={row.data?.power}
            nameOf={nameOf}
            timeZone={timeZone}
          />
        ))}
      </div>
    </>
  );
}

interface DeviceProps {
  /** "" for the plant itself. */
  externalId: string;
  /** At least one. */
  points: Point[];
  power: FleetPlant["power"] | undefined;
  nameOf: (metric: string) => MetricName;
  timeZone: string;
}

function Device({ externalId, points, power, nameOf, timeZone }: DeviceProps) {
  const texts = useTexts();
  const now = useNow(1);
  const fresh = (power ? Date.parse(power.measuredAt) : now) - STALE_AFTER;
  const named = points.map((point) => {
    const { device, label, signal } = nameOf(point.metric);
    return { ...point, device, label, signal, alarm: alarmOf(signal, point.value) };
  });
  // What is wrong comes first.
  named.sort((one, other) => Number(other.alarm !== undefined) - Number(one.alarm !== undefined));
  const name = named[0]?.device || externalId || texts.plant.plantItself;
  const newest = points.reduce(
    (time, point) => (Date.parse(point.time) > Date.parse(time) ? point.time : time),
    points[0]?.time ?? "",
  );
  return (
    <section className="card device">
      <h2>
        {name}{" "}
        <span className="fine">
          {!name.includes(externalId) && `${externalId} · `}
          <Age time={newest} now={now} timeZone={timeZone} />
        </span>
      </h2>
      <table>
        <thead className="hidden">
          <tr>
            <th scope="col">{texts.plant.metric}</th>
            <th scope="col">{texts.plant.value}</th>
          </tr>
        </thead>
        <tbody>
          {named.map(({ metric, value, unit, time, label, signal, alarm }) => {
            const word = valueWord(signal, value, texts.templates.bitValue);
            return (
              <tr key={metric} className={power?.fresh === false || Date.parse(time) < fresh ? "stale" : ""}>
                <th scope="row" title={metric}>
                  {label}
                  {time !== newest && (
                    <span className="fine">
                      <Age time={time} now={now} timeZone={timeZone} />
                    </span>
                  )}
                </th>
                <td className="number">
                  {alarm !== undefined && word !== null ? (
                    <AlertState severity={alarm} word={word} />
                  ) : (
                    (word ?? <SignedNumber signal={signal} value={value} unit={unit} />)
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

/** Return the points by the external id of their device, "" for those of the plant itself. */
function byDevice(points: Point[]): Map<string, Point[]> {
  const found = new Map<string, Point[]>();
  for (const point of points) {
    const [device] = partsOf(point.metric);
    found.set(device, [...(found.get(device) ?? []), point]);
  }
  return found;
}
