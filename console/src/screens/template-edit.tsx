import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { templateQuery } from "../templates";
import { Failure } from "../ui/failure";
import { SubPageHead } from "../ui/sub-page-head";
import { TemplateForm } from "./template-form";

/** The editor of a new template, which may begin with the signals of another one. */
export function NewTemplateScreen() {
  const { from } = getRouteApi("/inside/o/$slug/templates/new").useSearch();
  return <Editor sourceId={from} isNew />;
}

/** The editor of a template. */
export function EditTemplateScreen() {
  const { templateId } = getRouteApi("/inside/o/$slug/templates/$templateId/edit").useParams();
  return <Editor sourceId={templateId} isNew={false} />;
}

function Editor({ sourceId, isNew }: { sourceId: string | undefined; isNew: boolean }) {
  const texts = useTexts();
  const { user, organization } = getRouteApi("/inside/o/$slug").useRouteContext();
  // Fields keep the values that they begin with: they begin with those of now, not of the last visit.
  const source = useQuery({
    ...templateQuery(sourceId ?? ""),
    enabled: sourceId !== undefined,
    refetchOnMount: "always",
  });
  const mayWrite = user.isSuperAdmin && (isNew || source.data?.isSystem !== true);
  return (
    <>
      <SubPageHead
        title={isNew ? texts.templates.add : (source.data?.name ?? texts.templates.template)}
        organization={organization}
      >
        <Link to="/o/$slug/templates" params={{ slug: organization.slug }}>
          {texts.templates.title}
        </Link>
      </SubPageHead>
      <Failure error={source.error} />
      {!mayWrite && <p className="card empty">{texts.templates.readOnly}</p>}
      {mayWrite && (sourceId === undefined || (source.data && source.isFetchedAfterMount)) && (
        <TemplateForm key={sourceId} source={source.data ?? null} isNew={isNew} />
      )}
    </>
  );
}
