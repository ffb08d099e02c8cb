import { apiOf, dataOf } from "../api/client";
import type { components } from "../api/schema";
import { changesOf, fieldText } from "../form-data";
import type { CountedGroup } from "../groups";
import { useTexts } from "../i18n";
import { Dialog } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { Field } from "../ui/fields";
import { Buttons, Form } from "../ui/form";
import { useSaving } from "../ui/saving";

interface Props {
  organizationId: string;
  group: CountedGroup;
  onClose: () => void;
}

/** A form with the name and the description of a group. */
export function GroupEditor({ organizationId, group, onClose }: Props) {
  const texts = useTexts();
  const shown = { name: group.name, description: group.description ?? "" };
  const params = { path: { id: group.id } };
  const save = useSaving(
    organizationId,
    (body: components["schemas"]["PlantGroupPatch"]) =>
      dataOf(apiOf(organizationId).PATCH("/api/v1/plant-groups/{id}", { params, body })),
    onClose,
  );
  return (
    <Dialog title={texts.admin.changeNamed(group.name)} onClose={onClose} isKept={save.isPending}>
      <Form
        onSubmit={(values) =>
          save.mutate(
            changesOf(shown, { name: fieldText(values, "name"), description: fieldText(values, "description") }),
          )
        }
      >
        <Field label={texts.people.name} name="name" required maxLength={100} defaultValue={shown.name} />
        <Field label={texts.admin.description} name="description" maxLength={500} defaultValue={shown.description} />
        <Failure error={save.error} />
        <Buttons action={texts.save} disabled={save.isPending} onCancel={onClose} />
      </Form>
    </Dialog>
  );
}
