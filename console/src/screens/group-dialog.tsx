import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError } from "../api/error";
import { count } from "../format/quantities";
import { addToGroup, allGroupsQuery, createGroup } from "../groups";
import { useLocale, useTexts } from "../i18n";
import { Dialog } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { Field } from "../ui/fields";
import { Buttons, Form } from "../ui/form";

export interface Group {
  id: string;
  name: string;
}

interface Props {
  organizationId: string;
  plantIds: readonly string[];
  /** Called when all plants are in the group. */
  onAdded: (group: Group) => void;
  /** Called when one of the plants does not exist, or the group. */
  onMissing: () => void;
  onClose: () => void;
}

/** Add plants to a group, or to a new one. */
export function GroupDialog({ organizationId, plantIds, onAdded, onMissing, onClose }: Props) {
  const texts = useTexts();
  const locale = useLocale();
  const queryClient = useQueryClient();
  const groups = useQuery(allGroupsQuery(organizationId));
  const [created, setCreated] = useState<Group | null>(null);
  const [chosen, setChosen] = useState("");
  const options = withGroup(groups.data ?? [], created);
  // The chosen group may have been deleted meanwhile.
  const groupId = options.some(({ id }) => id === chosen) ? chosen : "";
  const create = async (name: string) => {
    const group = await createGroup(organizationId, name);
    // If the plants cannot be added, the next attempt must not create a second one.
    setCreated(group);
    setChosen(group.id);
    return group;
  };
  const add = useMutation({
    mutationFn: async (name: string) => {
      const group = options.find(({ id }) => id === groupId) ?? (await create(name));
      await addToGroup(organizationId, group.id, plantIds);
      return group;
    },
    onSuccess: onAdded,
    onError: (error) => error instanceof ApiError && error.status === 404 && onMissing(),
    onSettled: () => queryClient.invalidateQueries({ queryKey: [organizationId, "groups"] }),
  });
  return (
    <Dialog
      title={texts.groups.addSelected(count(plantIds.length, locale), plantIds.length)}
      onClose={onClose}
      isKept={add.isPending}
    >
      <Form onSubmit={(values) => add.mutate(String(values.get("name")))}>
        <label>
          {texts.groups.group}
          <select value={groupId} onChange={({ target }) => setChosen(target.value)}>
            <option value="">{texts.groups.newGroup}</option>
            {options.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        </label>
        {groupId === "" && <Field label={texts.groups.name} name="name" required maxLength={100} />}
        <Failure error={groups.error ?? add.error} />
        <Buttons action={texts.groups.addTo} disabled={add.isPending || plantIds.length === 0} onCancel={onClose} />
      </Form>
    </Dialog>
  );
}

/** Return groups with one that they may not contain yet. */
function withGroup(groups: readonly Group[], added: Group | null): readonly Group[] {
  return added === null || groups.some(({ id }) => id === added.id) ? groups : [added, ...groups];
}
