import { useMutation } from "@tanstack/react-query";
import { apiOf, dataOf, inOrganization } from "../api/client";
import { fieldText } from "../form-data";
import { useTexts } from "../i18n";
import type { ApiKey } from "../partners";
import { Dialog } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { Field } from "../ui/fields";
import { Buttons, Form } from "../ui/form";

/** Log in at the broker with a key. Its text is asked for, because the service keeps none. */
export function KeyTestDialog({ apiKey, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  const texts = useTexts();
  const test = useMutation({
    mutationFn: (form: FormData) =>
      dataOf(
        apiOf(apiKey.organizationId).POST("/api/v1/partner/api-keys/{id}/test-connection", {
          params: { header: inOrganization(apiKey.organizationId), path: { id: apiKey.id } },
          body: { key: fieldText(form, "key") },
        }),
      ),
  });
  return (
    <Dialog title={texts.partners.testTitle(apiKey.name)} onClose={onClose}>
      <Form onSubmit={(values) => test.mutate(values)}>
        <p>{texts.partners.testHelp}</p>
        <Field label={texts.partners.secretKey} name="key" type="password" required maxLength={200} />
        <Failure error={test.error} />
        <p role="status">
          {test.data &&
            (test.data.ok ? texts.partners.passed(test.data.durationMs) : texts.partners.failed(test.data.error ?? ""))}
        </p>
        <Buttons action={texts.partners.test} disabled={test.isPending} onCancel={onClose} />
      </Form>
    </Dialog>
  );
}
