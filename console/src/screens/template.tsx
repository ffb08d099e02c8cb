import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, dataOf } from "../api/client";
import { actionsOf, type DeviceTemplate } from "../devices";
import { count } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { signalsOf, templateQuery, usageQuery } from "../templates";
import { Confirm } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { More } from "../ui/more";
import { PlantHeading } from "../ui/plant-heading";
import { Section } from "../ui/section";
import { PlantState } from "../ui/state";
import { SubPageHead } from "../ui/sub-page-head";
import { ListTable } from "../ui/table";
import { SignalTable } from "./signal-table";

const route = getRouteApi("/inside/o/$slug/templates/$templateId");

/** A template: its signals, with values to try, its actions, and the plants that use it. */
export function TemplateScreen() {
  const texts = useTexts();
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const { user, organization } = route.useRouteContext();
  const { slug, templateId } = route.useParams();
  const { data: template, error } = useQuery(templateQuery(templateId));
  const [isDeleting, setIsDeleting] = useState(false);
  return (
    <>
      <SubPageHead title={template?.name ?? texts.templates.template} organization={organization}>
        <Link to="/o/$slug/templates" params={{ slug }}>
          {texts.templates.title}
        </Link>
      </SubPageHead>
      <Failure error={error} />
      {template && (
        <>
          <p className="facts">
            <span>{texts.templates.version(template.version)}</span>
            {template.level === "SUB_DEVICE" && <span>{texts.devices.types[template.type]}</span>}
            <span>{texts.templates.levels[template.level]}</span>
            {template.isSystem && <span>{texts.templates.system}</span>}
          </p>
          {user.isSuperAdmin && (
            <div className="toolbar">
              {!template.isSystem && (
                <>
                  <Link to="/o/$slug/templates/$templateId/edit" params={{ slug, templateId }} className="button">
                    {texts.templates.edit}
                  </Link>
                  <button type="button" className="danger" onClick={() => setIsDeleting(true)}>
                    {texts.templates.delete}
                  </button>
                </>
              )}
              <Link to="/o/$slug/templates/new" params={{ slug }} search={{ from: templateId }} className="button">
                {texts.templates.copy}
              </Link>
            </div>
          )}
          <SignalTable signals={signalsOf(template)} />
          <Actions template={template} />
          <Users organizationId={organization.id} slug={slug} templateId={templateId} />
        </>
      )}
      {isDeleting && template && (
        <Confirm
          title={texts.templates.deleteTitle(template.name)}
          consequence={texts.templates.deleteConsequence}
          name={template.name}
          action={texts.templates.delete}
          run={async () => {
            await dataOf(api.DELETE("/api/v1/device-templates/{id}", { params: { path: { id: templateId } } }));
            await navigate({ to: "/o/$slug/templates", params: { slug } });
            await queryClient.invalidateQueries({ queryKey: ["templates"] });
          }}
          onClose={() => setIsDeleting(false)}
        />
      )}
    </>
  );
}

function Actions({ template }: { template: DeviceTemplate }) {
  const texts = useTexts();
  const actions = actionsOf(template);
  return (
    <Section title={texts.templates.actions}>
      <ListTable
        rows={actions}
        none={texts.templates.noActions}
        label={texts.templates.actions}
        headings={[texts.devices.action, texts.templates.parameters, texts.templates.timeout]}
      >
        {({ action, label, params = [], timeoutSeconds = 30 }) => (
          <tr key={action}>
            <th scope="row">
              {texts.templates.labelOf(label ?? action)}
              {label !== undefined && <span className="fine">{action}</span>}
            </th>
            <td className="wrap">
              {params
                .map(({ name, type, unit }) => `${name}: ${type}${unit === undefined ? "" : ` (${unit})`}`)
                .join(", ")}
            </td>
            <td>{texts.templates.seconds(timeoutSeconds)}</td>
          </tr>
        )}
      </ListTable>
    </Section>
  );
}

function Users({ organizationId, slug, templateId }: { organizationId: string; slug: string; templateId: string }) {
  const texts = useTexts();
  const locale = useLocale();
  const usage = useInfiniteQuery(usageQuery(organizationId, templateId));
  const first = usage.data?.pages[0];
  const plants = usage.data?.pages.flatMap((page) => page.plants.data) ?? [];
  return (
    <Section title={texts.templates.users}>
      <Failure error={usage.error} />
      {first && (
        <p className="fine">
          {texts.templates.usage(count(first.plantCount, locale), count(first.deviceCount, locale))}
        </p>
      )}
      <ListTable rows={plants} headings={[texts.fleet.name, texts.fleet.status, texts.templates.use]}>
        {(plant) => (
          <tr key={plant.id}>
            <PlantHeading slug={slug} plant={plant} tab="devices" />
            <td>
              <PlantState status={plant.status} />
            </td>
            <td>{texts.templates.usedAs(plant.usesItself, plant.deviceCount)}</td>
          </tr>
        )}
      </ListTable>
      <More list={usage} />
    </Section>
  );
}
