import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { changeAlerts, idsOfAlerts, MOST_CHOSEN } from "../alert-changes";
import { useAlertTitles } from "../alert-texts";
import { type Alert, alertsQuery, OPEN } from "../alerts";
import { count } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { useTimeZone } from "../plants";
import { type AlertSearch, STATUSES } from "../searches/alerts";
import { mayAct } from "../session";
import { SEVERITIES } from "../severities";
import { Age } from "../ui/age";
import { Failure } from "../ui/failure";
import { CheckField, Options } from "../ui/fields";
import { useNow } from "../ui/now";
import { Pager } from "../ui/pager";
import { AlertState } from "../ui/state";
import { ListTable } from "../ui/table";
import { TimeFilter } from "../ui/time-filter";
import { Total } from "../ui/total";

const route = getRouteApi("/inside/o/$slug");

/** Alerts that were chosen. */
interface Chosen {
  ids: ReadonlySet<string>;
  /** The filters that all alerts match which were chosen at once. Without them, one of another page does not count. */
  filters?: string;
}

const NONE: Chosen = { ids: new Set() };

interface Props {
  /** Without it, the alerts of all plants. */
  plantId?: string;
  search: AlertSearch;
  onSearch: (search: AlertSearch) => void;
}

/** Alerts, open ones first to see, several to acknowledge or resolve at once. */
export function AlertList({ plantId, search, onSearch }: Props) {
  const texts = useTexts();
  const { organization, user } = route.useRouteContext();
  const queryClient = useQueryClient();
  const list = useQuery(alertsQuery(organization.id, search, plantId));
  const [lastChosen, setChosen] = useState(NONE);
  const acknowledging = useRef<HTMLButtonElement>(null);
  const alerts = list.data?.data ?? [];
  const filters = JSON.stringify({ ...search, page: undefined });
  const chosen = lastChosen.filters === undefined || lastChosen.filters === filters ? lastChosen : NONE;
  // Those of another page or of other filters are not shown, and are not changed, unless all were chosen.
  const ids =
    chosen.filters === filters ? [...chosen.ids] : alerts.map(({ id }) => id).filter((id) => chosen.ids.has(id));
  const isWholePage = alerts.length > 0 && alerts.every(({ id }) => chosen.ids.has(id));
  const total = list.data?.meta.total ?? 0;
  const refresh = () => queryClient.invalidateQueries({ queryKey: [organization.id] });
  const change = useMutation({
    mutationFn: (to: "acknowledge" | "resolve") => changeAlerts(organization.id, to, ids),
    onSuccess: () => setChosen(NONE),
    onSettled: refresh,
  });
  const chooseMatching = useMutation({
    // With the filters of this moment: others may be shown before all alerts are found.
    mutationFn: async () => ({ ids: await idsOfAlerts(organization.id, search, plantId), filters }),
    onSuccess: (all) => {
      // The keyboard stays at the buttons, of which this one disappears.
      acknowledging.current?.focus();
      setChosen(all);
    },
  });
  const timeZone = useTimeZone(organization, plantId);
  const locale = useLocale();
  const canChange = mayAct(user, organization, "OPERATOR");
  const shown = search.status ?? OPEN;
  // Other filters begin with their first page.
  const filter = (changes: Partial<AlertSearch>) => onSearch({ ...search, ...changes, page: undefined });
  return (
    <>
      <div className="toolbar">
        <label>
          {texts.alerts.status}
          <select
            value={shown.length === 2 ? "OPEN" : shown.length === 3 ? "ALL" : shown[0]}
            onChange={({ target }) =>
              filter({
                status:
                  target.value === "OPEN" ? undefined : STATUSES.filter((one) => [one, "ALL"].includes(target.value)),
              })
            }
          >
            <option value="OPEN">{texts.alerts.open}</option>
            <Options values={STATUSES} labels={texts.alerts.states} />
            <option value="ALL">{texts.fleet.all}</option>
          </select>
        </label>
        <fieldset className="checks">
          <legend>{texts.alerts.severity}</legend>
          {SEVERITIES.map((one) => (
            <CheckField
              key={one}
              checked={search.severity?.includes(one) ?? false}
              onChange={({ target }) =>
                filter({
                  severity: SEVERITIES.filter((other) =>
                    other === one ? target.checked : search.severity?.includes(other),
                  ),
                })
              }
            >
              {texts.severity[one]}
            </CheckField>
          ))}
        </fieldset>
        <TimeFilter
          key={`${search.from} ${search.to} ${timeZone}`}
          times={search}
          timeZone={timeZone}
          onChoose={filter}
        />
      </div>
      <Failure error={list.error ?? change.error ?? chooseMatching.error} />
      <Total total={list.data?.meta.total} text={texts.alerts.count} />
      {canChange && ids.length > 0 && (
        <div className="toolbar bulk">
          <strong>{texts.alerts.chosen(count(ids.length, locale))}</strong>
          {isWholePage && ids.length < Math.min(total, MOST_CHOSEN) && (
            <button type="button" onClick={() => chooseMatching.mutate()} disabled={chooseMatching.isPending}>
              {total > MOST_CHOSEN
                ? texts.alerts.chooseFirst(count(MOST_CHOSEN, locale))
                : texts.alerts.chooseMatching(count(total, locale))}
            </button>
          )}
          <button
            type="button"
            ref={acknowledging}
            onClick={() => change.mutate("acknowledge")}
            disabled={change.isPending}
          >
            {texts.alerts.acknowledge}
          </button>
          <button type="button" onClick={() => change.mutate("resolve")} disabled={change.isPending}>
            {texts.alerts.resolve}
          </button>
        </div>
      )}
      {list.data?.meta.total === 0 && (
        <p className="card empty">
          {Object.values({ ...search, page: undefined }).some(Boolean) ? texts.alerts.none : texts.alerts.noneOpen}
        </p>
      )}
      <ListTable
        rows={alerts}
        headings={[
          ...(canChange
            ? [
                {
                  label: texts.alerts.chooseAll,
                  content: (
                    <input
                      type="checkbox"
                      aria-label={texts.alerts.chooseAll}
                      checked={isWholePage}
                      onChange={({ target }) =>
                        setChosen(target.checked ? { ids: new Set(alerts.map(({ id }) => id)) } : NONE)
                      }
                    />
                  ),
                },
              ]
            : []),
          texts.alerts.severity,
          texts.alerts.what,
          ...(plantId === undefined ? [texts.fleet.name] : []),
          texts.alerts.raised,
          texts.alerts.status,
        ]}
      >
        {(alert) => (
          <Row
            key={alert.id}
            alert={alert}
            slug={organization.slug}
            timeZone={timeZone}
            isOfPlant={plantId !== undefined}
            isChosen={ids.includes(alert.id)}
            onChoose={
              canChange &&
              ((isChosen) =>
                setChosen({
                  ...chosen,
                  ids: new Set(isChosen ? [...chosen.ids, alert.id] : [...chosen.ids].filter((id) => id !== alert.id)),
                }))
            }
          />
        )}
      </ListTable>
      <Pager meta={list.data?.meta} onPage={(page) => onSearch({ ...search, page })} />
    </>
  );
}

interface RowProps {
  alert: Alert;
  slug: string;
  timeZone: string;
  /** Whether only the alerts of one plant are shown. */
  isOfPlant: boolean;
  isChosen: boolean;
  onChoose: false | ((isChosen: boolean) => void);
}

function Row({ alert, slug, timeZone, isOfPlant, isChosen, onChoose }: RowProps) {
  const texts = useTexts();
  const now = useNow(10);
  const title = useAlertTitles()(alert);
  return (
    <tr>
      {onChoose && (
        <td>
          <input
            type="checkbox"
            aria-label={texts.alerts.choose(isOfPlant ? title : `${title} · ${alert.plantName}`)}
            checked={isChosen}
            onChange={({ target }) => onChoose(target.checked)}
          />
        </td>
      )}
      <td>
        <AlertState severity={alert.severity} />
      </td>
      <th scope="row" className="wrap">
        <Link to="/o/$slug/alerts/$alertId" params={{ slug, alertId: alert.id }}>
          {title}
        </Link>
        {alert.ruleName !== null && <span className="fine">{alert.ruleName}</span>}
      </th>
      {!isOfPlant && (
        <td>
          <Link to="/o/$slug/plants/$plantId" params={{ slug, plantId: alert.plantId }}>
            {alert.plantName}
          </Link>
        </td>
      )}
      <td>
        <Age time={alert.createdAt} now={now} timeZone={timeZone} short />
      </td>
      <td>
        {texts.alerts.states[alert.status]}
        {alert.acknowledgedByName !== null && <span className="fine"> {alert.acknowledgedByName}</span>}
      </td>
    </tr>
  );
}
