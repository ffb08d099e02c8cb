import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { exact, sign, unsignedPower } from "../format/quantities";
import { dateTime } from "../format/times";
import { localText, parseLocal } from "../format/zones";
import { useLocale, useTexts } from "../i18n";
import { pastQuery } from "../trading";
import { Failure } from "../ui/failure";
import { Field } from "../ui/fields";
import { GridPower } from "../ui/grid-power";
import { Moment } from "../ui/moment";
import { useNow } from "../ui/now";
import { Section } from "../ui/section";
import { Table } from "../ui/table";

const route = getRouteApi("/inside/o/$slug/plants/$plantId/trading");
/** Steps of a schedule that are shown at once. */
const MOST_SHOWN = 24;

/** The schedule and the plan now or at an earlier time. */
export function SiteSchedule({ timeZone }: { timeZone: string }) {
  const texts = useTexts();
  const locale = useLocale();
  const now = useNow(10);
  const { organization } = route.useRouteContext();
  const { plantId } = route.useParams();
  const { at } = route.useSearch();
  const navigate = route.useNavigate();
  // While a user types in the field, it keeps that text: setting its value ends a number of which one digit is typed.
  const [typed, setTyped] = useState<string | null>(null);
  const past = useQuery(pastQuery(organization.id, plantId, at));
  const moment = at === undefined ? now : Date.parse(at);
  const batteryPower = (kilowatts: number) =>
    `${unsignedPower(kilowatts, locale)} ${texts.fleet.batteryWord(sign(kilowatts))}`.trim();
  const { schedule, plan } = past.data ?? { schedule: null, plan: null };
  return (
    <Section
      title={texts.trading.schedule}
      tools={
        <>
          <Field
            label={texts.trading.at(timeZone)}
            type="datetime-local"
            value={typed ?? localText(timeZone, moment)}
            max={localText(timeZone, now)}
            onBlur={() => setTyped(null)}
            onChange={({ target }) => {
              setTyped(target.value);
              const time = parseLocal(timeZone, target.value);
              // A year of which three digits are typed is one before 1970.
              if (time === undefined || time < 0 || time > Date.now()) return;
              navigate({ search: (before) => ({ ...before, at: new Date(time).toISOString() }), replace: true });
            }}
          />
          {at !== undefined && (
            <button
              type="button"
              onClick={() => navigate({ search: (before) => ({ ...before, at: undefined }), replace: true })}
            >
              {texts.trading.now}
            </button>
          )}
        </>
      }
    >
      <Failure error={past.error} />
      {past.data !== undefined && schedule === null && <p className="fine">{texts.trading.noSchedule}</p>}
      {schedule !== null && (
        <>
          <p className="fine">
            {texts.trading.revision(schedule.scheduleId, schedule.revision)}
            {past.data?.scheduleSetAt && ` ${texts.trading.setAt(dateTime(past.data.scheduleSetAt, timeZone, locale))}`}
          </p>
          <details open={schedule.intervals.length <= MOST_SHOWN}>
            <summary>{texts.trading.steps(schedule.intervals.length)}</summary>
            <Table headings={[texts.trading.from, texts.trading.to, { label: texts.trading.power, kind: "number" }]}>
              {schedule.intervals.map(({ start, durationSeconds, powerKw }) => {
                const begin = Date.parse(start);
                const end = begin + durationSeconds * 1000;
                const isCurrent = begin <= moment && moment < end;
                return (
                  <tr key={start} className={isCurrent ? "current" : undefined} aria-current={isCurrent || undefined}>
                    <th scope="row">
                      <Moment time={start} timeZone={timeZone} />
                    </th>
                    <td>
                      <Moment time={new Date(end).toISOString()} timeZone={timeZone} />
                    </td>
                    <td className="number">
                      <GridPower kilowatts={powerKw} />
                    </td>
                  </tr>
                );
              })}
            </Table>
          </details>
        </>
      )}
      {plan !== null && (
        <>
          <h3>{texts.trading.plan}</h3>
          <p className="fine">{texts.trading.planSent(dateTime(plan.sentAt, timeZone, locale))}</p>
          <Table
            headings={[
              texts.trading.fromUtc,
              texts.trading.toUtc,
              { label: texts.fleet.battery, kind: "number" },
              { label: texts.fleet.soc, kind: "number" },
            ]}
          >
            {plan.timeConfigs.map((block) => (
              <tr key={block.from}>
                <th scope="row">{block.from}</th>
                <td>{block.to}</td>
                <td className="number">
                  {batteryPower(block.pBatMin)} – {batteryPower(block.pBatMax)}
                </td>
                <td className="number">
                  {exact(block.socMin, "%", locale)} – {exact(block.socMax, "%", locale)}
                </td>
              </tr>
            ))}
          </Table>
        </>
      )}
    </Section>
  );
}
