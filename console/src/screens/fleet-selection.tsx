import { getRouteApi, Link } from "@tanstack/react-router";
import { Suspense, useRef, useState } from "react";
import { count } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { mayAct } from "../session";
import { Failure } from "../ui/failure";
import type { FleetSelection } from "../ui/fleet-selection";
import { lazyPart } from "../ui/lazy-part";
import { Total } from "../ui/total";
import type { Group } from "./group-dialog";

const route = getRouteApi("/inside/o/$slug/fleet");
const GroupDialog = lazyPart(async () => (await import("./group-dialog")).GroupDialog);

/** Plants that were added to a group. */
interface Added {
  group: Group;
  ids: ReadonlySet<string>;
}

interface Props {
  /** How many plants match; undefined until the list is loaded. */
  total: number | undefined;
  selection: FleetSelection;
}

/** How many plants match or are selected, and what can be done with them. */
export function FleetActions({ total, selection }: Props) {
  const texts = useTexts();
  const locale = useLocale();
  const { user, organization } = route.useRouteContext();
  const [isAdding, setIsAdding] = useState(false);
  const [added, setAdded] = useState<Added | null>(null);
  const exporting = useRef<HTMLButtonElement>(null);
  const { ids, progress, isReading } = selection;
  const isSelected = ids.size > 0;
  return (
    <>
      <div className={isSelected ? "toolbar selection bulk" : "toolbar selection"}>
        <Total total={isSelected ? ids.size : total} text={isSelected ? texts.fleet.selected : texts.fleet.count} />
        {isSelected && mayAct(user, organization, "OPERATOR") && (
          <button type="button" onClick={() => setIsAdding(true)}>
            {texts.fleet.addToGroup}
          </button>
        )}
        {total !== undefined && total + ids.size > 0 && (
          <button type="button" ref={exporting} onClick={() => selection.save()} disabled={isReading}>
            {texts.fleet.export}
          </button>
        )}
        {isSelected && (
          <button
            type="button"
            onClick={() => {
              // The keyboard stays at the buttons, of which this one disappears.
              exporting.current?.focus();
              selection.clear();
            }}
          >
            {texts.fleet.clear}
          </button>
        )}
        <output className="fine">
          {progress !== null && texts.fleet.reading(count(progress.read, locale), count(progress.total, locale))}
          {progress === null && added?.ids === ids && <AddedTo added={added} />}
        </output>
        <Failure error={selection.error} />
      </div>
      {isAdding && (
        <Suspense>
          <GroupDialog
            organizationId={organization.id}
            plantIds={[...ids]}
            onAdded={(group) => {
              setAdded({ group, ids });
              setIsAdding(false);
            }}
            onMissing={selection.leaveOutDeleted}
            onClose={() => setIsAdding(false)}
          />
        </Suspense>
      )}
    </>
  );
}

/** Say to which group plants were added. */
function AddedTo({ added: { group, ids } }: { added: Added }) {
  const texts = useTexts();
  const locale = useLocale();
  const { slug } = route.useParams();
  return (
    <>
      {texts.groups.added(count(ids.size, locale), ids.size)}{" "}
      <Link to="/o/$slug/groups/$groupId" params={{ slug, groupId: group.id }}>
        {group.name}
      </Link>
    </>
  );
}

/** A box that selects all plants that match, also those that are not loaded, or none. */
export function SelectAll({ selection }: { selection: FleetSelection }) {
  const texts = useTexts();
  const { ids, isAll, isReading, selectAll, clear } = selection;
  return (
    <th scope="col" className="select">
      <input
        type="checkbox"
        aria-label={texts.fleet.selectAll}
        checked={isAll}
        disabled={isReading}
        ref={(box) => {
          if (box !== null) box.indeterminate = ids.size > 0 && !isAll;
        }}
        onChange={() => (isAll ? clear() : selectAll())}
      />
    </th>
  );
}
