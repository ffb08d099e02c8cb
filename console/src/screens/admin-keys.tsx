import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { keyVersionsQuery } from "../admin";
import { api, dataOf } from "../api/client";
import { count } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { Fact } from "../ui/fact";
import { Failure } from "../ui/failure";
import { SelectField } from "../ui/fields";
import { Form } from "../ui/form";
import { PageHead } from "../ui/page-head";
import { CheckState } from "../ui/state";
import { ListTable } from "../ui/table";

/** The versions of the key that encrypts stored credentials. */
export function KeysScreen() {
  const texts = useTexts();
  const locale = useLocale();
  const queryClient = useQueryClient();
  const versions = useQuery(keyVersionsQuery);
  const inKeyring = versions.data?.filter(({ isInKeyring }) => isInKeyring).map(({ version }) => String(version)) ?? [];
  const isNeeded = versions.data?.some(({ isCurrent, rows }) => !isCurrent && rows > 0);
  const rewrap = useMutation({
    mutationFn: (targetVersion: number) =>
      dataOf(api.POST("/api/v1/internal/crypto/rewrap", { body: { targetVersion } })),
    onSettled: () => queryClient.invalidateQueries(keyVersionsQuery),
  });
  return (
    <>
      <PageHead title={texts.admin.keys} of="Gridfleet" />
      <p className="fine">{texts.admin.keysHelp}</p>
      <Failure error={versions.error} />
      <ListTable
        rows={versions.data}
        label={texts.admin.keyVersions}
        headings={[texts.admin.keyVersion, { label: texts.admin.keyRows, kind: "number" }, texts.fleet.status]}
      >
        {({ version, isInKeyring, isCurrent, rows }) => (
          <tr key={version}>
            <th scope="row">{version}</th>
            <td className="number">{count(rows, locale)}</td>
            <td>
              <CheckState isGood={isInKeyring} word={texts.admin.keyState(isInKeyring, isCurrent, rows)} />
            </td>
          </tr>
        )}
      </ListTable>
      <Form className="card form" onSubmit={(values) => rewrap.mutate(Number(values.get("version")))}>
        <SelectField
          key={inKeyring.join()}
          label={texts.admin.targetVersion}
          name="version"
          values={inKeyring}
          labels={Object.fromEntries(inKeyring.map((version) => [version, version]))}
          defaultValue={String(versions.data?.find(({ isCurrent }) => isCurrent)?.version)}
        />
        <Failure error={rewrap.error} />
        <div className="toolbar">
          <button
            type="submit"
            className={isNeeded ? "primary" : undefined}
            disabled={rewrap.isPending || inKeyring.length === 0}
          >
            {texts.admin.rewrap}
          </button>
        </div>
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
