import { useMutation } from "@tanstack/react-query";
import { api, dataOf } from "../api/client";
import { count } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { Fact } from "../ui/fact";
import { Failure } from "../ui/failure";
import { Field } from "../ui/fields";
import { Buttons, Form } from "../ui/form";
import { PageHead } from "../ui/page-head";
import { CheckState } from "../ui/state";

/** The versions of the key that encrypts stored credentials. */
export function KeysScreen() {
  const texts = useTexts();
  const locale = useLocale();
  const rewrap = useMutation({
    mutationFn: (targetVersion: number) =>
      dataOf(api.POST("/api/v1/internal/crypto/rewrap", { body: { targetVersion } })),
  });
  return (
    <>
      <PageHead title={texts.admin.keys} of="Gridfleet" />
      <p className="fine">{texts.admin.keysHelp}</p>
      <Form className="card form" onSubmit={(values) => rewrap.mutate(Number(values.get("version")))}>
        <Field label={texts.admin.targetVersion} name="version" type="number" min={1} step={1} required />
        <Failure error={rewrap.error} />
        <Buttons action={texts.admin.rewrap} disabled={rewrap.isPending} />
      </Form>
      <div role="status">
        {rewrap.isPending && <p>{texts.admin.rewrapping}</p>}
        {rewrap.data && (
          <>
            <p>
              <CheckState
                isGood={rewrap.data.failed === 0}
                word={rewrap.data.failed === 0 ? texts.admin.rewrapped : texts.admin.notRewrapped}
              />
            </p>
            <dl className="details block">
              <Fact name={texts.admin.targetVersion}>{rewrap.data.targetVersion}</Fact>
              <Fact name={texts.admin.rewrappedPlants}>{count(rewrap.data.plants, locale)}</Fact>
              <Fact name={texts.admin.rewrappedConfigurations}>{count(rewrap.data.tradingPartnerConfigs, locale)}</Fact>
              <Fact name={texts.admin.rewrapFailed}>{count(rewrap.data.failed, locale)}</Fact>
            </dl>
          </>
        )}
      </div>
    </>
  );
}
