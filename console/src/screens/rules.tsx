import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { useSharedNames } from "../alert-texts";
import { apiOf, dataOf } from "../api/client";
import { exact } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { type AlertRule, rulesQuery } from "../rules";
import { mayAct } from "../session";
import { Age } from "../ui/age";
import { useChoice } from "../ui/choice";
import { Confirm } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { useNow } from "../ui/now";
import { PageHead } from "../ui/page-head";
import { Pager } from "../ui/pager";
import { PlantName } from "../ui/plant-name";
import { Saved } from "../ui/saved";
import { AlertState } from "../ui/state";
import { ListTable } from "../ui/table";

const route = getRouteApi("/inside/o/$slug/rules");

/** The rules that raise alerts. */
export function RulesScreen() {
  const texts = useTexts();
  const locale = useLocale();
  const now = useNow(10);
  const queryClient = useQueryClient();
  const { user, organization } = route.useRouteContext();
  const { id: organizationId, slug } = organization;
  const { page = 1 } = route.useSearch();
  const navigate = route.useNavigate();
  const nameOf = useSharedNames();
  const rules = useQuery(rulesQuery(organizationId, page));
  const [deleting, setDeleting] = useState<AlertRule | null>(null);
  const reload = () => queryClient.invalidateQueries({ queryKey: [organizationId, "rules"] });
  const { chosen, change, choose } = useChoice(
    ({ id, enabled }: { id: string; enabled: boolean }) =>
      dataOf(apiOf(organizationId).PATCH("/api/v1/alert-rules/{id}", { params: { path: { id } }, body: { enabled } })),
    reload,
  );
  const mayChange = mayAct(user, organization, "OPERATOR");
  return (
    <>
      <PageHead title={texts.rules.title} of={organization.name}>
        {mayChange && (
          <>
            <Saved change={change} />
            <Link to="/o/$slug/rules/new" params={{ slug }} className="button primary">
              {texts.rules.add}
            </Link>
          </>
        )}
      </PageHead>
      <Failure error={rules.error ?? change.error} />
      {rules.data?.meta.total === 0 && <p className="card empty">{texts.rules.none}</p>}
      <ListTable
        rows={rules.data?.data}
        headings={[
          texts.rules.enabled,
          texts.rules.rule,
          texts.rules.plant,
          texts.alerts.severity,
          texts.rules.last,
          { label: texts.rules.delete, kind: "hidden" },
        ]}
      >
        {(rule) => (
          <tr key={rule.id}>
            <td>
              <input
                type="checkbox"
                aria-label={texts.rules.isEnabled(rule.name)}
                checked={chosen?.id === rule.id ? chosen.enabled : rule.enabled}
                disabled={!mayChange || change.isPending}
                onChange={({ target }) => choose({ id: rule.id, enabled: target.checked })}
              />
            </td>
            <th scope="row" className="wrap">
              <Link to="/o/$slug/rules/$ruleId" params={{ slug, ruleId: rule.id }}>
                {rule.name}
              </Link>
              <span className="fine">
                {texts.rules.conditions[rule.condition](
                  nameOf(rule.metric, false),
                  exact(rule.threshold, rule.unit, locale),
                )}
              </span>
            </th>
            <td>
              {rule.plantId === null ? (
                texts.rules.allPlants
              ) : (
                <PlantName organizationId={organizationId} slug={slug} plantId={rule.plantId} />
              )}
            </td>
            <td>
              <AlertState severity={rule.severity} />
            </td>
            <td>
              <Age time={rule.lastTriggeredAt} now={now} timeZone={organization.timeZone} short />
            </td>
            <td className="number">
              {mayChange && (
                <button type="button" onClick={() => setDeleting(rule)}>
                  {texts.rules.delete}
                </button>
              )}
            </td>
          </tr>
        )}
      </ListTable>
      <Pager meta={rules.data?.meta} onPage={(next) => navigate({ search: { page: next } })} />
      {deleting !== null && (
        <Confirm
          title={texts.rules.deleteTitle(deleting.name)}
          consequence={texts.rules.deleteConsequence}
          name={deleting.name}
          action={texts.rules.delete}
          run={async () => {
            const params = { path: { id: deleting.id } };
            await dataOf(apiOf(organizationId).DELETE("/api/v1/alert-rules/{id}", { params }));
            await reload();
          }}
          onClose={() => setDeleting(null)}
        />
      )}
    </>
  );
}
