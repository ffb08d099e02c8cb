import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { count } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { templatesOfAllLevelsQuery, usageQuery } from "../templates";
import { Failure } from "../ui/failure";
import { PageHead } from "../ui/page-head";
import { ListTable } from "../ui/table";

const route = getRouteApi("/inside/o/$slug/templates");

/** The device templates, with how many plants and devices of the organisation use each. */
export function TemplatesScreen() {
  const texts = useTexts();
  const locale = useLocale();
  const { user, organization } = route.useRouteContext();
  const { slug } = organization;
  const templates = useQuery(templatesOfAllLevelsQuery);
  return (
    <>
      <PageHead title={texts.templates.title} of={organization.name}>
        {user.isSuperAdmin && (
          <Link to="/o/$slug/templates/new" params={{ slug }} className="button primary">
            {texts.templates.add}
          </Link>
        )}
      </PageHead>
      <p className="fine">{texts.templates.help}</p>
      <Failure error={templates.error} />
      <ListTable
        rows={templates.data}
        headings={[
          texts.templates.template,
          texts.devices.type,
          texts.templates.level,
          { label: texts.templates.signals, kind: "number" },
          { label: texts.templates.usedBy, kind: "number" },
        ]}
      >
        {(template) => (
          <tr key={template.id}>
            <th scope="row">
              <Link to="/o/$slug/templates/$templateId" params={{ slug, templateId: template.id }}>
                {template.name}
              </Link>
              <span className="fine">
                {texts.templates.version(template.version)}
                {template.isSystem && ` · ${texts.templates.system}`}
              </span>
            </th>
            <td>{template.level === "SUB_DEVICE" && texts.devices.types[template.type]}</td>
            <td>{texts.templates.levels[template.level]}</td>
            <td className="number">{count(template.signals.length, locale)}</td>
            <td className="number">
              <UsageCount organizationId={organization.id} templateId={template.id} />
            </td>
          </tr>
        )}
      </ListTable>
    </>
  );
}

function UsageCount({ organizationId, templateId }: { organizationId: string; templateId: string }) {
  const texts = useTexts();
  const locale = useLocale();
  // The numbers are of all plants, however few are listed with them.
  const usage = useInfiniteQuery(usageQuery(organizationId, templateId, 1)).data?.pages[0];
  return usage && texts.templates.usage(count(usage.plantCount, locale), count(usage.deviceCount, locale));
}
