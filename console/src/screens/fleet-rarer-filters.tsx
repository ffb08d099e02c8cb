import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { allGroupsQuery } from "../groups";
import { useTexts } from "../i18n";
import { type FleetSearch, LIFECYCLES } from "../searches/fleet";
import { nameAmong } from "../template-choice";
import { templatesOfAllLevelsQuery } from "../templates";
import { Failure } from "../ui/failure";
import { CheckField, FilterField } from "../ui/fields";

const route = getRouteApi("/inside/o/$slug/fleet");

/** The filters of the fleet that seldom are set, and a button that clears them. */
export function FleetRarerFilters() {
  const texts = useTexts();
  const { lifecycleStatus, groupId, templateId, refused } = route.useSearch();
  const navigate = route.useNavigate();
  const { organization } = route.useRouteContext();
  const groups = useQuery(allGroupsQuery(organization.id));
  const templates = useQuery(templatesOfAllLevelsQuery);
  const filter = (changed: FleetSearch) => navigate({ search: (before) => ({ ...before, ...changed }) });
  return (
    <div className="panel">
      <Failure error={groups.error ?? templates.error} />
      <RecordField
        label={texts.groups.group}
        records={groups.data}
        id={groupId}
        onChoose={(chosen) => filter({ groupId: chosen })}
      />
      <RecordField
        label={texts.templates.template}
        records={templates.data?.map((one) => ({
          id: one.id,
          name: nameAmong(one, templates.data, texts.templates.version),
        }))}
        id={templateId}
        onChoose={(chosen) => filter({ templateId: chosen })}
      />
      <FilterField
        label={texts.fleet.messages}
        value={refused && "REFUSED"}
        values={["REFUSED"]}
        labels={texts.fleet.refusedLately}
        onChoose={(chosen) => filter({ refused: chosen && true })}
      />
      <fieldset className="checks">
        <legend>{texts.credentials.lifecycle}</legend>
        {LIFECYCLES.map((one) => (
          <CheckField
            key={one}
            checked={lifecycleStatus?.includes(one) ?? false}
            onChange={({ target }) =>
              filter({
                lifecycleStatus: LIFECYCLES.filter((other) =>
                  other === one ? target.checked : lifecycleStatus?.includes(other),
                ),
              })
            }
          >
            {texts.lifecycle[one]}
          </CheckField>
        ))}
      </fieldset>
      <button
        type="button"
        onClick={() =>
          filter({ lifecycleStatus: undefined, groupId: undefined, templateId: undefined, refused: undefined })
        }
      >
        {texts.fleet.clearFilters}
      </button>
    </div>
  );
}

interface RecordProps {
  label: string;
  /** undefined until they are loaded. */
  records: readonly { id: string; name: string }[] | undefined;
  /** undefined: all. */
  id: string | undefined;
  onChoose: (id: string | undefined) => void;
}

/** A field that filters a list by one record. That of a link may no longer exist. */
function RecordField({ label, records = [], id, onChoose }: RecordProps) {
  const texts = useTexts();
  const names = Object.fromEntries(records.map((record) => [record.id, record.name]));
  const known = id === undefined || id in names ? names : { ...names, [id]: texts.fleet.notFound };
  return <FilterField label={label} value={id} values={Object.keys(known)} labels={known} onChoose={onChoose} />;
}
